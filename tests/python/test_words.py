"""Checks the names of files and types in allocator/ against the list of words in docs/architecture.md."""
from __future__ import annotations

import re
import unittest
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ALLOCATOR = ROOT / "allocator"
FILES = sorted(path for path in ALLOCATOR.rglob("*") if path.suffix in (".c", ".h", ".cpp", ".cu", ".html", ".map", ".list", ".bash"))
ROWS = re.findall(r"^\| (?!word)([a-z]+) \| [^|]+ \|([^|]*)\|$", re.search(r"^## Words\n(.*?)^## ", (ROOT / "docs/architecture.md").read_text(), re.M | re.S)[1], re.M)

# Not one, and a word of its own: buffers that are the driver's.
NO_PARTICIPLES = {"unguarded"}
PARTICIPLE = re.compile(r"([a-z]{3,}ed|known|gone|left|told|kept|held|made|given|taken|written|chosen|hidden|frozen|broken|found|lost|sent|built)")


def parts(name: str) -> set[str]:
    """Returns the words of a name, each also without its plural's s."""
    words = set(name.lower().split("_"))
    return words | {word[:-1] for word in words if word.endswith("s")}


def words_of_files() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for path in FILES:
        name = path.relative_to(ALLOCATOR).as_posix()
        for folder in (*path.relative_to(ALLOCATOR).parent.parts, path.name.split(".")[0]):
            for word in parts(folder):
                found[word].add(name)
    return found


def words_of_types() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for path in FILES:
        if path.suffix in (".c", ".h") and "sim" not in path.relative_to(ALLOCATOR).parts:
            for tag in re.findall(r"^(?:static |extern |const |typedef )*(?:struct|enum|union) (\w+) \{", path.read_text(), re.M):
                for word in parts(tag):
                    found[word].add(f"{path.relative_to(ALLOCATOR)}: {tag}")
    return found


class Words(unittest.TestCase):
    def test_each_names_something(self):
        self.assertGreater(len(ROWS), 20)
        known = words_of_files().keys() | words_of_types().keys()
        self.assertEqual([word for word, _ in ROWS if word not in known], [])

    def test_what_they_stand_for_names_nothing(self):
        files, types = words_of_files(), words_of_types()
        for word, instead in ROWS:
            for other in re.findall(r"[a-z]+", instead):
                with self.subTest(other, say=word):
                    self.assertEqual(files.get(other, set()) | types.get(other, set()), set())


class Files(unittest.TestCase):
    def test_a_base_name_stands_in_one_folder(self):
        folders: dict[str, set[str]] = defaultdict(set)
        for path in FILES:
            folders[path.name.split(".")[0]].add(path.parent.relative_to(ALLOCATOR).as_posix())
        self.assertEqual({name: where for name, where in folders.items() if len(where) > 1}, {})

    def test_none_is_named_by_a_bare_participle(self):
        names = {path.name.split(".")[0] for path in FILES} - NO_PARTICIPLES
        self.assertEqual(sorted(name for name in names if PARTICIPLE.fullmatch(name)), [])


if __name__ == "__main__":
    unittest.main()
