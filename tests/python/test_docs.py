"""Checks the project's pages: links lead to a file and to a heading in it, a page has one name everywhere, none is too long, and
there are those that messages name. Figures of cost come from the results."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import standin
from standin import COMMAND, ROOT

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import store  # noqa: E402

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").glob("*/README.md")])
DOCS = sorted(page for page in (ROOT / "docs").rglob("*.md") if "examples" not in page.parts)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")
CODE = re.compile(r"^(```|~~~).*?^\1\s*$|`[^`\n]*`", re.M | re.S)


def anchors(page: Path) -> set[str]:
    """The ids of a page's headings, as GitHub and mkdocs make them: lower case, words joined by dashes."""
    text = re.sub(r"^```.*?^```\s*$", "", page.read_text(), flags=re.M | re.S)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\- ]", "", heading.strip().lower())) for heading in re.findall(r"^#+ (.*)$", text, re.M)}


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

    def test_each_has_one_name_and_one_shelf(self):
        """A page of the manual is in the menu and in the index; one for maintainers is linked from docs/architecture.md alone."""
        menu, _, hidden = (ROOT / "mkdocs.yml").read_text().partition("not_in_nav:")
        index, maintainers = ((ROOT / "docs" / name).read_text() for name in ("index.md", "architecture.md"))
        for page in DOCS:
            name = page.relative_to(ROOT / "docs").as_posix()
            with self.subTest(name):
                title = page.read_text().partition("\n")[0].removeprefix("# ")
                if f"  {name}\n" in hidden:
                    self.assertNotIn(f": {name}\n", menu)
                    self.assertEqual(f"]({name})" in index, name == "architecture.md")
                    self.assertTrue(name == "architecture.md" or f"[{title}]({name})" in maintainers)
                    continue
                self.assertIn(f"- {title}: {name}\n", menu)
                if name != "index.md":
                    self.assertIn(f"[{title}]({name})", index)

    def test_none_is_too_long(self):
        for page in DOCS:
            self.assertLess(page.read_text().count("\n"), 300, page.name)
        self.assertLessEqual((ROOT / "README.md").read_text().count("\n"), 110)

    def test_the_command_names_pages_by_their_files(self):
        """docs/NAME.md, in what the program and its headers say."""
        names = [page.relative_to(ROOT).as_posix() for page in DOCS]
        said = 0
        for file in [*ROOT.glob("allocator/**/*.[ch]"), *ROOT.glob("allocator/**/*.py"), ROOT / "include/cufence.h"]:
            for name in re.findall(r"docs/[a-z/-]+\.md", file.read_text()):
                said += 1
                self.assertIn(name, names, file)
        self.assertGreater(said, 20)


@unittest.skipUnless(COMMAND.is_file(), "build first")
class Commands(unittest.TestCase):
    """Commands in pages have options that the program knows."""

    @classmethod
    def setUpClass(cls):
        def said(*words):
            return subprocess.run([COMMAND, *words], capture_output=True, text=True, check=True).stdout

        cls.known = {}
        cls.keys = [option["key"] for option in json.loads(said("options", "--json"))]
        keys = {"--" + key.replace("_", "-") for key in cls.keys}
        for name in re.findall(r"^  ([a-z]+)  ", said("--help"), re.M):
            usage = said(name, "--help").partition("\n\n")[0]
            cls.known[name] = set(re.findall(r"\[(--[a-z][-a-z]*)", usage)) | (keys if "--KEY" in usage else set())

    def test_options_of_sub_commands(self):
        seen = 0
        for page in PAGES:
            if page.name == "CHANGELOG.md":
                continue
            for command, rest in re.findall(r"\bcufence (\w+)((?: [^`\n]*)?)", page.read_text()):
                own = re.split(r"\s(?:--\s|#\s|;)", re.sub(r"'[^']*'|\"[^\"]*\"", "", rest))[0]
                for option in re.findall(r"(?<=\s)--[a-z][\w-]*", own):
                    if command in self.known and option not in ("--help", "--no-require-guarded"):
                        seen += 1
                        with self.subTest(f"{page.name}: cufence {command} {own}"):
                            self.assertIn(option.replace("_", "-"), self.known[command])
        self.assertGreater(seen, 50)

    def test_values_of_options_are_allowed(self):
        """KEY=VALUE, cufence_KEY:VALUE and --KEY VALUE in code. Files and folders are any; other placeholders become values."""
        key, value = "|".join(self.keys), r"(?!:)('[^']*'|\"[^\"]*\"|[^\s,'\"`)\]\\]+)"
        code = "\n".join(found[0].strip("`") for page in PAGES for found in CODE.finditer(page.read_text()))
        found = {*re.findall(rf"(?:(?<![-\w.])|(?<=cufence_))({key})[=:]{value}", code), *re.findall(rf"--({key})[ =]{value}", code)}
        self.assertGreater(len(found), 90)
        for key, said in sorted(found):
            said = re.sub(r"\b(BUFFERS|BYTES|SECONDS|N)\b", "1", said.strip("\"'").rstrip(":").replace("0xNN", "0x11"))
            given = f"{key}={said}".replace("=RULES", "=label:*").replace("=True", "=on")
            self.assertEqual(subprocess.run([COMMAND, "options", "--check", given], capture_output=True, text=True, check=False).stderr, "")


@unittest.skipUnless(shutil.which("jq") and COMMAND.is_file(), "needs jq and a build")
class ForAgents(standin.InFolder):
    def test_the_page_can_be_followed(self):
        page, program = (ROOT / "docs/skill.md").read_text(), str(standin.BUILD / "tests/programs/program_linked")
        (read,) = re.findall(r"^jq '.*?' found\.json$", page, re.M | re.S)
        for story, headline, at in (("overrun", "past the end of buffer #1", "launched"), ("double_free", "double free", "called")):
            (self.folder / "found.json").unlink(missing_ok=True)
            done = standin.cufence("run", "--require-guarded", "--json", "found.json", "--", program, story, cwd=self.folder)
            found = json.loads(standin.run("sh", "-c", read, cwd=self.folder).stdout)
            self.assertEqual((done.returncode, headline in found["headline"], f"story_{story}" in found[at][-1]), (1, True, True))
        self.assertLessEqual(len(page.split()), 700)


class Figures(standin.InFolder):
    """docs/figures.py, with results and a page of our own."""

    def setUp(self) -> None:
        super().setUp()
        (self.folder / "docs").mkdir()
        (self.folder / "tests/gpu/results").mkdir(parents=True)
        self.write_results(1.25)
        (self.folder / "matplotlib.py").write_text("raise ImportError('hidden: no picture is drawn')\n")
        (self.folder / "README.md").write_text("Before\n<!-- cost: begin -->\n<!-- cost: end -->\nAfter\n")

    def write_results(self, slower):
        rounds = [{"native": [2.0, 3.0], **dict.fromkeys(("run", "enable", "strict"), [2.0 * slower, 9.0])}] * 5
        row = {"group": "torch", "title": "a step", "rounds": rounds, "failed": {"blocking": "ended"}, "left_out": None}
        call = {"group": "micro", "title": "a launch", "rounds": [{"native": [2e-6]}], "failed": {}, "left_out": None}
        memory = {"a model": {"native": {"device": 2 << 30, "host": 1 << 30}, "run": {"device": 3 << 30, "host": 1 << 30}}}
        self.results = {
            "facts": {"gpu": "a GPU", "driver": "1", "torch": "2", "date": "3"},
            "workloads": {"training": row, "inference": {**row, "rounds": [{**one, "blocking": [8.0]} for one in rounds]}, "launch.1": call},
            "memory": memory,
        }
        (self.folder / "tests/gpu/results/bench.json").write_text(json.dumps(self.results))

    def figures(self, what):
        environment = {**os.environ, "PYTHONPATH": str(self.folder)}
        return subprocess.run([sys.executable, ROOT / "docs/figures.py", what], env=environment, cwd=self.folder, capture_output=True, text=True, check=False)

    def test_other_figures_than_the_results_fail(self):
        self.assertIn("README.md has other figures than", self.figures("check").stderr)
        self.assertEqual(self.figures("write").returncode, 0)
        page = (self.folder / "README.md").read_text()
        self.assertIn("| `cufence.enable()` | 1.25 (1.25-1.25) | 1.25 (1.25-1.25) | not measured |\n", page)
        self.assertTrue(page.startswith("Before\n") and page.endswith("\nAfter\n"))
        self.assertEqual(self.figures("check").returncode, 0)
        self.write_results(1.26)
        done = self.figures("check")
        self.assertEqual((done.returncode, "README.md has other figures than" in done.stderr), (1, True))

    def test_all_tables(self):
        names = ("all costs", "single calls", "peaks")
        (self.folder / "docs/all.md").write_text("".join(f"<!-- {name}: begin -->\n<!-- {name}: end -->\n" for name in names))
        self.assertEqual(self.figures("write").returncode, 0)
        page = (self.folder / "docs/all.md").read_text()
        self.assertIn("| cufence run | 1.25 (1.25-1.25) | 1.25 (1.25-1.25) |\n", page)
        self.assertIn("| no caching, CUDA_LAUNCH_BLOCKING=1 | not possible | 4.00 (4.00-4.00) |\n", page)
        self.assertIn("| a launch | 2 us |\n", page)
        self.assertIn("| a model | cufence run | 3.00 GiB, 1.50 | 1.00 GiB, 1.00 |\n", page)

    def test_a_picture_of_other_results_fails(self):
        (self.folder / "docs/screens/bench").mkdir(parents=True)
        picture = self.folder / "docs/screens/bench/ratio.svg"
        picture.write_text(f"<svg>results {store.digest(self.results)}</svg>")
        self.assertEqual(self.figures("write").returncode, 0)
        self.write_results(1.26)
        self.assertIn("ratio.svg has other figures than", self.figures("write").stderr)

    def test_a_figure_elsewhere_fails(self):
        self.assertEqual(self.figures("write").returncode, 0)
        (self.folder / "docs/other.md").write_text("On an H100 a training\nstep takes 1.02 times as long.\n")
        self.assertIn("docs/other.md: a figure of cost that is not from", self.figures("check").stderr)
