"""Checks which rooms of allocator/ include and call each other, and that the pure rooms are pure."""
from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ALLOCATOR = ROOT / "allocator"
LIBRARY = Path(os.environ.get("CUFENCE_BUILD", ROOT / "build")) / "lib" / "libcufence_analysis.a"

BUILD = LIBRARY.parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def drawn(heading: str) -> list[set[str]]:
    """Returns the rows of the map that the page has under a heading, each the names in it, from top to bottom."""
    rows = re.search(rf"^## {heading}\n.*?\n```\n(.*?)```", PAGE, re.M | re.S)[1]
    return [set(re.findall(r"(\w+)/", row)) for row in rows.splitlines()]


# A room may include headers of the rooms in the rows below it, and call them.
FLOORS = drawn("The rooms")
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

# The same for the rooms in heap/; its entry points, which lie in heap/ itself, may call all of them.
HEAP_FLOOR = {room: floor for floor, rooms in enumerate(drawn("The rooms of the heap")) for room in rooms}

# Files of a room that call each other in a circle, and why. None in heap/.
CIRCLES = {
    "analysis/sass/emulate.c emulate_alu.c": "a machine is stepped by its instructions, whose addresses are computed from its state",
    "api/lifecycle.c public.c": "the public functions start the process, and the start says the version",
    "contexts/contexts.c streams.c": "streams end with their context, and each belongs to one",
    "preload/bounds.c capture_hooks.c context_hooks.c coredumps.c event_hooks.c frees.c keepers.c launch_hooks.c map_hooks.c memops.c "
    "memory_hooks.c peers.c pointers.c pool_hooks.c start.c table.c watch_hooks.c":
        "the table names each hook, and each hook calls the driver by way of the table",
    "stacks/cfi.c cfi_entry.c": "rules are read for an architecture, which the unwinder knows",
}


def links() -> dict[str, set[str]]:
    """Returns which file of allocator/ calls which, by the symbols of the objects in the build. Not those of the simulated device."""
    paths = {}
    for name in ("cufence_core", "cufence_process", "cufence_pure", "cufence_cli"):
        folder = BUILD / "CMakeFiles" / f"{name}.dir" / "allocator"
        for path in sorted(folder.rglob("*.o")):
            file = path.relative_to(folder).with_suffix("").as_posix()
            if (ALLOCATOR / file).exists():  # else it was moved since
                paths[str(path)] = file
    defined: dict[str, str] = {}
    wanted: dict[str, set[str]] = {file: set() for file in paths.values()}
    listed = subprocess.run(["nm", "-A", "-P", *paths], stdout=subprocess.PIPE, text=True, check=True).stdout
    for path, symbol, kind in (row.split()[:3] for row in listed.splitlines()):
        file = paths[path.removesuffix(":")]
        if kind == "U":
            wanted[file].add(symbol)
        elif kind.isupper():
            defined[symbol] = file
    return {file: {defined[name] for name in names & defined.keys()} - {file} for file, names in wanted.items()}


def circles(calls: dict[str, set[str]]) -> list[list[str]]:
    """Returns the groups of files that reach each other."""
    left = dict(calls)
    while ends := {file for file, called in left.items() if not called & left.keys()}:
        left = {file: called for file, called in left.items() if file not in ends}
    reach = {file: {file} | called & left.keys() for file, called in left.items()}
    grows = True
    while grows:
        grows = False
        for file, known in reach.items():
            further = known.union(*(reach[other] for other in known))
            grows |= len(further) > len(known)
            reach[file] = further
    groups = {tuple(sorted(other for other in known if file in reach[other])) for file, known in reach.items()}
    return sorted(list(group) for group in groups if len(group) > 1)


# The symbols that the pure rooms may use: the C library's functions on memory, text and text streams, jansson, the demangler.
ASKED = re.compile(
    r"mem\w+|str\w+|__\w*(mem|str|printf|isoc)\w*|v?[fs]?n?printf|vasprintf|malloc|calloc|realloc|free|qsort|bsearch|abort|open_memstream|f(close|error|flush|write|printf|puts|putc)"
    r"|put[cs]|_IO_putc|__ctype_\w+|__stack_chk_fail|__errno_location|json_\w+|ZSTD_(decompress|isError)|__cxa_demangle|_GLOBAL_OFFSET_TABLE_"
    r"|__(asan|ubsan|tsan|sanitizer)_\w+|__gcov_\w+"
)


def imported(path: Path) -> set[str]:
    """Returns the modules of the package that a file of it imports, now or later; not those that only a type checker reads."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found |= {node.module} if node.module else {alias.name for alias in node.names}
    return found


class Modules(unittest.TestCase):
    def test_no_module_imports_itself_by_way_of_others(self):
        left = {path.stem: imported(path) for path in (ALLOCATOR / "torch" / "cufence").glob("*.py")}
        self.assertIn("_library", left["_api"])
        while free := {name for name, imports in left.items() if not imports & left.keys()}:
            left = {name: imports for name, imports in left.items() if name not in free}
        self.assertEqual({name: imports & left.keys() for name, imports in left.items()}, {})


class Arrows(unittest.TestCase):
    def test_all_point_down(self):
        for path in sorted(ALLOCATOR.rglob("*.[ch]")):
            room = path.relative_to(ALLOCATOR).parts[0]
            if room == "sim":
                continue
            self.assertIn(room, FLOOR, "a room without a floor")
            for included in re.findall(r'^#include "([a-z_]+)/', path.read_text(), re.M):
                if included in FLOOR:
                    with self.subTest(path.relative_to(ALLOCATOR).as_posix(), includes=included):
                        self.assertLessEqual(FLOOR[room], FLOOR[included])
                        self.assertTrue(included == room or FLOOR[room] < FLOOR[included], "rooms side by side do not know each other")

    def test_the_inspector_is_registered(self):
        """Only api/inspection.c opens it; everybody else calls it by way of launch/inspect_table.h."""
        knows = {}
        for path in sorted(ALLOCATOR.rglob("*.[ch]")):
            name = path.relative_to(ALLOCATOR).as_posix()
            if not name.startswith("inspect/") and (included := re.findall(r'^#include "(inspect/.*)"', path.read_text(), re.M)):
                knows[name] = included
        self.assertEqual(knows, {"api/inspection.c": ["inspect/inspect.h"]})

    def test_one_file_reads_the_environment(self):
        for path in sorted(ALLOCATOR.rglob("*.[ch]")):
            name = path.relative_to(ALLOCATOR).as_posix()
            if name != "base/env.h" and not name.startswith("sim/"):
                self.assertNotRegex(path.read_text(), r"\bgetenv\((?!\))", f"{name}: use env_get()")

    def test_every_lock_has_a_rank(self):
        """Spin locks, which are no larger than a block can afford, call lock_entered() and lock_left() themselves."""
        paths = {path.relative_to(ALLOCATOR).as_posix(): path for path in sorted(ALLOCATOR.rglob("*.[ch]"))}
        plain = {name for name, path in paths.items() if re.search(r"\bpthread_(mutex|rwlock)_|PTHREAD_MUTEX", path.read_text())}
        self.assertEqual({name for name in plain if not name.startswith("sim/")}, {"base/lock.h"}, "use struct lock")

    def test_the_picture_and_the_page_name_each_room(self):
        rooms = {path.name for path in ALLOCATOR.iterdir() if path.is_dir()}
        self.assertEqual(rooms, FLOOR.keys() | {"sim"})
        self.assertEqual({path.name for path in (ALLOCATOR / "heap").iterdir() if path.is_dir()}, HEAP_FLOOR.keys())
        for name in ("architecture.md", "architecture.svg"):
            text = (ROOT / "docs" / name).read_text()
            self.assertEqual({room for room in rooms if f"{room}/" not in text}, set(), name)

    def test_the_simulated_device_knows_nobody_but_the_kernels(self):
        knows = [included for path in sorted((ALLOCATOR / "sim").iterdir())
                 for included in re.findall(r'^#include "([^"]+)"', path.read_text(), re.M) if not (ALLOCATOR / "sim" / included).exists()]
        self.assertEqual([name for name in knows if "kernels/" not in name], [])


@unittest.skipUnless((BUILD / "CMakeFiles").exists() and shutil.which("nm"), "there is no build, or no nm")
class Links(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.calls = links()

    def test_are_seen(self):
        self.assertIn("heap/reuse/freelist.c", self.calls["heap/allocate.c"])
        self.assertIn("heap/allocate.c", self.calls["api/public.c"])

    def test_between_rooms_point_down(self):
        up = [f"{file} -> {other}" for file, called in self.calls.items() for other in called
              if (a := file.split("/")[0]) != (b := other.split("/")[0]) and FLOOR[a] >= FLOOR[b]]
        self.assertEqual(up, [])

    def test_between_rooms_of_the_heap_point_down(self):
        def floor(file: str) -> int:
            room = file.split("/")[1]
            return HEAP_FLOOR.get(room, -1)

        in_heap = {file: {other for other in called if other.startswith("heap/")} for file, called in self.calls.items()
                   if file.startswith("heap/")}
        up = [f"{file} -> {other}" for file, called in in_heap.items() for other in called if floor(file) > floor(other)]
        self.assertEqual(up, [])
        beside = [f"{file} -> {other}" for file, called in in_heap.items() for other in called
                  if floor(file) == floor(other) and file.split("/")[1] != other.split("/")[1] and floor(file) >= 0]
        self.assertEqual(beside, [])

    def test_form_no_circle_that_is_not_explained(self):
        found = []
        for group in circles(self.calls):
            folder = group[0].rsplit("/", 1)[0]
            found.append(" ".join([group[0]] + [file.removeprefix(folder + "/") for file in group[1:]]))
        self.assertEqual(found, sorted(CIRCLES))


@unittest.skipUnless(LIBRARY.exists() and shutil.which("readelf"), "the library is not built, or there is no readelf")
class Purity(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        listed = subprocess.run(["readelf", "-Ws", str(LIBRARY)], stdout=subprocess.PIPE, text=True, check=True).stdout
        rows = [line.split() for line in listed.splitlines() if re.match(r"\s*\d+: ", line)]
        cls.symbols = [row for row in rows if len(row) >= 8]

    def test_nothing_is_asked_for_but_the_c_library(self):
        has = {row[7] for row in self.symbols if row[6] != "UND"}
        asked = {row[7] for row in self.symbols if row[6] == "UND"} - has
        self.assertIn("evidence_from_coredump", has)
        self.assertEqual(sorted(name for name in asked if not ASKED.fullmatch(name)), [])

    def test_there_is_no_global(self):
        listed = subprocess.run(["readelf", "-WS", str(LIBRARY)], stdout=subprocess.PIPE, text=True, check=True).stdout
        sections = re.findall(r"\] (\.t?(?:data|bss)(?!\.rel\.ro)\S*) +\S+ +\S+ +\S+ +([0-9a-f]+) ", listed)
        self.assertGreater(len(sections), 10)
        filled = [name for name, size in sections if int(size, 16) and not name.startswith(".data.rel.ro")]
        self.assertEqual([name for name in filled if "asan" not in name], [])
