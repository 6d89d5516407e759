"""save_values=: what went into launches and what came out, as files."""

from __future__ import annotations

import json
import struct
import unittest

import standin
from standin import PROGRAM, cufence


@unittest.skipUnless(PROGRAM.is_file(), f"no {PROGRAM}")
class Saved(standin.InFolder):
    """save_values=FILTER=FOLDER."""

    def save(self, launches: str, *options: str) -> tuple[list[str], str]:
        done = cufence("run", "--save-values", f"{launches}={self.folder / 'saved'}", *options, "--", PROGRAM, "computed")
        self.assertEqual(done.returncode, 0, done.stderr)
        return sorted(path.name for path in (self.folder / "saved").glob("*")), done.stderr

    def floats(self, name: str) -> list[float]:
        content = (self.folder / "saved" / name).read_bytes()
        self.assertEqual(content[:6], b"\x93NUMPY")
        return list(struct.unpack(f"<{(len(content) - 128) // 4}f", content[128:]))

    def test_inputs_and_outputs_are_kept(self) -> None:
        folders, out = self.save("*scale*|sum")
        self.assertEqual(folders, ["000001-scale", "000004-sum"])
        self.assertIn("save_values: 2 launches saved in", out)
        before, after = self.floats("000001-scale/0.before.npy"), self.floats("000001-scale/1.after.npy")
        self.assertEqual(after, [2 * value for value in before])
        self.assertEqual(len(after), 1000)
        self.assertNotEqual(after[999], 0)
        self.assertFalse((self.folder / "saved/000001-scale/0.after.npy").exists(), "it has not changed")
        launch = json.loads((self.folder / "saved/000001-scale/values.json").read_text())
        self.assertEqual([pointer["argument"] for pointer in launch["pointers"]], [0, 1])
        self.assertEqual(launch["arguments"][3]["value"], "0x40000000")
        self.assertEqual(launch["kernel"], "scale(float const*, float*, unsigned int, float)")

    def shape(self, name: str) -> str:
        return (self.folder / "saved" / name).read_bytes()[10:128].decode().strip()

    def test_elements_have_their_type(self) -> None:
        self.save("*scale*|*look*")
        self.assertIn("{'descr': '<f4', 'fortran_order': False, 'shape': (1000,), }", self.shape("000001-scale/0.before.npy"))
        self.assertIn("{'descr': '<f4', 'fortran_order': False, 'shape': (1000,), }", self.shape("000001-scale/1.after.npy"))
        self.assertIn("{'descr': '<u2', 'fortran_order': False, 'shape': (2000,), }", self.shape("000007-look/0.before.npy"))
        readme = (self.folder / "saved/000001-scale/README.txt").read_text()
        self.assertIn("Launch #1 of scale(float const*, float*, unsigned int, float): its buffers", readme)
        self.assertRegex(readme, r"0\.before\.npy \(the same after the launch\): argument 0, buffer #\d+, float32\[1000\]\n")
        self.assertRegex(readme, r"1\.before\.npy and \.after\.npy: argument 1, buffer #\d+, float32\[1000\]\n")
        readme = (self.folder / "saved/000007-look/README.txt").read_text()
        self.assertRegex(readme, r"0\.before\.npy \(the same after the launch\): argument 0, buffer #\d+, bfloat16\[2000\], as uint16")
        self.assertIn('.view("int16")).view(torch.bfloat16)', readme)

    def test_bytes_of_an_unknown_type(self) -> None:
        self.save("with_struct")
        self.assertIn("{'descr': '|u1', ", self.shape("000003-with_struct/0.before.npy"))
        self.assertIn(" bytes: their type is not known", (self.folder / "saved/000003-with_struct/README.txt").read_text())

    def test_a_second_run_overwrites_nothing(self) -> None:
        self.save("sum")
        self.assertEqual(self.save("sum")[0], ["000004-sum", "000004-sum.2"])
