"""Fetches the C++ headers of the PyTorch versions that wheels are made for: python3 cmake/torch_headers.py [--to .deps/torch]

Each version gets a folder VERSION-KEY, after which the object in the wheel is named (torch.cmake); the key says which installed PyTorch
it fits (allocator/torch/cufence/_shim.py). The headers of c10 are the same in PyTorch's packages for all systems, and those for macOS
are the smallest: 75 to 140 MB each, of which 3 MB are kept. Exit status 1 if a version could not be had; the others are there.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "allocator" / "torch"))
from cufence import _shim  # noqa: E402

# A new release of PyTorch is a line here. A bug-fix release needs one only if what _shim.HEADERS name has changed in it.
VERSIONS = (
    "2.8.0",
    "2.9.1",
    "2.10.0",
    "2.11.0",
    "2.12.1",
    "2.13.0",
    "2.14.1",
    "2.15.0",
)
WHEEL = ("--only-binary", ":all:", "--platform", "macosx_14_0_arm64", "--python-version", "3.12")
KEPT = ("torch/include/c10/", "torch/include/torch/headeronly/")


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
        (Path(holder) / "torch" / "include").rename(folder / version)


def say_newer() -> None:
    """Says if PyPI has a release with no line in VERSIONS: its users would get PyTorch's slower back end."""
    done = subprocess.run([sys.executable, "-m", "pip", "index", "versions", "torch"], capture_output=True, text=True, check=False)
    newest = re.match(r"torch \((\d+)\.(\d+)\.", done.stdout)
    if newest and tuple(map(int, newest.groups())) > tuple(map(int, VERSIONS[-1].split(".")[:2])):
        what = f"PyPI has PyTorch {'.'.join(newest.groups())}, which has no line in {Path(__file__).name}"
        print(f"{what}: add one and run tests/python/test_torch.py", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--to", type=Path, default=ROOT / ".deps" / "torch")
    folder = parser.parse_args().to
    folder.mkdir(parents=True, exist_ok=True)
    missing = False
    for version in VERSIONS:
        here = next(folder.glob(f"{version}-*"), folder / version)
        try:
            if not here.exists():
                print(f"fetching the headers of PyTorch {version}", flush=True)
                fetch(version, folder)
            here.rename(folder / f"{version}-{_shim.key(here)}")
        except (OSError, RuntimeError) as error:
            print(f"the headers of PyTorch {version} could not be had: {error}", file=sys.stderr)
            missing = True
    say_newer()
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
