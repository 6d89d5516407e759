"""Fetches the C++ headers of the PyTorch releases that cufence has an allocator for: python3 cmake/torch_headers.py [--installed]

Each minor release gets a folder of .deps/torch, for which torch.cmake builds a class. --installed fetches nothing: only the PyTorch of
this Python, if it has one, is linked there. The headers of c10 are the same in PyTorch's packages for all systems, and those for macOS
are the smallest: 75 to 140 MB each, of which 3 MB are kept. Exit status 1 if a version could not be had; the others are there.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# The five newest minor releases, each in its newest bug-fix release; those of torch.h's CUFENCE_TORCH_FIRST and CUFENCE_TORCH_LAST.
VERSIONS = ("2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")
WHEEL = ("--only-binary", ":all:", "--platform", "macosx_14_0_arm64", "--python-version", "3.12")
KEPT = ("torch/include/c10/", "torch/include/torch/headeronly/")


def minor(version: str) -> str:
    return version.rpartition(".")[0]


def fetch(version: str, folder: Path) -> None:
    """Raises RuntimeError if pip can't have the package."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "1", "--timeout", "20", *WHEEL]
    with tempfile.TemporaryDirectory(dir=folder) as holder:
        done = subprocess.run([*pip, "--dest", holder, f"torch=={version}"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["pip says nothing"])[-1])
        (package,) = Path(holder).glob("*.whl")
        with zipfile.ZipFile(package) as archive:
            archive.extractall(holder, [name for name in archive.namelist() if name.startswith(KEPT)])
        (Path(holder) / "torch" / "include").rename(folder / minor(version))


def link_installed(folder: Path) -> None:
    """Of a release, unless its headers are there; of a PyTorch that was built from source, under its whole version."""
    found = importlib.util.find_spec("torch")
    package = Path(found.origin).parent if found and found.origin else Path("/nonexistent")
    if not (package / "lib" / "libc10_cuda.so").is_file():
        return
    (version,) = re.findall(r"^__version__ = '([^']+)'", (package / "version.py").read_text(), re.M)
    is_release = re.fullmatch(r"(\d+\.\d+)\.\d+(\+cu.*)?", version)
    here = folder / (is_release[1] if is_release else version)
    if here.is_symlink():
        here.unlink()  # maybe of another environment
    if not here.exists():
        here.symlink_to(package / "include")


def say_newer() -> None:
    """Says if PyPI has a release with no line in VERSIONS: its users would get PyTorch's slower back end."""
    done = subprocess.run([sys.executable, "-m", "pip", "index", "versions", "torch"], capture_output=True, text=True, check=False)
    newest = re.match(r"torch \((\d+)\.(\d+)\.", done.stdout)
    if newest and tuple(map(int, newest.groups())) > tuple(map(int, VERSIONS[-1].split(".")[:2])):
        what = f"PyPI has PyTorch {'.'.join(newest.groups())}, which is not in {Path(__file__).name}"
        print(f"{what}: add it and run tests/python/test_torch.py", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--to", type=Path, default=ROOT / ".deps" / "torch")
    parser.add_argument("--installed", action="store_true", help="link those of this Python's PyTorch instead")
    arguments = parser.parse_args()
    folder = arguments.to
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.installed:
        link_installed(folder)
        return 0
    missing = False
    for version in VERSIONS:
        try:
            if not (folder / minor(version)).exists():
                print(f"fetching the headers of PyTorch {version}", flush=True)
                fetch(version, folder)
        except (OSError, RuntimeError) as error:
            print(f"the headers of PyTorch {version} could not be had: {error}", file=sys.stderr)
            missing = True
    say_newer()
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
