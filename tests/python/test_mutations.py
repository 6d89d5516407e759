"""The mutations of tests/torture match the code: the text of each planted defect occurs exactly once, in its file."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "torture"))

import mutations  # noqa: E402


class Mutations(unittest.TestCase):
    def test_each_can_be_planted(self):
        paths = sorted((ROOT / "tests" / "torture" / "mutations").glob("*.mutation"))
        self.assertGreater(len(paths), 16)
        for path in paths:
            with self.subTest(path.stem):
                mutation = mutations.read(path)
                sound = (ROOT / mutation["file"]).read_text()
                self.assertNotEqual(mutations.plant(sound, mutation), sound)


if __name__ == "__main__":
    unittest.main()
