"""The planted defects of tests/mutants match the code: the text of each occurs exactly once, in its file."""
import sys
import unittest

from standin import ROOT

sys.path.insert(0, str(ROOT / "tests" / "mutants"))

import mutants  # noqa: E402


class Mutations(unittest.TestCase):
    def test_each_can_be_planted(self):
        defects = mutants.chosen([])
        self.assertGreater(len(defects), 50)
        self.assertEqual({defect.player for defect in defects}, {None, "surroundings"})
        for defect in defects:
            with self.subTest(defect.name):
                for file, text in mutants.harmed(ROOT, defect).items():
                    self.assertNotEqual(text, (ROOT / file).read_text())
