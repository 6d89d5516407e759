"""The mutations of tests/*/mutations match the code: the text of each planted defect occurs exactly once, in its file."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "torture"))

import mutations  # noqa: E402


class Mutations(unittest.TestCase):
    def test_each_can_be_planted(self):
        paths = sorted((ROOT / "tests").glob("*/mutations/*.mutation"))
        self.assertGreater(len(paths), 16)
        for path in paths:
            with self.subTest(path.stem):
                texts = mutations.harmed(ROOT, mutations.read(path))
                for file, text in texts.items():
                    self.assertNotEqual(text, file.read_text())


if __name__ == "__main__":
    unittest.main()
