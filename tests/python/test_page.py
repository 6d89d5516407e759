"""The page of --html in a real browser: nothing runs out of it or is cut off, in a narrow and a wide window, light and dark.

`python3 tests/python/test_page.py FOLDER` keeps the pages and pictures of them, for people to look at.
"""

from __future__ import annotations

import copy
import gzip
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import standin
from standin import BUILD, ROOT

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
WIDTHS = (400, 1400)
PAGES = ("one", "many", "nothing", "unguarded", "stuck", "slack")

# Runs in each page, and tells the window around it. A text is cut off if it reaches out of what scrolls or hides it.
MEASURE = """<script>addEventListener("load", () => {
  const cut = [], texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    if (!node.parentElement.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    for (let at = node.parentElement; at && box.width; at = at.parentElement) {
      const around = at.getBoundingClientRect(), is_clipping = getComputedStyle(at).overflowX !== "visible";
      if (at === document.body ? box.right > innerWidth + 1 || box.left < -1 : is_clipping && box.right > around.right + 1)
        cut.push(node.textContent.slice(0, 60));
    }
  }
  const links = [...document.querySelectorAll("nav a")];
  parent.postMessage({page: NAME, width: innerWidth, over: document.documentElement.scrollWidth - innerWidth, cut,
    dark: matchMedia("(prefers-color-scheme: dark)").matches, links: links.length, dead: links.filter((a) => !document.querySelector(a.hash)).length,
    shown: document.querySelectorAll("main article h2").length, text: document.querySelector("main").innerText}, "*");
});</script>"""

AROUND = """<!doctype html><pre id="told"></pre><script>
  const told = [];
  addEventListener("message", (event) => { told.push(event.data); document.getElementById("told").textContent = JSON.stringify(told); });
</script>"""


def findings(count: int) -> list[dict[str, Any]]:
    """Findings with names as long as those of templates, made from the example of an H100."""
    begun, first, names, guarded = map(json.loads, (ROOT / "docs/report-example.jsonl").read_text().splitlines())
    made = []
    for i in range(count):
        each = copy.deepcopy(first)
        each["kernel"].update(name=f"at_native_{'elementwise_' * i}kernel", symbol=f"k{i}", line=i + 1)
        made.append(each)
    return [begun, *made, names, guarded]


def launch(*arguments: str) -> str:
    assert BROWSER
    with tempfile.TemporaryDirectory() as profile:
        command = [BROWSER, "--headless", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}", "--virtual-time-budget=10000"]
        if os.geteuid() == 0:
            command.append("--no-sandbox")
        return subprocess.run([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, timeout=120).stdout


def scheme(is_dark: bool) -> str:
    return f"--blink-settings=preferredColorScheme={0 if is_dark else 1}"


def cufence(folder: Path, *arguments: str) -> None:
    standin.cufence(*arguments, cwd=folder, CUSIM_RUNNING=str(folder / "hang.core"))


def make_pages(folder: Path) -> None:
    for name, count in (("one", 1), ("many", 30)):
        (folder / f"{name}.json").write_text("".join(json.dumps(each) + "\n" for each in findings(count)))
        cufence(folder, "report", "--html", f"{name}.html", f"{name}.json")
    (folder / "hang.core").write_bytes(gzip.decompress((BUILD / "dumps/hang/streams.core.gz").read_bytes()))
    program = str(BUILD / "tests/programs/program_linked")
    for name, command in (("nothing", (program, "allocations")), ("unguarded", ("true", "a long argument " * 20)), ("stuck", (program, "hang", "2500")), ("slack", (program, "beside", "async", "-4", "0"))):
        cufence(folder, "run", "--stuck", "1", "--slack", "on", "--json", f"{name}.json", "--", *command)
        cufence(folder, "report", "--html", f"{name}.html", f"{name}.json")


@unittest.skipUnless(BROWSER, "needs a browser, to show the page: chromium")
class Page(unittest.TestCase):
    told: dict[tuple[str, int, bool], dict[str, Any]]

    @classmethod
    def setUpClass(cls) -> None:
        cls.told = {}
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            make_pages(folder)
            around = AROUND
            for name in PAGES:
                page = (folder / f"{name}.html").read_text()
                (folder / f"{name}.html").write_text(page.replace("</body>", MEASURE.replace("NAME", json.dumps(name)) + "</body>"))
                around += "".join(f'<iframe src="{name}.html" width="{width}" height="900" style="border: 0"></iframe>' for width in WIDTHS)
            (folder / "around.html").write_text(around)
            for is_dark in (False, True):
                shown = launch("--window-size=1600,1000", scheme(is_dark), "--dump-dom", f"file://{folder}/around.html")
                found = re.search(r'<pre id="told">(.*?)</pre>', shown, re.DOTALL)
                assert found, shown[:1000]
                for each in json.loads(html.unescape(found[1])):
                    cls.told[each["page"], each["width"], is_dark] = each

    def test_all_pages_were_seen(self) -> None:
        self.assertEqual(set(self.told), {(name, width, is_dark) for name in PAGES for width in WIDTHS for is_dark in (False, True)})
        self.assertTrue(all(each["dark"] == is_dark for (_, _, is_dark), each in self.told.items()))

    def test_nothing_runs_out_of_the_page(self) -> None:
        self.assertEqual({key: each["over"] for key, each in self.told.items() if each["over"] > 0}, {})

    def test_nothing_is_cut_off(self) -> None:
        self.assertEqual({key: each["cut"] for key, each in self.told.items() if each["cut"]}, {})

    def test_many_findings_have_an_index(self) -> None:
        for (name, width, is_dark), each in self.told.items():
            with self.subTest(name, width=width, is_dark=is_dark):
                self.assertEqual(each["shown"], {"one": 1, "many": 30, "stuck": 1, "slack": 1}.get(name, 0))
                self.assertEqual((each["links"], each["dead"]), (30 if name == "many" else 0, 0))

    def test_a_page_says_what_was_found_in_slack(self) -> None:
        text = self.told["slack", 400, False]["text"]
        for part in ("00 00 80 3f", "store <<<(1,1,1), (1,1,1)>>>, launched at", "GIVEN TODERIVED", "called from", ", stream 0x"):
            self.assertIn(part, text)

    def test_an_empty_page_says_what_was_run(self) -> None:
        for name, parts in {
            "nothing": ["Nothing was found.", "program_linked allocations", "by 1 process"],
            "unguarded": ["Nothing was found.", "NOTHING WAS GUARDED: no process", "true a long argument"],
        }.items():
            for part in parts:
                self.assertIn(part, self.told[name, 400, False]["text"])
        self.assertNotIn("NOTHING WAS GUARDED", self.told["nothing", 400, False]["text"])

    def test_a_hang_says_where_all_threads_stand(self) -> None:
        for part in ("32\t/src/stuck.cu:71 in left_waits: at a barrier; 32 others have not come; block (0,0,0)", "right_waits <<<(1,1,1), (64,1,1)>>>"):
            self.assertIn(part, self.told["stuck", 1400, False]["text"])


def keep(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    make_pages(folder)
    for name in PAGES:
        for width in WIDTHS:
            for is_dark in (False, True):
                frame = folder / "frame.html"
                frame.write_text(f'<body style="margin: 0"><iframe src="{name}.html" width="{width}" height="2400" style="border: 0"></iframe>')
                picture = folder / f"{name}-{width}-{'dark' if is_dark else 'light'}.png"
                launch(f"--window-size={max(width, 500)},2400", scheme(is_dark), f"--screenshot={picture}", f"file://{frame}")
                print(picture)


if __name__ == "__main__":
    if len(sys.argv) == 2 and not sys.argv[1].startswith("-"):
        sys.exit(keep(Path(sys.argv[1]).resolve()) if BROWSER else "test_page.py: no browser: install chromium")
    unittest.main()
