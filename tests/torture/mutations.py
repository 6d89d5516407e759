#!/usr/bin/env python3
"""Builds cufence with one planted defect at a time, and lets the torture program look for it: every one has to be found.

    mutations.py [NAME...]       all of mutations/*.mutation, or those named; those in tests/surroundings/mutations are
                                 looked for by surroundings.py

A mutation is a file of the form

    what: a sentence
    file: allocator/...
    seeds: 600          most to play (may be left out), and where the defect shows only in one kind of chunk:
    first: 250          where to begin (may be left out)
    <<<<
    text that occurs in the file exactly once
    ====
    what takes its place
    >>>>

with one or more such blocks; another `file:` between them is where the following ones are. A text that is not there any more is an error: the mutation has to follow the code.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import torture

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PLAYERS = {"torture": HERE / "torture.py", "surroundings": HERE.parent / "surroundings" / "surroundings.py"}
SEEDS = 1200


def read(path):
    head, *blocks = re.split(r"^<<<<\n", path.read_text(), flags=re.M)
    fields = dict(re.findall(r"^(\w+): *(.*)$", head, re.M))
    file, pairs = fields["file"], []
    for block in blocks:
        old, new, rest = re.fullmatch(r"(.*)\n====\n(.*)>>>>\n(.*)", block, re.S).groups()
        pairs.append((file, old, new.removesuffix("\n")))
        file = dict(re.findall(r"^(\w+): *(.*)$", rest, re.M)).get("file", file)
    return {"name": path.stem, "seeds": int(fields.get("seeds", SEEDS)), "first": int(fields.get("first", 0)), "what": fields["what"], "pairs": pairs,
            "player": PLAYERS[path.parents[1].name]}


def copy_file(source, target):
    """Only what differs, and with a new time: the build goes by times, and a planted defect may be left."""
    if not os.path.exists(target) or pathlib.Path(source).read_bytes() != pathlib.Path(target).read_bytes():
        shutil.copyfile(source, target)


def copy_tree(tree):
    tree.mkdir(parents=True, exist_ok=True)
    for name in ("CMakeLists.txt", "allocator", "cmake", "include", ".deps"):
        source, target = ROOT / name, tree / name
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True, copy_function=copy_file)
        elif source.exists():
            copy_file(source, target)


def configure(tree, build):
    subprocess.run(["cmake", "-S", str(tree), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS=-O1 -w", "-DCUFENCE_TESTS=OFF",
                    "-DCUFENCE_BENCH=OFF", "-DCUFENCE_EXAMPLES=OFF"], check=True, stdout=subprocess.DEVNULL)


def make(build):
    done = subprocess.run(["cmake", "--build", str(build), "--target", "cufence", "cufence_cli", "cufence_preload"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise SystemExit(done.stdout.decode(errors="replace")[-3000:])


def harmed(tree, mutation):
    """Returns the texts of the files with the defect planted."""
    texts = {tree / file: (tree / file).read_text() for file, _, _ in mutation["pairs"]}
    for file, old, new in mutation["pairs"]:
        if texts[tree / file].count(old) != 1:
            raise SystemExit(f"mutations.py: {mutation['name']}: its text occurs {texts[tree / file].count(old)} times in {file}:\n{old}")
        texts[tree / file] = texts[tree / file].replace(old, new)
    return texts


def plant(tree, mutation):
    """Returns what the files were before."""
    texts = harmed(tree, mutation)
    sound = {path: path.read_text() for path in texts}
    for path, text in texts.items():
        path.write_text(text)
    return sound


def look_for(mutation, options, libraries):
    """Returns what the torture program said, or None where it found nothing."""
    argv = [sys.executable, str(mutation["player"]), "--build", str(options.build), "--libraries", str(libraries), "--most", "1",
            "--first", str(mutation["first"]), "--seeds", str(mutation["seeds"]), "--jobs", str(options.jobs)]
    if mutation["player"] == PLAYERS["torture"]:
        argv += ["--lines", "0", "--without", options.without]
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=False)
    return done.stdout.decode(errors="replace").splitlines()[0] if done.returncode else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="where the torture program and the simulated device are")
    parser.add_argument("--without", default=torture.KNOWN, help="known defects whose programs are left out")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    mutations = [read(path) for path in sorted(HERE.parent.glob("*/mutations/*.mutation"))]
    unknown = set(options.names) - {mutation["name"] for mutation in mutations}
    if unknown:
        raise SystemExit(f"mutations.py: no mutation {' '.join(sorted(unknown))}")
    mutations = [mutation for mutation in mutations if not options.names or mutation["name"] in options.names]
    tree, build, missed = options.build / "mutations" / "tree", options.build / "mutations" / "build", []
    copy_tree(tree)
    configure(tree, build)
    make(build)
    for player in {mutation["player"] for mutation in mutations}:
        unharmed = look_for({"first": 0, "seeds": 300, "player": player}, options, build / "lib")
        if unharmed:
            raise SystemExit(f"mutations.py: without a planted defect {player.name} says: {unharmed}")
    for mutation in mutations:
        started = time.monotonic()
        sound = plant(tree, mutation)
        try:
            make(build)
            found = look_for(mutation, options, build / "lib")
        finally:
            for path, text in sound.items():
                path.write_text(text)
        if not found:
            missed.append(mutation["name"])
        print(f"{'found ' if found else 'MISSED'} {mutation['name']:28} {time.monotonic() - started:4.0f} s  {found or mutation['what']}", flush=True)
    print(f"mutations: {len(mutations) - len(missed)} of {len(mutations)} found" + (f"; missed: {' '.join(missed)}" if missed else ""))
    return 1 if missed or not mutations else 0


if __name__ == "__main__":
    sys.exit(main())
