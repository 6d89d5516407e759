"""What is expected of programs/paged.cu: rows of a paged cache that are read or written after their release, and tables that name the
wrong ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def programs(source: str) -> Iterator[tuple[str, dict[str, object]]]:
    """The cases of paged.cu, which has this text."""
    yield "clean", {"status": 0, "output": [r"1 2\n0 2\n1 2\ndone"], "options": {"nan": "report"}}
    yield (
        "stale",
        {
            "status": 86,
            "options": {"nan": "report"},
            "report": [r"\A==\d+== cufence: first NaN: attend writes 64 NaN to buffer #\d+, first to element 0 of float32\[128\]"],
            "output": [r"1 2\n-?nan 2\n-?nan 2\ndone"],
        },
    )
    yield (
        "early",
        {
            "status": 86,
            "report": [
                r"cufence: WRITE to a free region: 512 bytes changed, from byte 3840 of row \d+ of kv on, in buffer #1\b",
                r"row +\d+ of kv, free then; byte 3840 of 8192 \(64 rows\)",
                r"owner then +request 1",
                r"taken +\S.* ago by thread \d+",
                r"owner +request 3",
                r"given to +attend<<<\(2,1,1\), \(64,1,1\)>>> +candidate",
                r"\d== +write_token<<<\(1,1,1\), \(64,1,1\)>>> +candidate",
                r"launched at +.*\bmain\b",
            ],
            "output": [r"1 2\n0 2\n1 2\ndone"],
            "files": {"report.json": [r'"kind": ?"write to a free region"', r'"owner": ?"request 1"']},
        },
    )
    yield "tables", {"status": 0, "output": [r"1 2\n0 2\n1 2\ndone"]}
    yield (
        "off_by_one",
        {
            "status": 86,
            "reports": 3,  # for each place of a launch one
            "report": [
                r"\A==\d+== cufence: wrong row: write_token is given a table whose element 0 is 64, and kv has rows 0 to 63\n",
                r"table +element 0 of int32\[2\] at 0x[0-9a-f]+: 64\b",
                r"hint +one past the last row",
            ],
            "output": [r"1 2\ndone"],
            "files": {"report.json": [r'"kind": ?"wrong row"', r'"why": ?"outside"', r'"kernel": ?"attend']},
        },
    )
    yield (
        "other",
        {
            "status": 86,
            "report": [
                r"\A==\d+== cufence: wrong row: attend is given a table whose element 1 is row 61 of kv, which belongs to request 2, not to request 1\n",
                r"launched at +.*\battend_all\b",
                r"row +61 of kv, live; byte 0 of 8192 \(64 rows\)",
                r"owner +request 2",
            ],
            "output": [r"1\.\d+ 2\ndone"],
            "files": {"report.json": [r'"why": ?"of another owner"', r'"wants": ?"request 1"']},
        },
    )
