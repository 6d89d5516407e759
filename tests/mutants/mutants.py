"""Changes the library, one operator, constant, call or condition at a time, and says which changes no test notices.

Works on a copy of the tree in build-mutants, built without optimisation. Each change is compiled, and the tests are run (those
that have noticed changes of the same file or are named as it is, then unit, sim, torture), up to the first that fails, crashes
or takes far longer than without the change. A change
that does not compile, or leaves the object file as it is, does not count, and another one is drawn in its place.

The draw depends on the seed and the files alone, and a larger count begins with the changes of a smaller one. What was noticed
is not tried again as long as its file stays the same, and what was not as long as the whole tree does: so an interrupted run is
taken up again, and a run after new tests tries only the survivors. The records are in build-mutants/results.json.
"""
import argparse
import collections
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

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build-mutants"
TREE = WORK / "tree"
BUILD = WORK / "build"
RECORDS = WORK / "results.json"
STAGES = ("unit", "sim", "torture")
FILES = ["allocator/heap", "allocator/vmm", "allocator/guard", "allocator/launch", "allocator/preload", "allocator/fault"]
BY_HAND = ("interpose.c",)  # in a library of its own that is never built without optimisation


def run(*command, **more):
    return subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", **more)


# ---- the tree and its build ------------------------------------------------------------------------------------------


def sources():
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout
    return sorted(name for name in listed.split("\0") if name and (ROOT / name).is_file())


def copy_tree(names):
    """Writes only what differs, so that little is built anew. Returns a hash over everything."""
    whole = hashlib.sha256()
    for name in names:
        content, to = (ROOT / name).read_bytes(), TREE / name
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


def configure():
    launcher = "ccache" if shutil.which("ccache") else ""
    linker = next((f"-fuse-ld={name}" for name in ("mold", "lld", "gold") if shutil.which(f"ld.{name}")), "")
    done = run("cmake", "-G", "Ninja", "-S", TREE, "-B", BUILD, "-Wno-dev", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_COMPILER=gcc",
               "-DCMAKE_CXX_COMPILER=g++", "-DCMAKE_C_FLAGS=-w", "-DCMAKE_C_FLAGS_DEBUG=-O0 -g", "-DCUFENCE_BENCH=OFF",
               "-DCUFENCE_EXAMPLES=OFF", f"-DCMAKE_C_COMPILER_LAUNCHER={launcher}", f"-DCMAKE_EXE_LINKER_FLAGS={linker}",
               *([f"-DCUFENCE_CUDA_INCLUDE={os.environ['CUFENCE_CUDA_INCLUDE']}"] if "CUFENCE_CUDA_INCLUDE" in os.environ else []))
    if done.returncode:
        sys.exit(done.stdout)


def build(targets):
    return run("cmake", "--build", BUILD, "-j", os.cpu_count(), "--target", *targets,
               env=dict(os.environ, CCACHE_BASEDIR=str(WORK)))


def object_file(name):
    return BUILD / "CMakeFiles" / "cufence_core.dir" / (name + ".o")


class Suite:
    """The tests of each stage, with their programs, which have been built."""

    def __init__(self):
        listed = json.loads(run("ctest", "--test-dir", BUILD, "--show-only=json-v1").stdout)
        self.stages = collections.OrderedDict((stage, []) for stage in STAGES)
        self.programs = {}
        for test in listed["tests"]:
            labels = next((p["value"] for p in test["properties"] if p["name"] == "LABELS"), [])
            for stage in STAGES:
                if stage in labels:
                    self.stages[stage].append(test["name"])
                    self.programs[test["name"]] = pathlib.Path(test["command"][0]).name
        self.usual = {}  # seconds, by test

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
        """Runs tests up to the first failure. Returns the failure's name, or None."""
        tests = "|".join(re.escape(name) for name in names)
        scratch = WORK / "tmp"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        command = ["ctest", "--test-dir", BUILD, "-R", f"^({tests})$", "-j", os.cpu_count(), "--stop-on-failure",
                   "--timeout", timeout, "--no-tests=error"]
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


def try_change(suite, name, original, change, records):
    """Returns what has noticed the change, SURVIVED, or None if it does not count."""
    file = TREE / name
    build([f"CMakeFiles/cufence_core.dir/{name}.o"])
    before = object_file(name).read_bytes()
    file.write_text(original[:change.start] + change.new + original[change.end:])
    try:
        compiled = build([f"CMakeFiles/cufence_core.dir/{name}.o"])
        if compiled.returncode or object_file(name).read_bytes() == before:
            return None
        for tests in suite.steps(name, records):
            if build(suite.targets(tests)).returncode:
                return None
            noticed = suite.run(tests, suite.timeout)
            if noticed:
                return noticed
        return "SURVIVED"
    finally:
        file.write_text(original)


def show(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    for row in rows:
        print(f"{row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {row[2]}")


def main():
    parser = argparse.ArgumentParser(prog="dev mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--files", action="append", metavar="F", help="a folder, a file or a pattern; may be given again, or with commas "
                        "(" + ", ".join(FILES) + ")")
    parser.add_argument("--count", type=int, default=120, help="how many changes (120)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    parser.add_argument("--list", action="store_true", help="print the changes and try none; some may not count")
    options = parser.parse_args()
    names = sources()
    files = chosen_files(names, [part for given in options.files or FILES for part in given.split(",")])
    texts = {name: (ROOT / name).read_text() for name in files}  # read once: somebody may go on working in the tree
    if options.list:
        for (name, change), _ in zip(draw(texts, options.seed), range(options.count)):
            print(f"{name}:{line_of(texts[name], change.start)}  {change.what()}")
        return

    tree_hash = copy_tree(names)
    configure()
    print(f"mutants: building {WORK.name}", flush=True)
    built = build(["all"])
    if built.returncode:
        sys.exit(f"mutants: without any change it does not build: {built.stdout[-4000:]}")
    suite = Suite()
    for stage in STAGES:
        if suite.stages[stage]:
            failed = suite.run(suite.stages[stage], 300)
            if failed:
                sys.exit(f"mutants: without any change, {stage} fails: {failed}")
    suite.timeout = int(30 + 5 * max(suite.usual.values()))
    print(f"mutants: {len(suite.usual)} tests pass without a change; one that takes {suite.timeout} s has noticed it", flush=True)

    records = json.loads(RECORDS.read_text()) if RECORDS.exists() else {}
    rows, by_kind = [], collections.Counter()
    for name, change in draw(texts, options.seed):
        if len(rows) == options.count:
            break
        text = texts[name]
        key = f"{name} {hashlib.sha256(text.encode()).hexdigest()[:16]} {change.start} {change.new}"
        known = records.get(key)
        if known and (known["by"] != "SURVIVED" or known["tree"] == tree_hash):
            by = known["by"]
        else:
            started = time.monotonic()
            by = try_change(suite, name, text, change, records)
            records[key] = {"by": by, "tree": tree_hash, "seconds": round(time.monotonic() - started)}
            RECORDS.write_text(json.dumps(records, indent=1))
        if by is None:
            continue
        rows.append((f"{name}:{line_of(text, change.start)}", change.what(), by))
        by_kind[change.kind, by == "SURVIVED"] += 1
        print(f"{len(rows):4} {'  '.join(rows[-1])}", flush=True)
    if not rows:
        sys.exit("mutants: there is nothing to change")
    print()
    show(rows)
    survivors = sum(row[2] == "SURVIVED" for row in rows)
    for kind in changes.KINDS:
        print(f"{kind:10} {by_kind[kind, False]} of {by_kind[kind, False] + by_kind[kind, True]} noticed")
    print(f"{len(rows) - survivors} of {len(rows)} noticed ({100 * (len(rows) - survivors) // len(rows)} %), {survivors} survived")


main()
