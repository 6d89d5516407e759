"""What is guarded, the use of memory, and figures, as Python programs see them, on the simulated device."""

from __future__ import annotations

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

import standin
from test_tensors import PRELUDE


@unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
class Figures(unittest.TestCase):
    def run_code(self, code: str, options: str, **environment: str) -> str:
        done = standin.run_python(PRELUDE + code, CUFENCE_OPTIONS=options, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def test_functions_of_python_choose(self) -> None:
        said = self.run_code(
            """
def optimizer():
    return alloc(4000, 0, None)
def forward():
    return alloc(4000, 0, None)
for _ in range(3):
    kept, left = forward(), optimizer()
    assert cufence.describe(kept)["place"] == "inside"
    assert cufence.describe(left)["place"] == "unknown"
    free(left)
rows = cufence.unguarded()
assert list(rows.values()) == [{"allocations": 3, "bytes": 12000, "live_buffers": 0, "live_bytes": 0}], rows
assert list(rows) == ["that skip names"], rows
assert cufence.stats()["unguarded_allocations"] == 3
library.cufence_record_stream(ctypes.c_void_p(optimizer()), None)
""",
            "skip=func:optim*",
        )
        self.assertIn("not guarded: 4 buffers that skip names, 16000 bytes in all", said)
        self.assertNotIn("could not", said)

    def test_files_choose(self) -> None:
        self.run_code(
            "assert cufence.describe(alloc(16, 0, None))['place'] == 'unknown'",
            "skip=file:<string>",
        )

    def test_use_by_place(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "use.json"
            said = self.run_code(
                """
def layer():
    return alloc(3 << 20, 0, None)
kept = [layer() for _ in range(4)]
with cufence.label("loader"):
    other = alloc(1000, 0, None)
cufence.report()
""",
                f"json={file}",
            )
            self.assertRegex(said, r"(?m)  12 MiB +4 +3 MiB +\S.*  <string>:\d+ in layer$")
            self.assertRegex(said, r'(?m)  1000 +1 +1000 +\S.*  <string>:\d+ in <module>, label "loader"$')
            lines = [json.loads(line) for line in file.read_text().splitlines()]
        self.assertEqual([line["kind"] for line in lines], ["run", "use", "guarded"])
        use = lines[1]
        self.assertEqual([place["function"] for place in use["places"]], ["layer", "<module>"])
        self.assertEqual(use["places"][0]["buffers"], 4)

    def test_streams(self) -> None:
        self.run_code(
            """
kept = alloc(1000, 0, None)
(row,) = cufence.streams()
assert row["stream"] == 0 and row["device"] == 0 and row["live_buffers"] == 1 and row["live_bytes"] == 1000, row
assert cufence.streams(0) == cufence.streams() and cufence.streams(5) == []
""",
            "say=quiet",
        )

    def test_out_of_memory_says_who_holds_it(self) -> None:
        said = self.run_code(
            """
def hoard():
    return [alloc(64 << 20, 0, None) for _ in range(3)]
kept = hoard()
assert alloc(1 << 30, 0, None) is None
print(detail(), file=sys.stderr)
""",
            "say=quiet",
            CUFENCE_SIM="memory=256M",
        )
        self.assertRegex(said, r"; most is held by <string>:\d+ in hoard\S* \(201326592 bytes in 3 buffers\)")


@unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
class Estimate(unittest.TestCase):
    def estimate(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        options, story = arguments[:-2], [word for word in arguments[-2:] if word]
        program = standin.BUILD / "tests/programs/program_dlsym"
        done = standin.cufence("run", "--estimate", *options, "--", program, *story, CUFENCE_SIM="memory=4G")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_run(self) -> None:
        done = self.estimate("--skip", "smaller:1K", "allocations", "")
        self.assertEqual(done.stdout.count("ends within a mapping"), 5, done.stdout)
        self.assertIn("estimate for GPU 0: nothing was guarded; 6 allocations", done.stderr)
        self.assertRegex(done.stderr, r"as they are +2 MiB +512\.00 +100 % +yes")
        self.assertRegex(done.stderr, r"max_guarded=\d+M ")
        self.assertNotIn("share pages", done.stderr)

    def test_what_packing_saves(self) -> None:
        """700 buffers of 4 KiB: 448 share a page, and four pages have one each."""
        for small, own, says in (
            ("auto", r"132 MiB +48\.27 +100 % +yes", "small=auto, the default, would pack every second of them while the program runs"),
            ("auto --uaf strict", r"208 MiB +76\.06 +100 % +yes", "small=auto, the default, would begin to pack while the program runs"),
            ("map", r"1.3 GiB +512\.00 +100 % +yes", "cufence:   GPU 0 has"),
            ("pack", r"12 MiB +4\.38 +100 % +yes", "cufence:   GPU 0 has"),
        ):
            with self.subTest(small=small):
                said = self.estimate("--small", *small.split(), "small_ones", "700").stderr
                self.assertRegex(said, rf"as they are +{own}")
                self.assertRegex(said, r"small=map +1.3 GiB +512\.00 ")
                self.assertRegex(said, r"small=pack +12 MiB +4\.38 ")
                self.assertIn("(small=pack) take 1.3 GiB less than those with pages of their own (small=map)", said)
                self.assertIn(says, said)
                self.assertEqual("small=auto" in said, small.startswith("auto"))
        said = self.estimate("small_ones", "50").stderr
        self.assertIn("would not pack: the pages of small buffers stay below 128 MiB, or a sixteenth of what is mapped", said)

    def test_not_without_run(self) -> None:
        done = standin.run_python(PRELUDE, CUFENCE_OPTIONS="estimate=on")
        self.assertIn("estimate=on guards nothing: it is for `cufence run --estimate`", done.stderr)
