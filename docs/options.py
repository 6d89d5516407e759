"""What is made of the options that the program prints as JSON: options.py check | write, in the top folder.

- the tables in docs/options.md
- cufence/_option_types.py, with which type checkers and editors know the keywords of cufence.enable()
"""

import json
import pathlib
import re
import subprocess
import sys
from typing import Any

PAGE = pathlib.Path("docs/options.md")
TYPES = pathlib.Path("allocator/torch/cufence/_option_types.py")
GROUPS = {  # the heading above each of these options
    "uaf": "What faults",
    "on_fault": "After a fault",
    "guard": "Address space and memory",
    "remember": "What is remembered for reports",
    "streams": "What else is found",
    "wait_ms": "How a fault is explained",
    "peers": "Several devices, several processes",
    "skip": "Which buffers are guarded",
    "say": "Where reports go",
    "keep": "What is kept for later",
    "save_values": "Values",
}
HEAD = "\n| option | allowed | default | |\n|---|---|---|---|\n"
VALUES = {  # what Python may give for an option of that type
    "alignment": "int | str",
    "bytes": "int | str",
    "number": "int | str",
    "path": "str | PathLike[str]",
}


def link(name: re.Match[str]) -> str:
    return f"[{pathlib.Path(name[1]).name}]({name[1]}.md)"


def table(options: list[dict[str, Any]]) -> str:
    text, missing = "", set(GROUPS)
    for option in options:
        if option["key"] in GROUPS:
            missing.remove(option["key"])
            text += f"\n## {GROUPS[option['key']]}\n{HEAD}"
        allowed, meaning = (re.sub(r"([|*<>_\[\]])", r"\\\1", option[each]) for each in ("allowed", "help"))
        meaning = re.sub(r"docs/([\w/-]+)\.md", link, meaning)
        text += f"| `{option['key']}` | {allowed} | {option['default'] and '`' + option['default'] + '`'} | {meaning} |\n"
    assert not missing, f"GROUPS names what is no option: {missing}"
    return text


def python_type(option: dict[str, Any]) -> str:
    if option["type"] not in ("choice", "switch") or "," in option["allowed"]:
        return VALUES.get(option["type"], "str")
    words = option["allowed"].split(" | ")
    literal = "Literal[" + ", ".join(f'"{word}"' for word in words) + "]"
    return f"bool | {literal}" if {"on", "off"} <= set(words) else literal


def types(options: list[dict[str, Any]]) -> str:
    lines = [
        '"""The keywords of enable(), for type checkers. Made by docs/options.py of the table of options."""',
        "",
        "from __future__ import annotations",
        "",
        "from os import PathLike",
        "from typing import Literal, TypedDict",
        "",
        "",
        "class Options(TypedDict, total=False):",
    ]
    return "\n".join([*lines, *(f"    {option['key']}: {python_type(option)}" for option in options)]) + "\n"


def main() -> None:
    options = json.loads(subprocess.run(["build/bin/cufence", "options", "--json"], check=True, capture_output=True, text=True).stdout)
    page, text = PAGE.read_text(), table(options)
    fresh = {
        PAGE: re.sub(r"(<!-- options: begin -->\n).*?(\n<!-- options: end -->)", lambda m: m[1] + text + m[2], page, flags=re.S),
        TYPES: types(options),
    }
    for file, content in fresh.items():
        if sys.argv[1] == "write":
            file.write_text(content)
        elif not file.exists() or file.read_text() != content:
            sys.exit(f"{file} has other options than the program; ./dev format writes it anew")


if __name__ == "__main__":
    main()
