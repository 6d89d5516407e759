"""A hook of mkdocs: pages link to files of the repository beside docs/, which are no part of the site. There, such a link becomes
its text and the file's name. tests/python/test_docs.py checks that the files exist."""

from __future__ import annotations

import posixpath
import re
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s:]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, files: Any, **_: Any) -> str:
    folder = posixpath.dirname(page.file.src_uri)

    def replaced(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        if files.get_file_from_path(target):
            return link[0]
        name = posixpath.normpath(posixpath.join("docs", target))
        return link[1] if name in link[1] else f"{link[1]} (`{name}`)"

    return LINK.sub(replaced, markdown)
