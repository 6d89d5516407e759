#!/usr/bin/env python3
"""Changes the library, and says which changes no test notices.

Works on a copy of the tree in build-mutants, built without optimisation. The changes are drawn, one operator, constant, call or
condition at a time (changes.py), or planted (--planted): defects that have names, each of which its generator of programs has to find (planted.py).

Each drawn change is compiled, and the tests are run (those that have noticed changes of the same file or are named as it is,
then unit, fuzz, sim, torture), up to the first that fails twice, crashes or takes far longer than without the change. A change
that does not compile, or leaves the object file as it is, does not count, and another one is drawn in its place.

The draw depends on the seed and the files alone, and a larger count begins with the changes of a smaller one. What was noticed
is not tried again as long as its file stays the same, and what was not as long as the whole tree does: so an interrupted run is
taken up again, and a run after new tests tries only the survivors. The records are in build-mutants/results.json.
"""
import argparse
import collections
import contextlib
import fnmatch
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import changes
import planted

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build-mutants"
TREE = WORK / "tree"
RECORDS = WORK / "results.json"
SURVIVED = "SURVIVED"
STAGES = ("unit", "fuzz", "sim", "torture")
FILES = ["allocator/heap", "allocator/vmm", "allocator/guard", "allocator/launch", "allocator/preload",
         "allocator/analysis", "allocator/finding", "allocator/fault", "allocator/inspect"]
ASAN = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"  # as the preset asan
BY_HAND = ("interpose.c",)  # in a library of its own that is never built without optimisation


def run(*command, **more):
    return subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", **more)


# ---- the tree and its build ------------------------------------------------------------------------------------------


def sources():
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout
    return sorted(name for name in listed.split("\0") if name and (ROOT / name).is_file())


def copy_tree(names):
    """Writes only what differs, so that little is built anew. Returns a hash over all that the tests depend on."""
    whole = hashlib.sha256()
    for name in names:
        content, to = (ROOT / name).read_bytes(), TREE / name
        if not name.startswith(("docs/", "bench/", "tests/gpu/", "tests/python/")):
            whole.update(name.encode() + b"\0" + content)
        if not to.exists() or to.read_bytes() != content:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(content)
            shutil.copymode(ROOT / name, to)
    for file in sorted(TREE.rglob("*")):
        if file.is_file() and str(file.relative_to(TREE)) not in names and ".deps" not in file.parts:
            file.unlink()
    if (ROOT / ".deps").exists() and not (WORK / ".deps").exists():
        (WORK / ".deps").symlink_to(ROOT / ".deps")  # cmake/cuda.cmake looks for cuda.h beside the build folder
    return whole.hexdigest()


class Suite:
    """A build of the copy, and the tests of each stage with their programs."""

    def __init__(self, name, flags, *definitions, targets=("all",)):
        self.folder = WORK / name
        launcher = "ccache" if shutil.which("ccache") else ""
        linker = next((f"-fuse-ld={name}" for name in ("mold", "lld", "gold") if shutil.which(f"ld.{name}")), "")
        if "CUFENCE_CUDA_INCLUDE" in os.environ:
            definitions += ("CUFENCE_CUDA_INCLUDE=" + os.environ["CUFENCE_CUDA_INCLUDE"],)
        definitions += ("CMAKE_BUILD_TYPE=Debug", "CMAKE_C_COMPILER=gcc", "CMAKE_CXX_COMPILER=g++", "CMAKE_C_FLAGS=-w",
                        f"CMAKE_C_FLAGS_DEBUG={flags}", "CUFENCE_BENCH=OFF", "CUFENCE_EXAMPLES=OFF",
                        f"CMAKE_C_COMPILER_LAUNCHER={launcher}", f"CMAKE_EXE_LINKER_FLAGS={linker}")
        print(f"mutants: building {self.folder.relative_to(ROOT)}", flush=True)
        done = run("cmake", "-G", "Ninja", "-S", TREE, "-B", self.folder, "-Wno-dev", *(f"-D{one}" for one in definitions))
        if not done.returncode:
            done = self.build(targets)
        if done.returncode:
            sys.exit(f"mutants: without any change it does not build: {done.stdout[-4000:]}")

    def find_tests(self):
        """Finds the tests of each stage, and runs them without a change."""
        listed = json.loads(run("ctest", "--test-dir", self.folder, "--show-only=json-v1").stdout)
        self.stages = collections.OrderedDict((stage, []) for stage in STAGES)
        self.programs = {}
        for test in listed["tests"]:
            labels = next((p["value"] for p in test["properties"] if p["name"] == "LABELS"), [])
            for stage in STAGES:
                if stage in labels:
                    self.stages[stage].append(test["name"])
                    self.programs[test["name"]] = pathlib.Path(test["command"][0]).name
        self.usual = {}  # seconds, by test
        for stage, tests in self.stages.items():
            failed = self.run(tests, 600)
            if failed:
                sys.exit(f"mutants: without any change, {stage} fails: {failed}; see {WORK.name}/failure.log")
        self.timeout = int(30 + 5 * max(self.usual.values()))
        print(f"mutants: {len(self.usual)} tests pass without a change; {self.timeout} s are too long for one", flush=True)
        return self

    def build(self, targets):
        return run("cmake", "--build", self.folder, "-j", os.cpu_count(), "--target", *targets,
                   env=dict(os.environ, CCACHE_BASEDIR=str(WORK)))

    def compile(self, name):
        """Returns the object file's content, None if it does not compile."""
        target = f"CMakeFiles/cufence_core.dir/{name}.o"
        return None if self.build([target]).returncode else (self.folder / target).read_bytes()

    def steps(self, name, records):
        """Lists of tests, in the order in which to try them on a change of that file."""
        stem, before = pathlib.Path(name).stem, collections.Counter()
        for key, record in records.items():
            test = (record["by"] or "").split(" ")[0]
            if key.startswith(name + " ") and test in self.programs:
                before[test] += 1
        named = [test for test in self.programs if test.split(".")[1] == stem]
        likely = list(dict.fromkeys(named + [test for test, _ in before.most_common(2)]))
        rest = [[test for test in tests if test not in likely] for tests in self.stages.values()]
        return [tests for tests in (likely, *rest) if tests]

    def targets(self, tests):
        return sorted({self.programs[name] for name in tests})

    def run(self, names, timeout):
        """Runs tests up to the first failure. Returns the failure's name, or None; its output is then in failure.log. A test
        that fails has to fail twice: on a busy machine one may fail for another reason."""
        while names:
            failed = self.run_once(names, timeout)
            again = self.run_once([failed], timeout) if failed in self.programs else failed
            if again or not failed:
                return again
            names = [name for name in names if name != failed]
        return None

    def run_once(self, names, timeout):
        tests = "|".join(re.escape(name) for name in names)
        scratch = WORK / "tmp"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        command = ["ctest", "--test-dir", self.folder, "-R", f"^({tests})$", "-j", os.cpu_count(), "--stop-on-failure",
                   "--timeout", timeout, "--no-tests=error", "--output-on-failure"]
        # A change may leave processes behind.
        with subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", start_new_session=True, env=dict(os.environ, TMPDIR=str(scratch))) as ctest:
            try:
                output = ctest.communicate()[0]
            finally:
                try:
                    os.killpg(ctest.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        if ctest.returncode:
            (WORK / "failure.log").write_text(output)
        for line in output.splitlines():
            ended = re.search(r"Test +#\d+: (\S+) \.*\s*(.*?) +([\d.]+) sec", line)
            if ended and "Passed" not in ended[2] and "Skipped" not in ended[2]:
                return ended[1] + (" (too long)" if "Timeout" in ended[2] else "")
            if ended:
                self.usual[ended[1]] = float(ended[3])
        return None if ctest.returncode == 0 else output[-2000:]


# ---- changes ---------------------------------------------------------------------------------------------------------


def chosen_files(names, wanted):
    files = []
    for pattern in wanted:
        matching = [name for name in names if name.endswith(".c") and os.path.basename(name) not in BY_HAND and
                    (name == pattern or name.startswith(pattern.rstrip("/") + "/") or fnmatch.fnmatch(name, pattern))]
        if not matching:
            sys.exit(f"mutants: no C file matches {pattern}")
        files += matching
    return sorted(set(files))


def draw(texts, seed):
    """Yields (file, change) in the seed's order: a kind of change after the other, any place in the files."""
    chance = random.Random(seed)
    heaps = {kind: [] for kind in changes.KINDS}
    for name, text in texts.items():
        for change in changes.changes(text):
            heaps[change.kind].append((name, change))
    for heap in heaps.values():
        chance.shuffle(heap)
    while any(heaps.values()):
        for kind in changes.KINDS:
            if heaps[kind]:
                yield heaps[kind].pop()


def line_of(text, start):
    return text.count("\n", 0, start) + 1


@contextlib.contextmanager
def changed(texts):
    """Files of the copy have other texts meanwhile."""
    sound = {name: (TREE / name).read_text() for name in texts}
    try:
        for name, text in texts.items():
            (TREE / name).write_text(text)
        yield
    finally:
        for name, text in sound.items():
            (TREE / name).write_text(text)


def try_planted(suite, defects, jobs):
    """Returns the exit status: 0 if each defect is found, and nothing without one."""
    missed = []
    for player in sorted({defect.player for defect in defects}):
        said = planted.look_for(player, 0, 300, WORK / "build", jobs)
        if said:
            sys.exit(f"mutants: without a planted defect {player} says: {said}")
    for defect in defects:
        started = time.monotonic()
        with changed(planted.harmed(TREE, defect)):
            done = suite.build(planted.LIBRARIES)
            if done.returncode:
                sys.exit(f"mutants: {defect.name} does not build: {done.stdout[-3000:]}")
            found = planted.look_for(defect.player, defect.first, defect.seeds, WORK / "build", jobs)
        missed += [] if found else [defect.name]
        print(f"{'found ' if found else 'MISSED'} {defect.name:28} {time.monotonic() - started:4.0f} s  {found or defect.what}", flush=True)
    print(f"mutants: {len(defects) - len(missed)} of {len(defects)} found" + (f"; missed: {' '.join(missed)}" if missed else ""))
    return 1 if missed else 0


def try_change(suite, name, original, change, records):
    """Returns what has noticed the change, SURVIVED, or None if it does not count."""
    before = suite.compile(name)
    with changed({name: original[:change.start] + change.new + original[change.end:]}):
        if suite.compile(name) in (None, before):
            return None
        for tests in suite.steps(name, records):
            if suite.build(suite.targets(tests)).returncode:
                return None
            noticed = suite.run(tests, suite.timeout)
            if noticed:
                return noticed
        return SURVIVED


def recorded(records, key, tree_hash, find_out):
    known = records.get(key)
    if known and (known["by"] != SURVIVED or known["tree"] == tree_hash):
        return known["by"]
    started = time.monotonic()
    by = find_out()
    records[key] = {"by": by, "tree": tree_hash, "seconds": round(time.monotonic() - started)}
    RECORDS.write_text(json.dumps(records, indent=1))
    return by


def show(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    for row in rows:
        print(f"{row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {row[2]}")


def main():
    parser = argparse.ArgumentParser(prog="dev mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--files", action="append", metavar="F",
                        help="a folder, a file or a pattern; may be given again, or with commas (" + ", ".join(FILES) + ")")
    parser.add_argument("--count", type=int, default=120, help="how many changes (120)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    parser.add_argument("--asan", action="store_true", help="try the survivors again with AddressSanitizer and UBSan")
    parser.add_argument("--list", action="store_true", help="print the changes and try none; some may not count")
    parser.add_argument("--planted", nargs="*", metavar="NAME", help="the defects of tests/mutants/*.mutation, or all of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="with --planted: programs at once")
    options = parser.parse_args()
    names = sources()
    if options.planted is not None:
        defects = planted.chosen(options.planted)
        copy_tree(names)
        return try_planted(Suite("build", "-O0 -g", targets=planted.TARGETS), defects, options.jobs)
    files = chosen_files(names, [part for given in options.files or FILES for part in given.split(",")])
    texts = {name: (ROOT / name).read_text() for name in files}  # read once: somebody may go on working in the tree
    if options.list:
        for (name, change), _ in zip(draw(texts, options.seed), range(options.count)):
            print(f"{name}:{line_of(texts[name], change.start)}  {change.what()}")
        return 0

    tree_hash = copy_tree(names)
    suite = Suite("build", "-O0 -g").find_tests()
    sanitized = Suite("build-asan", ASAN, "CUFENCE_SANITIZER=asan").find_tests() if options.asan else None

    records = json.loads(RECORDS.read_text()) if RECORDS.exists() else {}
    rows, by_kind = [], collections.Counter()
    for name, change in draw(texts, options.seed):
        if len(rows) == options.count:
            break
        text = texts[name]
        key = f"{name} {hashlib.sha256(text.encode()).hexdigest()[:16]} {change.start} {change.new}"
        by = recorded(records, key, tree_hash, lambda: try_change(suite, name, text, change, records))
        if by == SURVIVED and sanitized:
            by = recorded(records, key + " asan", tree_hash, lambda: try_change(sanitized, name, text, change, records))
            by = SURVIVED if by in (SURVIVED, None) else by + " (asan)"
        if by is None:
            continue
        rows.append((f"{name}:{line_of(text, change.start)}", change.what(), by))
        by_kind[change.kind, by == SURVIVED] += 1
        print(f"{len(rows):4} {'  '.join(rows[-1])}", flush=True)
    if not rows:
        sys.exit("mutants: there is nothing to change")
    print()
    show(rows)
    noticed = sum(row[2] != SURVIVED for row in rows)
    for kind in changes.KINDS:
        print(f"{kind:10} {by_kind[kind, False]} of {by_kind[kind, False] + by_kind[kind, True]} noticed")
    print(f"{noticed} of {len(rows)} noticed ({100 * noticed // len(rows)} %), {len(rows) - noticed} survived")
    return 0


if __name__ == "__main__":
    sys.exit(main())
