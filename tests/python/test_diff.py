"""`cufence diff`: runs of a program on the simulated device that differ in one thing, and traces that are damaged."""

from __future__ import annotations

import fcntl
import json
import os
import re
import struct
import tempfile
import unittest
from pathlib import Path

import standin
from standin import COMMAND, PROGRAM, cufence

SCHEMA = standin.ROOT / "docs" / "trace.schema.json"


class Folder(standin.InFolder):
    def diff(self, *arguments: object, status: int) -> str:
        done = cufence("diff", *arguments)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(bool(done.stderr), status == 2, done.stderr)
        return done.stdout + done.stderr


@unittest.skipUnless(PROGRAM.is_file(), f"no {PROGRAM}")
class Runs(Folder):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.traces = Path(folder.name)

    def trace(self, name: str, variant: str = "") -> Path:
        """A trace of that variant, made once for each name; a copy that the test may change."""
        made, path = self.traces / f"{name}-{variant}", self.folder / name
        if not made.exists():
            done = cufence("run", "--trace", made, "--", PROGRAM, "traced", TRACED=variant)
            self.assertEqual(done.returncode, 0, done.stderr)
        path.write_bytes(made.read_bytes())
        return path

    def differs(self, variant: str, *options: str) -> str:
        return self.diff(*options, self.trace("plain"), self.trace("other", variant), status=1)

    def test_a_named_pipe_without_a_reader_does_not_stop_the_program(self) -> None:
        path = self.folder / "pipe"
        os.mkfifo(path)
        done = cufence("run", "--trace", path, "--", PROGRAM, "traced", TRACED="")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"trace: cannot write {path}: a trace needs a regular file", done.stderr)

    def test_equal_runs_are_equal(self) -> None:
        out = self.diff(self.trace("plain"), self.trace("again"), status=0)
        self.assertIn("SUMMARY: cufence: the runs are equal: 9 events in 2 streams", out)

    def test_an_end_without_exit_handlers_loses_nothing(self) -> None:
        self.diff(self.trace("plain"), self.trace("left", "end"), status=0)

    def test_addresses_and_old_bytes_make_no_difference(self) -> None:
        plain, other = self.trace("plain"), self.trace("other", "addresses")
        events = [json.loads(line) for line in other.read_text().splitlines()]
        del events[1:6]  # the five sets of use_memory()
        for event in events:
            event["number"] = event.get("number", 0) - 5 * (event.get("stream") == 1)
        other.write_text("".join(json.dumps(event) + "\n" for event in events))
        texts = (path.read_text().replace(" ", "") for path in (plain, other))
        old = {re.search(r'_Z5scale.*"argument":1[^}]*"before":"(\w+)"', text)[1] for text in texts}
        self.assertEqual(len(old), 2, "the output's old bytes are the same: this shows nothing")
        self.diff("--ignore", "buffers", plain, other, status=0)

    def filtered(self, name: str, *options: str, variant: str = "", launches: str = "") -> Path:
        path = self.folder / name
        done = cufence("run", "--trace", f"{launches}={path}" if launches else path, *options, "--", PROGRAM, "traced", TRACED=variant)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def events(self, path: Path) -> list[str]:
        return [json.loads(line)["name"] for line in path.read_text().splitlines()[1:-1]]

    def test_a_filter_leaves_the_others_out(self) -> None:
        plain = self.filtered("plain", launches="*race*|scale")
        header = json.loads(plain.read_text().splitlines()[0])
        self.assertEqual((header["filter"], header.get("every")), ("*race*|scale", None))
        self.assertEqual(self.events(plain), ["scale(float const*, float*, unsigned int, float)", "race", "race", "race"])
        out = self.diff(plain, self.filtered("again", launches="*race*|scale"), status=0)
        self.assertIn("the runs are equal: 4 events in 2 streams", out)
        self.assertIn(", only *race*|scale\n", out)
        out = self.diff(plain, self.filtered("other", launches="*race*|scale", variant="race"), status=1)
        self.assertIn("difference at event 2 of stream 1: equal inputs and other outputs", out)

    def test_copies_and_sets_have_names_too(self) -> None:
        self.assertEqual(self.events(self.filtered("copies", launches="cuMem*")), ["cuMemcpyHtoD", "cuMemsetD8", "cuMemcpyDtoH"])
        place = self.filtered("place", launches="@trace_stories.c & cuMemset*")
        self.assertEqual(self.events(place), ["cuMemsetD8"])
        self.assertEqual(self.events(self.filtered("number", launches="#2")), ["race"])

    def test_one_launch_in_so_many_of_each_kernel(self) -> None:
        path = self.filtered("every", "--every", "2")
        header = json.loads(path.read_text().splitlines()[0])
        self.assertEqual((header.get("filter"), header["every"]), (None, 2))
        whole = self.events(self.trace("plain"))
        self.assertEqual(whole[6:8], ["race", "race"])
        self.assertEqual(self.events(path), whole[:7] + whole[8:])  # nothing else is twice on one stream
        out = self.diff(path, self.filtered("again", "--every", "2"), status=0)
        self.assertIn("CUDA 13.0, one launch in 2\n", out)

    def test_what_wrote_an_input_may_have_been_left_out(self) -> None:
        traces = (self.filtered(variant or "plain", launches="scale", variant=variant) for variant in ("", "copy"))
        out = self.diff(*traces, status=1)
        self.assertIn("difference at event 1 of stream 1: other inputs", out)
        self.assertIn("came from  A: nothing in the trace, which leaves launches out", out)
        self.assertIn("hint       what wrote the input last may have been left out", out)

    def test_other_launches_left_out(self) -> None:
        plain, every = self.trace("plain"), self.filtered("every", "--every", "3")
        out = self.diff(plain, every, status=2)
        self.assertIn("A has launches=,every=1 and B has launches=,every=3: they leave out different launches; trace both", out)
        out = self.diff(self.filtered("race", launches="race"), self.filtered("sum", launches="sum"), status=2)
        self.assertIn("A has launches=race,every=1 and B has launches=sum,every=1", out)
        path = self.folder / "bad"
        path.write_text('{"trace":1,"filter":"\\u001b[31m"}\n')
        self.assertIn("launches=?[31m,", self.diff(plain, path, status=2))

    def test_without_a_trace_nothing_is_left_out(self) -> None:
        done = cufence("run", "--every", "3", "--", PROGRAM, "traced")
        self.assertEqual(done.stderr.count("every= does nothing without trace= or nan="), 1, done.stderr)

    def test_bad_filters_are_refused(self) -> None:
        for option, value in (("trace", "@=a"), ("every", "0"), ("trace", "a|" * 20 + "a=a")):
            done = cufence("run", f"--{option}", value, "--", PROGRAM, "traced")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f": {option}={value.partition('=')[0]}", done.stderr)
            self.assertIn(" is not allowed; use ", done.stderr)

    def test_each_difference_is_told(self) -> None:
        for variant, options, patterns in (
            ("race", (), (r"difference at event 4 of stream 1: equal inputs and other outputs",
                          r"in +race<<<\(1,1,1\), \(128,1,1\)>>> at trace_stories\.c:\d+ in \w+",
                          r"\bA +argument 0: buffer \S.* #\d+ \+0, 4000 bytes, before \w{16}, after \w{16}",
                          r"before it +3  scale\(float const\*, float\*, unsigned int, float\)",
                          "hint       a race, an order of atomics")),
            ("atomic", (), ("difference at event 6 of stream 1: equal inputs and other outputs",)),
            ("constant", (), ("difference at event 3 of stream 1: another argument",
                              r"argument 3: 0x40000000 \(1073741824, or 2\)", r"argument 3: 0x40200000 \(1075838976, or 2\.5\)")),
            ("constant", ("--ignore", "scalars"), ("event 3 of stream 1: equal inputs and other outputs",)),
            ("struct", (), ("event 5 of stream 1: equal inputs, another argument, other outputs",
                            r"A +argument 0: bytes from \+10: 8040")),
            ("kernel", (), ("difference at event 3 of stream 1: another kernel", "B +another_scale<<<")),
            ("copy", ("--all", "2"), ("difference at event 1 of stream 1: the program has copied or set other bytes",
                                      r"in +copy cuMemcpyHtoD at trace_stories\.c:\d+ in \w+",
                                      "difference at event 3 of stream 1: other inputs",
                                      "came from  B: 1 of stream 1, copy cuMemcpyHtoD")),
            ("longer", (), (r"difference at event 3 of stream 2: one run goes on\n +A +ends before\n +B +race",)),
        ):  # fmt: skip
            with self.subTest(variant):
                out = self.differs(variant, *options)
                for pattern in patterns:
                    self.assertRegex(out, pattern)

    def test_grid(self) -> None:
        self.assertIn("event 3 of stream 1: another grid", self.differs("grid"))
        self.diff("--ignore", "grid,place", self.folder / "plain", self.folder / "other", status=0)

    def test_json(self) -> None:
        document = json.loads(self.differs("copy", "--json", "--all", "3"))
        self.assertEqual([d["kind"] for d in document["differences"]][:2], ["copy", "input"])
        self.assertEqual(document["differences"][1]["a_came_from"]["name"], "cuMemcpyHtoD")
        self.assertFalse(document["equal"])

    def test_no_address_in_a_trace(self) -> None:
        for line in self.trace("plain").read_text().splitlines()[1:]:
            for word in re.findall(r'"value": ?"0x(\w+)"', line):
                self.assertLess(len(word), 11, line)

    def test_lines_fit_the_schema(self) -> None:
        try:
            import jsonschema
        except ImportError:
            self.skipTest("no jsonschema here")
        schema = json.loads(SCHEMA.read_text())
        lines = self.trace("plain").read_text().splitlines()
        self.assertEqual(len(lines), 11)
        for line in lines:
            jsonschema.validate(json.loads(line), schema)

    def test_file_that_cannot_be_made(self) -> None:
        done = cufence("run", "--trace", self.folder / "no" / "trace", "--", PROGRAM, "traced")
        self.assertEqual(done.returncode, 2)
        self.assertIn("trace=", done.stderr)

    def test_two_processes_do_not_share_a_file(self) -> None:
        path = self.folder / "trace"
        with path.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            done = cufence("run", "--trace", path, "--", PROGRAM, "traced")
        self.assertEqual((done.returncode, path.read_text()), (0, ""))
        self.assertIn("another process writes its trace there; with %p in the name each has its own", done.stderr)

    def test_a_graph_launch_is_one_event(self) -> None:
        path = self.folder / "trace"
        done = cufence("run", "--trace", path, "--", PROGRAM, "capture")
        events = [json.loads(line) for line in path.read_text().splitlines()[1:-1]]
        self.assertGreater(sum(event["event"] == "graph" for event in events), 1, done.stderr)

    def test_a_run_without_launches_leaves_no_old_trace(self) -> None:
        path = self.trace("plain")
        done = cufence("run", "--trace", path, "--", PROGRAM, "memory_info")
        self.assertIn("was not written: no launch was seen", done.stderr)
        self.assertIn("the file is empty", self.diff(path, path, status=2))


@unittest.skipUnless(PROGRAM.is_file(), f"no {PROGRAM}")
class Saved(Folder):
    """save_values=FILTER=FOLDER."""

    def save(self, launches: str, *options: str) -> tuple[list[str], str]:
        done = cufence("run", "--save-values", f"{launches}={self.folder / 'saved'}", *options, "--", PROGRAM, "traced")
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
        launch = json.loads((self.folder / "saved/000001-scale/launch.json").read_text())
        self.assertEqual([b["argument"] for b in launch["buffers"]], [0, 1])
        self.assertEqual(launch["scalars"][1]["value"], "0x40000000")

    def shape(self, name: str) -> str:
        return (self.folder / "saved" / name).read_bytes()[10:128].decode().strip()

    def test_elements_have_their_type(self) -> None:
        self.save("*scale*", "--values-type", "*scale*/1:bf16")
        self.assertIn("{'descr': '<f4', 'fortran_order': False, 'shape': (1000,), }", self.shape("000001-scale/0.before.npy"))
        self.assertIn("{'descr': '<u2', 'fortran_order': False, 'shape': (2000,), }", self.shape("000001-scale/1.after.npy"))
        readme = (self.folder / "saved/000001-scale/README.txt").read_text()
        self.assertIn("Launch #1 of scale(float const*, float*, unsigned int, float): its buffers", readme)
        self.assertRegex(readme, r"0\.before\.npy \(the launch did not change it\): argument 0, buffer #\d+, float32\[1000\]\n")
        self.assertRegex(readme, r"1\.before\.npy and \.after\.npy: argument 1, buffer #\d+, bfloat16\[2000\], as uint16")
        self.assertIn('.view("int16")).view(torch.bfloat16)', readme)

    def test_bytes_of_an_unknown_type(self) -> None:
        self.save("with_struct")
        self.assertIn("{'descr': '|u1', ", self.shape("000003-with_struct/0.before.npy"))
        self.assertIn(" bytes: their type is not known", (self.folder / "saved/000003-with_struct/README.txt").read_text())

    def test_launches_are_chosen_by_number_and_place(self) -> None:
        self.assertEqual(self.save("#2-3")[0], ["000002-race", "000003-with_struct"])
        self.assertEqual(self.save("@trace_stories.c&sum")[0][-1], "000004-sum")

    def test_save_max_is_a_limit_that_is_told(self) -> None:
        folders, out = self.save("*", "--save_max", "17000")
        self.assertEqual(folders, ["000001-scale"])
        self.assertIn("5 more launches were left out: save_max is 17000 bytes", out)

    def test_a_second_run_overwrites_nothing(self) -> None:
        self.save("sum")
        self.assertEqual(self.save("sum")[0], ["000004-sum", "000004-sum.2"])

    def test_unfit_values_are_refused(self) -> None:
        for value in ("sum", "=x", "sum=", "#0=x", "@=x", "sum=%q"):
            with self.subTest(value):
                done = cufence("run", "--save-values", value, "--", "true")
                self.assertEqual(done.returncode, 2)
                self.assertIn("save_values", done.stderr)


@unittest.skipUnless(COMMAND.is_file(), f"no {COMMAND}")
class Damaged(Folder):
    HEADER = '{"trace":1,"program":"p"}\n'
    EVENT = '{"event":"launch","number":%d,"stream":%d,"name":"k","grid":[1,1,1],"block":[1,1,1],"buffers":[]}\n'

    def refused(self, content: str | bytes, message: str) -> None:
        good, bad = self.folder / "good", self.folder / "bad"
        good.write_text(self.HEADER + self.EVENT % (1, 1))
        bad.write_bytes(content if isinstance(content, bytes) else content.encode())
        for order in ((good, bad), (bad, good)):
            self.assertIn(message, self.diff(*order, status=2))

    def test_refused(self) -> None:
        for content, message in (
            ("", "bad: the file is empty"),
            ("hello\n", "bad:1: the line is not a JSON object"),
            ("{}\n", "bad:1: this is not a trace of cufence"),
            ('{"trace":2}\n', "bad:1: the trace has version 2"),
            (self.HEADER + "{\n", "bad:2: the line is not a JSON object"),
            (self.HEADER + "[]\n", "bad:2: the line is not a JSON object"),
            (self.HEADER + '{"event":"party","number":1,"stream":1}\n', 'bad:2: "event" has a value'),
            (self.HEADER + '{"event":"launch","number":0,"stream":1}\n', "has no number"),
            (self.HEADER + '{"event":"launch","number":1,"stream":-1}\n', '"stream" has a value'),
            (self.HEADER + '{"event":"launch","number":1,"stream":1,"buffers":[{}]}\n', '"buffer" has a value'),
            (self.HEADER + '{"event":"set","number":1,"stream":1,"buffers":[{"buffer":"x","after":"12"}]}\n', '"after" has a value'),
            (self.HEADER + '{"event":"launch","number":1,"stream":1,"scalars":"x"}\n', '"scalars" has a value'),
            (self.HEADER + "[" * 100000 + "\n", "bad:2: the line is not a JSON object"),
            (self.HEADER.encode() + b"\xff\xfe\x00\n", "bad:2: the line is not a JSON object"),
            (self.HEADER + " " * (5 << 20) + "\n", "bad:2: the line is longer than"),
        ):
            with self.subTest(content[:60]):
                self.refused(content, message)

    def test_missing_and_unfit_files(self) -> None:
        self.assertIn("No such file", self.diff(self.folder / "a", self.folder / "b", status=2))
        self.assertIn("/x/: No such file", self.diff("x/" * 200, self.folder / "b", status=2))
        self.assertIn("not a regular file", self.diff("/dev/null", "/dev/null", status=2))
        os.mkfifo(self.folder / "pipe")
        self.assertIn("not a regular file", self.diff(self.folder / "pipe", self.folder / "pipe", status=2))
        self.assertIn("two traces are needed", self.diff("/dev/null", status=2))
        self.assertIn("--ignore: \"time\" is not allowed", self.diff("--ignore", "time", "a", "b", status=2))
        self.assertIn("--all '0' is not allowed", self.diff("--all", "0", "a", "b", status=2))

    def test_a_killed_program_ends_in_the_middle_of_a_line(self) -> None:
        whole, cut = self.folder / "whole", self.folder / "cut"
        text = self.HEADER + self.EVENT % (1, 1) + self.EVENT % (2, 1)
        whole.write_text(text + '{"event":"end","number":2}\n')
        cut.write_text(text[:-20])
        out = self.diff(whole, cut, status=1)
        self.assertIn("B has no last line, and ends in the middle of one: its program was killed", out)
        self.assertIn("event 2 of stream 1: one run goes on", out)

    def test_control_characters_stay_away_from_the_terminal(self) -> None:
        a, b = self.folder / "a", self.folder / "b"
        a.write_text(self.HEADER + self.EVENT % (1, 1))
        b.write_text(self.HEADER + (self.EVENT % (1, 1)).replace('"k"', '"k\\u001b[2J\\n"'))
        self.assertIn("k?[2J?", self.diff(a, b, status=1))

    def test_streams_in_another_order(self) -> None:
        """The events of one stream come long after those of the other, and memory holds only their places."""
        a, b = self.folder / "a", self.folder / "b"
        one = "".join(self.EVENT % (i, 1) for i in range(1, 3001))
        two = "".join(self.EVENT % (i, 2) for i in range(1, 3001))
        a.write_text(self.HEADER + one + two)
        b.write_text(self.HEADER + two + one)
        self.assertIn("are equal: 6000 events in 2 streams", self.diff(a, b, status=0))
        b.write_text(self.HEADER + two + one.replace('"number":2999,"stream":1,"name":"k"', '"number":2999,"stream":1,"name":"j"'))
        self.assertIn("event 2999 of stream 1: another kernel", self.diff(a, b, status=1))

    def test_the_first_is_the_first_of_all_streams(self) -> None:
        a, b = self.folder / "a", self.folder / "b"
        lines = [self.EVENT % (i, s) for i in range(1, 50) for s in (1, 2)]
        a.write_text(self.HEADER + "".join(lines))
        for at in (61, 20, 41):
            lines[at] = lines[at].replace('"k"', '"j"')
        b.write_text(self.HEADER + "".join(lines))
        self.assertIn("event 11 of stream 1: another kernel", self.diff(a, b, status=1))
        out = self.diff("--all", "9", a, b, status=1)
        self.assertEqual(re.findall(r"difference at event (\d+ of stream \d)", out), ["11 of stream 1", "21 of stream 2"])
