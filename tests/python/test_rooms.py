"""Checks which rooms of allocator/ include each other's headers, and that the pure rooms are pure."""
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

# From top to bottom. A room may include headers of the rooms in the rows below it.
FLOORS = [
    {"cli"},
    {"preload", "torch"},
    {"api"},
    {"lens"},
    {"witness", "order"},
    {"heap", "launch", "restage"},
    {"vmm", "stacks"},
    {"finding"},
    {"analysis"},
    {"kernels"},
    {"contexts"},
    {"guard", "driver"},
    {"base"},
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

# The symbols that the pure rooms may use: the C library's functions on memory, text and text streams, jansson, the demangler.
ASKED = re.compile(
    r"mem\w+|str\w+|__\w*(mem|str|printf|isoc)\w*|v?[fs]?n?printf|malloc|calloc|realloc|free|qsort|bsearch|abort|open_memstream|f(close|error|flush|write|printf|puts|putc)"
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

    def test_the_lens_is_registered(self):
        """Only api/lens.c opens it, and only cufence diff reads traces; everybody else calls it by way of launch/lens.h."""
        knows = {}
        for path in sorted(ALLOCATOR.rglob("*.[ch]")):
            name = path.relative_to(ALLOCATOR).as_posix()
            if not name.startswith("lens/") and (included := re.findall(r'^#include "(lens/.*)"', path.read_text(), re.M)):
                knows[name] = included
        self.assertEqual(knows, {"api/lens.c": ["lens/lens.h"], "cli/trace_file.h": ["lens/diff/compare.h"]})

    def test_one_file_reads_the_environment(self):
        for path in sorted(ALLOCATOR.rglob("*.[ch]")):
            name = path.relative_to(ALLOCATOR).as_posix()
            if name != "base/env.c" and not name.startswith("sim/"):
                self.assertNotRegex(path.read_text(), r"\bgetenv\((?!\))", f"{name}: use env_get()")

    def test_the_picture_and_the_page_name_each_room(self):
        rooms = {path.name for path in ALLOCATOR.iterdir() if path.is_dir()}
        self.assertEqual(rooms, FLOOR.keys() | {"sim"})
        for name in ("architecture.md", "architecture.svg"):
            text = (ROOT / "docs" / name).read_text()
            self.assertEqual({room for room in rooms if f"{room}/" not in text}, set(), name)

    def test_the_simulated_device_knows_nobody(self):
        for path in sorted((ALLOCATOR / "sim").rglob("*.[ch]")):
            for included in re.findall(r'^#include "([^"]+)"', path.read_text(), re.M):
                with self.subTest(path.name, includes=included):
                    self.assertTrue((ALLOCATOR / "sim" / included).exists())


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


if __name__ == "__main__":
    unittest.main()
