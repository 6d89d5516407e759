"""Checks which rooms of allocator/ include each other's headers, and that the pure rooms are pure."""
from __future__ import annotations

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
    {"values"},
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
    r"|put[cs]|_IO_putc|__ctype_\w+|__stack_chk_fail|__errno_location|json_\w+|inflate\w*|gz\w+|__cxa_demangle|_GLOBAL_OFFSET_TABLE_"
    r"|__(asan|ubsan|tsan|sanitizer)_\w+|__gcov_\w+"
)


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
