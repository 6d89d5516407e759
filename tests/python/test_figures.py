"""What is guarded, the use of memory, and figures, as Python programs see them, on the simulated device."""

from __future__ import annotations

import json
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

    def test_leaks_by_place(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "leaks.json"
            self.run_code(
                """
def layer():
    return alloc(3 << 20, 0, None)
kept = [layer() for _ in range(4)]
with cufence.label("loader"):
    other = alloc(1000, 0, None)
""",
                f"leaks=on,on_fault=/0,json={file}",
            )
            lines = [json.loads(line) for line in file.read_text().splitlines()]
        self.assertEqual([line["kind"] for line in lines], ["run", "leak", "leak", "guarded"])
        self.assertIn("leak of 4 buffers, 12 MiB in all", lines[1]["headline"])
        self.assertEqual([line["buffer"]["allocated"]["frames"][0]["function"] for line in lines[1:3]], ["layer", "<module>"])

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
