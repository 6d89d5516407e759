#!/usr/bin/env python3
"""Plants defects that have names in a copy of the tree, one at a time. The generator of programs (tests/torture) has to find each.

    mutants.py [NAME...]      these, or all; status 0 if each is found, and nothing without one

The copy is build-mutants/tree, built without optimisation. torture.mutation has the defects, each of the form

    defect NAME: a sentence
    with: surroundings  what torture.py is given besides (may be left out)
    file: allocator/...
    seeds: 600          most to play (may be left out), and where the defect shows only in one kind of chunk:
    first: 250          where to begin (may be left out)
    @@
     lines as in a patch, of which those that begin
    -with a blank or a minus stand in the file exactly once
    +and those with a blank or a plus take their place

with one or more such hunks; another `file:` between them is where the following ones are. Lines that are not there any more are
an error: the defect has to follow the code.
"""
import argparse
import collections
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "build-mutants"
TREE, BUILD = WORK / "tree", WORK / "build"
LIBRARIES = ("cufence", "cufence_cli", "cufence_preload")
SEEDS = 1200

Defect = collections.namedtuple("Defect", "name player what seeds first edits")  # edits: (file, old, new)


def read(text):
    name, what, rest = re.fullmatch(r"defect (\w+): (.*?)\n(.*)", text, re.S).groups()
    fields, edits = {}, []
    for line in rest.rstrip().splitlines():
        if field := re.fullmatch(r"(\w+): *(.*)", line):
            fields[field[1]] = field[2]
        elif line == "@@":
            edits.append((fields["file"], [], []))
        else:
            _, old, new = edits[-1]
            old += [line[1:]] * (line[:1] != "+")
            new += [line[1:]] * (line[:1] != "-")
    edits = [(file, "".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new)) for file, old, new in edits]
    return Defect(name, fields.get("with"), what, int(fields.get("seeds", SEEDS)), int(fields.get("first", 0)), edits)


def chosen(names):
    """Returns the defects of these names, all without any."""
    defects = [read(text) for text in re.split(r"^(?=defect )", (HERE / "torture.mutation").read_text(), flags=re.M) if text]
    unknown = set(names) - {defect.name for defect in defects}
    if unknown:
        sys.exit(f"mutants: no defect {' '.join(sorted(unknown))}")
    return [defect for defect in defects if not names or defect.name in names]


def harmed(tree, defect):
    """Returns the texts of the files with the defect planted, by their names."""
    texts = {file: (tree / file).read_text() for file, _, _ in defect.edits}
    for file, old, new in defect.edits:
        if texts[file].count(old) != 1:
            sys.exit(f"mutants: {defect.name}: its text occurs {texts[file].count(old)} times in {file}:\n{old}")
        texts[file] = texts[file].replace(old, new)
    return texts


# ---- the copy and its build ------------------------------------------------------------------------------------------


def copy_tree():
    """Writes only what differs, so that little is built anew."""
    listed = subprocess.check_output(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True)
    names = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    for name in names:
        content, to = (ROOT / name).read_bytes(), TREE / name
        if not to.exists() or to.read_bytes() != content:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(content)
            shutil.copymode(ROOT / name, to)
    for file in TREE.rglob("*"):
        if file.is_file() and str(file.relative_to(TREE)) not in names and ".deps" not in file.parts:
            file.unlink()
    if (ROOT / ".deps").exists() and not (WORK / ".deps").exists():
        (WORK / ".deps").symlink_to(ROOT / ".deps")  # cmake/cuda.cmake looks for cuda.h beside the build folder


def run(what, *command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          env=dict(os.environ, CCACHE_BASEDIR=str(WORK)), check=False)
    if done.returncode:
        sys.exit(f"mutants: {what} does not build: {done.stdout[-4000:]}")


def build(what, *targets):
    run(what, "cmake", "--build", BUILD, "-j", os.cpu_count(), "--target", *targets)


def configure():
    definitions = {"CMAKE_BUILD_TYPE": "Debug", "CMAKE_C_COMPILER": "gcc", "CMAKE_CXX_COMPILER": "g++", "CMAKE_C_FLAGS": "-w",
                   "CMAKE_C_FLAGS_DEBUG": "-O0 -g", "CUFENCE_BENCH": "OFF", "CUFENCE_EXAMPLES": "OFF",
                   "CMAKE_C_COMPILER_LAUNCHER": "ccache" if shutil.which("ccache") else "",
                   "CMAKE_EXE_LINKER_FLAGS": next((f"-fuse-ld={name}" for name in ("mold", "lld", "gold") if shutil.which(f"ld.{name}")), "")}
    if "CUFENCE_CUDA_INCLUDE" in os.environ:
        definitions["CUFENCE_CUDA_INCLUDE"] = os.environ["CUFENCE_CUDA_INCLUDE"]
    run("the tree", "cmake", "-G", "Ninja", "-S", TREE, "-B", BUILD, "-Wno-dev", *(f"-D{name}={value}" for name, value in definitions.items()))
    build("the tree", *LIBRARIES, "tests/torture/all")


@contextlib.contextmanager
def planted(defect):
    """The copy is built with the defect meanwhile."""
    texts = harmed(TREE, defect)
    sound = {name: (TREE / name).read_text() for name in texts}
    try:
        for name, text in texts.items():
            (TREE / name).write_text(text)
        build(defect.name, *LIBRARIES)
        yield
    finally:
        for name, text in sound.items():
            (TREE / name).write_text(text)


# ---- torture -----------------------------------------------------------------------------------------------------


def look_for(player, first, seeds, jobs):
    """Returns what the generator said, or None where it found nothing."""
    argv = [sys.executable, HERE.parent / "torture/torture.py", *(("--with", player) if player else ()), "--build", BUILD, "--most", 1, "--lines", 0,
            "--first", first, "--seeds", seeds, "--jobs", jobs]
    done = subprocess.run([str(part) for part in argv], stdout=subprocess.PIPE, text=True, errors="replace", check=False)
    return done.stdout.splitlines()[0] if done.returncode else None


def main():
    parser = argparse.ArgumentParser(prog="dev mutants", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="defects of tests/mutants/torture.mutation; all without any")
    parser.add_argument("--planted", action="store_true", help="the same: there are no others")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="programs at once")
    options = parser.parse_args()
    defects, missed = chosen(options.names), []
    copy_tree()
    configure()
    for player in {defect.player for defect in defects}:
        if said := look_for(player, 0, 300, options.jobs):
            sys.exit(f"mutants: without a planted defect torture says: {said}")
    for defect in defects:
        started = time.monotonic()
        with planted(defect):
            found = look_for(defect.player, defect.first, defect.seeds, options.jobs)
        missed += [] if found else [defect.name]
        print(f"{'found ' if found else 'MISSED'} {defect.name:28} {time.monotonic() - started:4.0f} s  {found or defect.what}", flush=True)
    print(f"mutants: {len(defects) - len(missed)} of {len(defects)} found" + (f"; missed: {' '.join(missed)}" if missed else ""))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
