"""Checks that the links in the project's pages lead somewhere: to a file, and to a heading in it."""

from __future__ import annotations

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").glob("*/README.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")
CODE = re.compile(r"^(```|~~~).*?^\1\s*$|`[^`\n]*`", re.M | re.S)


def anchors(page: Path) -> set[str]:
    """The ids of a page's headings, as GitHub and mkdocs make them: lower case, words joined by dashes."""
    text = re.sub(r"^```.*?^```\s*$", "", page.read_text(), flags=re.M | re.S)
    return {
        re.sub(r"\s", "-", re.sub(r"[^\w\- ]", "", heading.strip().lower()))
        for heading in re.findall(r"^#+ (.*)$", text, re.M)
    }


class Links(unittest.TestCase):
    def test_each_leads_to_a_file_and_a_heading(self):
        seen = 0
        for page in PAGES:
            for target in map("".join, LINK.findall(CODE.sub("", page.read_text()))):
                if re.match(r"[a-z]+:", target):
                    continue
                seen += 1
                name, _, anchor = target.partition("#")
                found = (page.parent / name).resolve() if name else page
                with self.subTest(page.relative_to(ROOT).as_posix(), link=target):
                    self.assertTrue(found.exists(), "there is no such file")
                    if anchor and found.suffix == ".md":
                        self.assertIn(anchor, anchors(found))
        self.assertGreater(seen, 50)

    def test_each_page_is_on_the_site(self):
        site = (ROOT / "mkdocs.yml").read_text()
        for page in sorted((ROOT / "docs").rglob("*.md")):
            name = page.relative_to(ROOT / "docs").as_posix()
            if not name.startswith("examples/"):
                self.assertIn(f": {name}\n", site)


if __name__ == "__main__":
    unittest.main()
