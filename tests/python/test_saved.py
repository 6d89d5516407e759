"""save_values=: what went into launches and what came out, as files."""

from __future__ import annotations

import json
import struct
import unittest

import standin
from standin import BUILD, cufence

PROGRAM = BUILD / "tests/run_tree/values_story"
STORIES = ("scale", "struct", "half", "brain_half")  # launches 1, 2 and 3, 4, 5


@unittest.skipUnless(PROGRAM.is_file(), f"no {PROGRAM}")
class Saved(standin.InFolder):
    """save_values=FILTER=FOLDER."""

    def save(self, launches: str) -> tuple[list[str], str]:
        options = ("--save-values", f"{launches}={self.folder / 'saved'}")
        done = cufence("run", *options, "--", PROGRAM, *STORIES, CUFENCE_DRIVER="", LD_LIBRARY_PATH=str(PROGRAM.with_name("driver")))
        self.assertEqual(done.returncode, 0, done.stderr)
        return sorted(path.name for path in (self.folder / "saved").glob("*")), done.stderr

    def floats(self, name: str) -> list[float]:
        content = (self.folder / "saved" / name).read_bytes()
        self.assertEqual(content[:6], b"\x93NUMPY")
        return list(struct.unpack(f"<{(len(content) - 128) // 4}f", content[128:]))

    def test_inputs_and_outputs_are_kept(self) -> None:
        folders, out = self.save("*scale*|*half*")
        self.assertEqual(folders, ["000001-scale", "000004-halve"])
        self.assertIn("save_values: 2 launches saved in", out)
        before, after = self.floats("000001-scale/0.before.npy"), self.floats("000001-scale/1.after.npy")
        self.assertEqual(after, [2 * value for value in before])
        self.assertEqual(len(after), 1000)
        self.assertNotEqual(after[999], 0)
        self.assertFalse((self.folder / "saved/000001-scale/0.after.npy").exists(), "it has not changed")
        launch = json.loads((self.folder / "saved/000001-scale/values.json").read_text())
        self.assertEqual([pointer["argument"] for pointer in launch["pointers"]], [0, 1])
        self.assertEqual(launch["arguments"][2]["value"], "0x40000000")
        self.assertEqual(launch["kernel"], "scale(float const*, float*, float, int)")

    def shape(self, name: str) -> str:
        return (self.folder / "saved" / name).read_bytes()[10:128].decode().strip()

    def readme(self, launch: str) -> str:
        return (self.folder / "saved" / launch / "README.txt").read_text()

    def test_elements_have_their_type(self) -> None:
        self.save("*scale*|*bfloat16*")
        self.assertIn("{'descr': '<f4', 'fortran_order': False, 'shape': (1000,), }", self.shape("000001-scale/0.before.npy"))
        self.assertIn("{'descr': '<f4', 'fortran_order': False, 'shape': (1000,), }", self.shape("000001-scale/1.after.npy"))
        self.assertIn("{'descr': '<u2', 'fortran_order': False, 'shape': (2000,), }", self.shape("000005-halve/0.before.npy"))
        readme = self.readme("000001-scale")
        self.assertIn("Launch #1 of scale(float const*, float*, float, int): its buffers", readme)
        self.assertRegex(readme, r"0\.before\.npy \(the same after the launch\): argument 0, buffer #\d+, float32\[1000\]\n")
        self.assertRegex(readme, r"1\.before\.npy and \.after\.npy: argument 1, buffer #\d+, float32\[1000\]\n")
        readme = self.readme("000005-halve")
        self.assertRegex(readme, r"0\.before\.npy \(the same after the launch\): argument 0, buffer #\d+, bfloat16\[2000\], as uint16")
        self.assertIn('.view("int16")).view(torch.bfloat16)', readme)

    def test_bytes_of_an_unknown_type(self) -> None:
        self.save("copy_two")
        self.assertIn("{'descr': '|u1', ", self.shape("000002-copy_two/0.before.npy"))
        self.assertIn(" bytes: their type is not known", self.readme("000002-copy_two"))

    def test_a_second_run_overwrites_nothing(self) -> None:
        self.save("*scale*")
        self.assertEqual(self.save("*scale*")[0], ["000001-scale", "000001-scale.2"])
