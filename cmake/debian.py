"""Debian's packages of any architecture, unpacked into a folder and not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run(*command: str | Path, **named: object) -> str:
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **named)  # type: ignore
    if done.returncode:
        sys.exit(f"{Path(sys.argv[0]).stem}: {' '.join(map(str, command))}: status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def unpacked(folder: Path, architecture: str, packages: tuple[str, ...], suite: str = "") -> Path:
    """Where the files of `packages` are, of this system's release or of the named one. apt gets folders of its own, so that the
    system's lists stay as they are."""
    root, names = folder / "root", folder / "names"
    if root.exists() and names.exists() and names.read_text().split() == sorted(packages):
        return root
    for name in ("state/lists/partial", "cache/archives/partial", "packages"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    apt = ["apt-get", "-q", "-o", f"APT::Architecture={architecture}", "-o", f"APT::Architectures={architecture}",
           "-o", f"Dir::State={folder / 'state'}", "-o", f"Dir::Cache={folder / 'cache'}",
           "-o", f"Dir::State::status={folder / 'status'}", "-o", "APT::Sandbox::User=root"]  # fmt: skip
    if suite:
        site = run("apt-get", "indextargets", "--format", "$(SITE)", "Component: main", "Origin: Debian").split()[0]
        keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
        (folder / "sources.list").write_text(f"deb [signed-by={keys}] {site} {suite} main\n")
        apt += ["-o", f"Dir::Etc::SourceList={folder / 'sources.list'}", "-o", "Dir::Etc::SourceParts=/dev/null"]
    run(*apt, "update")
    run(*apt, "download", *packages, cwd=folder / "packages")
    for package in sorted((folder / "packages").glob("*.deb")):
        run("dpkg", "-x", package, root)
    names.write_text("\n".join(sorted(packages)))
    return root
