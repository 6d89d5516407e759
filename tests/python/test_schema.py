"""Validates cufence's JSON against the published schema, docs/finding.schema.json."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

import standin
from standin import BUILD, ROOT

try:
    import jsonschema
except ImportError:
    jsonschema = None  # type: ignore[assignment]

PROGRAM = BUILD / "tests/programs/program_dlsym"
SCHEMA = json.loads((ROOT / "docs" / "finding.schema.json").read_text())
# Stories of tests/sim/programs, each with a finding of another kind.
STORIES = ["overrun", "after_fault", "other_exception", "double_free", "double_free interior", "out_of_bounds device"]
WATCHED = ["beside async -4 0", "beside plain 1000 3"]  # with slack=on


def closed(schema: Any) -> Any:
    """Returns the schema without additional members: everything that is written must be documented."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    if "properties" in made:
        made.setdefault("additionalProperties", False)
    return made


@unittest.skipUnless(jsonschema, "needs the package jsonschema")
class Schema(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.validator = jsonschema.Draft202012Validator(closed(SCHEMA))

    def check(self, line: str) -> dict[str, Any]:
        found = json.loads(line)
        self.validator.validate(found)
        return found

    def test_what_is_found_fits(self) -> None:
        kinds = set()
        for story in STORIES + WATCHED:
            with self.subTest(story), tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "found.json"
                slack = "on" if story in WATCHED else "off"
                standin.cufence("run", "--set", f"json={file},slack={slack}", "--", PROGRAM, *story.split(), RANK="3")
                for line in file.read_text().splitlines():
                    found = self.check(line)
                    kinds.add(found["kind"])
                    self.assertEqual("finding_name" in found, found["kind"] not in ("run", "guarded"))
                    self.assertEqual(found["process"]["job"], {"RANK": "3"})
                    self.assertEqual(found["process"]["command"][1:], story.split())
        self.assertEqual(kinds, {"overrun", "exception", "double free", "invalid free", "host write out of bounds", "slack write", "run", "guarded"})

    def test_leaks_fit(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "found.json"
            standin.cufence("run", "--set", f"json={file},leaks=on", "--", PROGRAM, "overrun")
            found = [self.check(line) for line in file.read_text().splitlines()]
        self.assertEqual([each["kind"] for each in found], ["run", "overrun", "leak", "guarded"])
        self.assertEqual(found[2]["headline"], "leak of 1 buffer, 4096 bytes in all")

    def run_values(self, folder: str, stories: str, **options: str) -> list[Any]:
        """Runs stories of tests/sim/values_story.c. Returns the lines of the file that the options name."""
        settings = [word for key, value in options.items() for word in ("--" + key, value)]
        command = ("run", *settings, "--", BUILD / "tests/run_tree/values_story", *stories.split())
        standin.cufence(*command, cwd=Path(folder), CUFENCE_DRIVER="", LD_LIBRARY_PATH=str(BUILD / "tests/run_tree/driver"))
        file = options.get("json") or options["values"].partition("=")[2]
        return [json.loads(line) for line in (Path(folder) / file).read_text().splitlines()]

    def test_a_nan_fits(self) -> None:
        found = []
        for story in ("nan", "nan_graph", "mask"):
            with tempfile.TemporaryDirectory() as folder:
                found += self.run_values(folder, story, nan="report+inf", json="found.json")
        self.assertEqual({line["kind"] for line in found}, {"run", "first NaN", "first Inf", "guarded"})
        self.assertTrue(any("graph_kernels" in line.get("nan", {}) for line in found))
        for line in found:
            self.validator.validate(line)

    def test_values_fit(self) -> None:
        schema = json.loads((ROOT / "docs" / "values.schema.json").read_text())
        with tempfile.TemporaryDirectory() as folder:
            lines = self.run_values(folder, "scale offset struct half count graph nan mask", values="*=values.json")
        self.assertGreater(len(lines), 10)
        for line in lines:
            jsonschema.validate(line, schema)
        types = {pointer["type"] for line in lines for pointer in line["pointers"]}
        self.assertEqual(types, {"float32", "float16", "word32"})

    def golden(self, name: str) -> list[str]:
        lines = (ROOT / "tests/golden" / f"{name}.expect").read_bytes().split(b"\n")
        return [line.decode() for line in lines if line.startswith(b"{")]

    def test_what_explain_says_of_dumps_fits(self) -> None:
        found = [self.check(line) for line in self.golden("report") if '"dump":' in line]
        self.assertGreater(len(found), 16)

    def test_what_the_unit_tests_make_up_fits(self) -> None:
        made = self.golden("findings")
        found = [self.check(line) for line in made]
        self.assertGreater(len(found), 60)
        self.assertLessEqual({"overrun", "underrun", "wild address", "misaligned access", "stream race"}, {each["kind"] for each in found})
        outcomes = {each["rerun"]["outcome"] for each in found if "rerun" in each}
        self.assertLessEqual({"faulted", "no fault", "failed"}, outcomes)
        self.assertTrue(any(each.get("written") for each in found))
