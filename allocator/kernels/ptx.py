"""Compiles the kernels of this folder, of inspect/kernels and of tests/contract: FILE.cu to FILE.ptx.h, a string of PTX that any driver since CUDA 10.1 takes.

    python3 allocator/kernels/ptx.py            writes them (./dev ptx)
    python3 allocator/kernels/ptx.py --check    fails if one was made of another source; needs no nvcc

The headers are committed, so that a build needs no nvcc.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
# The oldest PTX and device that the kernels need. The compiler's own are newer than the drivers that people have.
VERSION, TARGET = "6.4", "sm_60"


def find_nvcc() -> str | None:
    return shutil.which("nvcc") or next(
        (str(path) for path in (Path("/usr/local/cuda/bin/nvcc"), FOLDER.parents[1] / ".deps/cuda/bin/nvcc") if path.exists()), None
    )


def first_line(source: Path) -> str:
    return f"/* Made of {source.name} by ./dev ptx; sha256 of the source: {hashlib.sha256(source.read_bytes()).hexdigest()[:32]} */\n"


def compiled(nvcc: str, source: Path) -> str:
    """Returns the header's text. Raises CalledProcessError if the source, or the PTX for that version, does not compile."""
    with tempfile.TemporaryDirectory() as folder:
        raw, ptx = Path(folder, "raw.ptx"), Path(folder, "out.ptx")
        subprocess.run([nvcc, "-ptx", "-arch=compute_75", "-o", raw, source], check=True)
        text = re.sub(r"^\s*//.*\n", "", raw.read_text(), flags=re.M)
        text = re.sub(r"^\.version .*$", f".version {VERSION}", text, flags=re.M)
        text = re.sub(r"^\.target .*$", f".target {TARGET}", text, flags=re.M)
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines() if line.strip())
        ptx.write_text(text)
        subprocess.run([nvcc, "-cubin", "-arch=sm_90", "-o", Path(folder, "out.cubin"), ptx], check=True)
    name = source.stem
    rows = "\n".join('    "{}\\n"'.format(row.replace("\\", "\\\\").replace('"', '\\"').replace("\t", " ")) for row in text.splitlines())
    guard = f"CUFENCE_KERNELS_{name.upper()}_PTX_H"
    return (
        f"{first_line(source)}#ifndef {guard}\n#define {guard}\n\n"
        f"/* clang-format off */\nstatic const char {name}_ptx[] =\n{rows};\n/* clang-format on */\n\n#endif\n"
    )


def main() -> int:
    sources = sorted([*FOLDER.glob("*.cu"), *FOLDER.parent.glob("inspect/kernels/*.cu"), FOLDER.parents[1] / "tests/contract/kernels.cu"])
    if "--check" in sys.argv:
        stale = [s for s in sources if not s.with_suffix(".ptx.h").exists() or not s.with_suffix(".ptx.h").read_text().startswith(first_line(s))]
        for source in stale:
            print(f"ptx.py: {source.stem}.ptx.h was not made of this {source.name}: run ./dev ptx", file=sys.stderr)
        return bool(stale)
    nvcc = find_nvcc()
    if not nvcc:
        print("ptx.py: nvcc not found", file=sys.stderr)
        return 2
    for source in sources:
        source.with_suffix(".ptx.h").write_text(compiled(nvcc, source))
    return 0


if __name__ == "__main__":
    sys.exit(main())
