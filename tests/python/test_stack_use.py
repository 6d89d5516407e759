"""Checks from the compiler's call graph how much of a caller's stack the hooks and the public functions use, and that a thread
cannot be cancelled in them. Calls through pointers are not in the graph: what aside_call() does is left out on purpose, and
tests/torture has fibres with little stack."""
from __future__ import annotations

import concurrent.futures
import json
import os
import re
import subprocess
import unittest
from collections import defaultdict
from functools import lru_cache
from pathlib import Path

from standin import BUILD, ROOT


# Bytes, as gcc -O2 lays out frames. A caller has to have 8 KiB: the rest is for the C library and for signal handlers.
MOST = 4 << 10

# POSIX.1-2017, System Interfaces, section 2.9.5.2, and glibc's: those that the library calls, or might.
CANCELLATION_POINTS = set(
    "accept clock_nanosleep close connect creat fclose fcntl fdatasync fflush fgets fopen fopen64 fprintf fputs fread fsync fwrite "
    "getline lockf mkstemp msync nanosleep open open64 openat opendir pause poll popen pread pthread_cond_timedwait "
    "pthread_cond_wait pthread_cond_clockwait pthread_join pthread_timedjoin_np pthread_testcancel pwrite read readdir readv recv "
    "recvmsg select sem_timedwait sem_wait send sendmsg sendto sigtimedwait sigwait sleep system usleep vfprintf wait waitid "
    "waitpid write writev".split()
)
# They disable cancellation themselves.
SHELTERED = {"aside_sleep", "wait_while"}

NODE = re.compile(r'node: \{ title: "([^"]+)" label: "([^"]*)"')
EDGE = re.compile(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"')


def name_of(title: str) -> str:
    """The function alone: a static one's title begins with its file."""
    return re.sub(r"^.*:|\..*$", "", title)


class Graph:
    def __init__(self) -> None:
        self.frames: dict[str, int] = {}
        self.calls: dict[str, set[str]] = defaultdict(set)
        self.depths: dict[str, tuple[int, tuple[str, ...]]] = {}

    def read(self, text: str) -> None:
        for line in text.splitlines():
            if found := NODE.match(line):
                if size := re.search(r"(\d+) bytes \(", found[2]):
                    self.frames[found[1]] = int(size[1]) + 8  # with the return address
            elif found := EDGE.match(line):
                self.calls[found[1]].add(found[2])

    def roots(self) -> list[str]:
        return [title for title in self.frames if re.match(r"(hook|cufence)_", title)]

    def depth(self, title: str, above: tuple[str, ...] = ()) -> tuple[int, tuple[str, ...]]:
        """The most that the function and those that it calls use, and by what way."""
        if title in above:
            return 0, ()
        if title not in self.depths:
            deepest = max(
                (self.depth(callee, (*above, title)) for callee in self.calls[title] if callee in self.frames), default=(0, ())
            )
            self.depths[title] = (deepest[0] + self.frames[title], (name_of(title), *deepest[1]))
        return self.depths[title]

    def waits(self) -> list[str]:
        """Cancellation points that a program's thread comes to, each with a way there."""
        found, ways = [], {root: name_of(root) for root in self.roots()}
        left = list(ways)
        while left:
            title = left.pop()
            if name_of(title) in SHELTERED:
                continue
            found += [f"{ways[title]} > {callee}" for callee in self.calls[title] & CANCELLATION_POINTS]
            for callee in self.calls[title] & self.frames.keys() - ways.keys():
                ways[callee] = f"{ways[title]} > {name_of(callee)}"
                left.append(callee)
        return sorted(found)


def commands() -> list[tuple[Path, list[str]]]:
    """The files of the library, and how the build compiles each."""
    found = []
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        source = Path(entry["file"])
        if "cufence_core.dir" not in entry["command"] and "cufence_pure.dir" not in entry["command"]:
            continue
        words = entry["command"].split()
        words = words[next(i for i, word in enumerate(words) if re.search(r"(cc|gcc|g\+\+|c\+\+|clang)[-\d.]*$", word) and "ccache" not in word) :]
        drop = re.compile(r"-O|-g|-flto|-fsanitize|-fno-sanitize|--coverage|-ffat-lto|-W|-fstack-usage")
        kept = [word for i, word in enumerate(words) if not drop.match(word) and word not in ("-c", "-o") and (i == 0 or words[i - 1] != "-o")]
        found.append((source, kept))
    return found


@lru_cache(maxsize=None)
def graph() -> Graph:
    folder = BUILD / "stack_use"
    folder.mkdir(exist_ok=True)
    newest_header = max(path.stat().st_mtime for top in ("allocator", "include") for path in (ROOT / top).rglob("*.h"))

    def call_graph(command: tuple[Path, list[str]]) -> str:
        source, words = command
        name = str(source.relative_to(ROOT)).replace("/", "_")
        made = folder / f"{name}.ci"
        if not made.exists() or made.stat().st_mtime < max(newest_header, source.stat().st_mtime):
            out = folder / f"{name}.s"
            subprocess.run([*words, "-O2", "-DNDEBUG", "-w", "-fcallgraph-info=su", "-S", "-o", str(out)], check=True, cwd=BUILD)
            out.with_suffix(".ci").replace(made)
            out.unlink()
        return made.read_text()

    result = Graph()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for text in pool.map(call_graph, commands()):
            result.read(text)
    return result


def has_call_graphs() -> bool:
    if not (BUILD / "compile_commands.json").exists() or not commands():
        return False
    version = subprocess.run([commands()[0][1][0], "--version"], capture_output=True, text=True)
    return version.returncode == 0 and "Free Software Foundation" in version.stdout


@unittest.skipUnless(has_call_graphs(), "needs a build by gcc")
class StackUse(unittest.TestCase):
    maxDiff = None

    def test_hooks_leave_the_caller_its_stack(self):
        for root in graph().roots():
            with self.subTest(root=root):
                depth, way = graph().depth(root)
                self.assertLessEqual(depth, MOST, " > ".join(f"{name}" for name in way))

    def test_no_hook_is_a_cancellation_point(self):
        self.assertEqual("\n".join(graph().waits()), "")

    def test_the_graph_is_read(self):
        self.assertGreater(len(graph().roots()), 200)
        self.assertIn("cuMemAlloc_v2", " ".join(graph().roots()))
        depth, way = graph().depth("heap_allocate")
        self.assertGreater(depth, 500)
        self.assertEqual(way[0], "heap_allocate")
