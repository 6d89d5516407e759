"""Runs a command among whose programs may be those of AArch64: ./dev test aarch64

    python3 cmake/emulated.py [COMMAND...]

Fetches, into .deps/aarch64, the libraries that such programs need, and qemu. The kernel is told to start them with qemu, in a user
namespace of the command's own, so that nothing changes for the rest of the machine; that takes Linux 6.7 or later. Where the machine
has been set up to start them by itself, that is used.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from debian import run, unpacked  # noqa: E402

TOOLS = Path(__file__).resolve().parents[1] / ".deps" / "aarch64"
PACKAGES = ("libc6", "libgcc-s1", "libstdc++6", "uthash-dev", "zlib1g", "zlib1g-dev", "libjansson4", "libjansson-dev",
            "libzstd1", "libzstd-dev", "libcmocka0", "libcmocka-dev", "libelf1", "libelf-dev", "libdw1", "libdw-dev", "liblzma5",
            "libbz2-1.0")  # fmt: skip
BINFMT = Path("/proc/sys/fs/binfmt_misc")
# The first 20 bytes of a program: 64 bits, little-endian, executable or shared, EM_AARCH64. As in qemu's scripts/qemu-binfmt-conf.sh.
MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"


def qemu() -> Path:
    """Statically linked: LD_PRELOAD and LD_LIBRARY_PATH are the program's, not its own. Before version 8, reserving address space takes
    time for each page of it, and cufence reserves many TiB."""
    link = TOOLS / "qemu"
    if not link.exists():
        architecture = run("dpkg", "--print-architecture").strip()
        found = re.search(r"Candidate: (?:\d+:)?(\d+)", run("apt-cache", "policy", "qemu-user-static"))
        is_new = found is not None and int(found[1]) >= 8
        root = unpacked(TOOLS / "tools", architecture, ("qemu-user-static" if is_new else "qemu-user",), "" if is_new else "trixie")
        program = root / "usr/bin/qemu-aarch64-static"
        link.symlink_to(program if program.exists() else program.with_name("qemu-aarch64"))
    return link


def is_set_up() -> bool:
    return any("enabled" in handler.read_text() for handler in BINFMT.glob("qemu-aarch64*"))


def main() -> int:
    TOOLS.mkdir(parents=True, exist_ok=True)
    root, program = unpacked(TOOLS, "arm64", PACKAGES), qemu().resolve()
    command = sys.argv[1:]
    if not command:
        return 0
    environment = {**os.environ, "QEMU_LD_PREFIX": str(root)}
    if not is_set_up():
        line = f":qemu-aarch64:M::{MAGIC}:{MASK}:{program}:OPF"
        script = 'mount -t binfmt_misc none "$0" && printf %s "$1" >"$0/register" && shift && exec "$@"'
        command = ["unshare", "--user", "--map-current-user", "--keep-caps", "--mount", "sh", "-c", script, str(BINFMT), line, *command]
    os.execvpe(command[0], command, environment)


if __name__ == "__main__":
    sys.exit(main())
