"""What cufence prints, as pictures of a terminal: each command runs in a pseudo terminal, on the simulated device.

    ./dev build && python3 -m pip install pyte pytest
    python3 docs/screens.py                          # every screen at 80 and 120 columns, into build/screens
    python3 docs/screens.py --columns 80 demo hunt   # these only
    python3 docs/screens.py --docs                   # those that pages of docs/ show, into docs/screens
    python3 docs/screens.py --recorded FILE          # what a terminal got elsewhere (script -c COMMAND FILE), beside it as FILE.svg

A picture (SVG) is as tall as what was printed. Programs come from build/tests, so build everything first.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import html
import itertools
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path
from typing import NamedTuple

import pyte

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import simulated  # noqa: E402

TALLEST = 2000  # lines of the terminal, so that nothing scrolls away
FONT_SIZE, WIDTH, HEIGHT, MARGIN = 14, 8.4, 18, 12
NO_BREAK = "\u00a0"  # browsers make one blank of several

# Tango's colours, as most Linux terminals have them.
BACKGROUND, FOREGROUND = "#1e1e1e", "#d3d7cf"
COLOURS = {
    "black": "#000000",
    "red": "#ef5350",
    "green": "#6dbf4b",
    "brown": "#d8b13a",
    "blue": "#5f9fdf",
    "magenta": "#b48ead",
    "cyan": "#2bb7b9",
    "white": "#d3d7cf",
    "brightblack": "#7f827d",
    "default": FOREGROUND,
}


class Screen(NamedTuple):
    commands: tuple[str, ...]
    prepare: str = ""  # runs before, unseen


PYTEST = """cat > test_model.py <<'END'
import pytest, simulated

@pytest.fixture(scope="session")
def device():
    return simulated.Device()

@pytest.mark.parametrize("size", [100, 4000])
def test_last_element(device, size):
    device.read(device.allocate(size) + size - 1)

def test_past_the_end(device):
    device.read(device.allocate(4000) + 4000)
END
"""

# In these, `app` and `train` are programs of tests/sim that know nothing of cufence.
SCREENS = {
    "alone": Screen(("cufence",)),
    "help-run": Screen(("cufence run --help",)),
    "demo": Screen(("cufence demo",)),
    "demo-underrun": Screen(("cufence demo underrun",)),
    "demo-use-after-free": Screen(("cufence demo use-after-free",)),
    "dev-demo": Screen((f"{ROOT}/dev demo",)),
    "run-overrun": Screen(("cufence run ./app overrun",)),
    "run-host": Screen(("cufence run ./app out_of_bounds", "cufence run ./app double_free")),
    "run-clean": Screen(("cufence run ./app use_after_free --help", "cufence run ./app allocations")),
    "run-exception": Screen(("cufence run ./app other_exception 5",)),
    "run-slack": Screen(("cufence run --slack on ./app unmarked",)),
    "options": Screen(("cufence options",)),
    "mistakes": Screen(
        (
            "cufence python train.py",
            "cufence run train.py",
            "cufence rnu ./app",
            "cufence run --uaf sometimes ./app",
            "cufence run --uef strict ./app",
            "CUFENCE_OPTIONZ=uaf=strict cufence run ./app allocations",
            "cufence run --json - ./app overrun",
        ),
        "touch train.py",
    ),
    "doctor": Screen(("cufence doctor",)),
    "hunt": Screen(("cufence hunt -- ./app several_bugs",)),
    "hunt-clean": Screen(("cufence hunt -- ./app allocations",)),
    "values": Screen(("cufence run --values scale -- ./train scale",)),
    "nan": Screen(("cufence run --nan report -- ./train nan",)),
    "report": Screen(
        ("cufence report faults.*.json",),
        "for i in 0 1 2; do RANK=$i cufence run --json faults.%r.json ./app overrun; done;"
        " RANK=3 cufence run --json faults.%r.json ./app double_free",
    ),
    "pytest": Screen(("pytest -q --cufence",), PYTEST + "export PYTEST_PLUGINS=cufence.pytest_plugin"),
}
DOCS = {"demo": 100, "pytest": 100, "values": 80}  # screens that pages show, with their columns


# ---- the terminal ----


def run(command: str, columns: int, screen: pyte.Screen, folder: Path, environment: dict[str, str]) -> None:
    """Runs a shell command in a pseudo terminal and shows on the screen what it prints."""
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        os.chdir(folder)
        os.execvpe("bash", ["bash", "-c", command], environment)
    text = b""
    with contextlib.suppress(OSError):  # the last process that had the terminal has ended
        while chunk := os.read(terminal, 65536):
            text += chunk
    os.close(terminal)
    os.waitpid(pid, 0)
    feed(screen, text, folder)


def feed(screen: pyte.Screen, text: bytes, folder: Path) -> None:
    stream = pyte.ByteStream(screen)
    for line in text.splitlines(keepends=True):
        if not re.match(rb"Script (started|done) ", line):
            stream.feed(without_paths(line, folder, screen.columns).replace(b"\033[2m", b"\033[90m"))  # pyte knows no dim text


def report_in(lines: list[bytes]) -> list[bytes]:
    """The first report among lines, without folders of the stories."""
    last = next(number for number, line in enumerate(lines) if b"SUMMARY: cufence: " in line)
    heads = [number for number, line in enumerate(lines[:last]) if re.search(rb"\033\[1;31m", line)]
    shown = [line.replace(b"tests/gpu/stories/", b"") for line in lines[heads[0] : last + 1]]
    return [line.rstrip(b"\r\n") + b"\r\n" for line in shown]


def folded(line: bytes, columns: int) -> bytes:
    """A long line, broken at a blank. What follows stands below its second word, as the program does on a terminal."""
    if visible(line) <= columns:
        return line
    at = line.rfind(b" ", 0, columns + sum(map(len, re.findall(rb"\033\[[\d;]*m(?=.)", line.rstrip()))))
    colour = re.search(rb"\033\[1;31m", line)
    hang = b" " * (line.index(b"== ") + 12 - line.index(b"=="))
    return line[:at] + b"\r\n" + hang + (colour[0] if colour else b"") + line[at + 1 :]


def visible(line: bytes) -> int:
    """Columns that a line takes."""
    return len(re.sub(r"\033\[[\d;]*m|[\r\n]", "", line.decode(errors="replace")))


def without_paths(line: bytes, folder: Path, columns: int) -> bytes:
    """Without folders of this machine. A certainty at the right edge stays there."""
    shown = line
    for path in (folder, ROOT):
        shown = shown.replace(f"{path}/".encode(), b"")
    gap = b" " * max(0, min(len(line) - len(shown), columns - visible(shown)))
    return re.sub(rb"  (?=(\033\[\d+m)?(exact|re-run|derived|candidate)(\033\[0m)?\r?\n)", b"  " + gap, shown)


def build_folder(folder: Path, build: Path) -> dict[str, str]:
    """Puts programs into a folder and returns the environment for commands there."""
    commands = folder / ".bin"
    commands.mkdir()
    (commands / "cufence").symlink_to(build / "bin" / "cufence")
    (folder / "app").symlink_to(build / "tests" / "programs" / "program_dlsym")
    (folder / "train").symlink_to(build / "tests" / "run_tree" / "values_story")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CUFENCE_", "RANK", "GITHUB_"))}
    environment |= {
        "PATH": f"{commands}:{Path(sys.executable).parent}:{environment['PATH']}",
        "LD_LIBRARY_PATH": str(build / "tests" / "libcuda"),
        "CUFENCE_DRIVER": "sim",
        "CUFENCE_LIBRARY": str(build / "lib" / "libcufence.so"),
        "PYTHONPATH": f"{ROOT}/allocator/torch:{ROOT}/tests/python",
        "SIMULATED_KERNEL": str(simulated.build(commands, "cc")),
        "TERM": "xterm-256color",
    }
    return environment


# ---- the picture ----


def draw(screen: pyte.Screen, file: Path) -> None:
    """Writes the screen as SVG: a text element for each run of cells that look alike, stretched to its cells whatever the font."""
    lines = max((y for y, line in screen.buffer.items() if any(cell.data.strip() for cell in line.values())), default=0) + 1
    size = round(screen.columns * WIDTH) + 2 * MARGIN, lines * HEIGHT + 2 * MARGIN
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" viewBox="0 0 {size[0]} {size[1]}" '
        f'font-family="ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{FONT_SIZE}">',
        f'<rect width="100%" height="100%" rx="6" fill="{BACKGROUND}"/>',
    ]
    for y in range(lines):
        cells = [screen.buffer[y][x] for x in range(screen.columns)]
        for (colour, bold), run in itertools.groupby(enumerate(cells), lambda cell: (cell[1].fg, cell[1].bold)):
            first, text = (found := list(run))[0][0], "".join(cell.data for _, cell in found)
            if text.strip():
                start, text = first + len(text) - len(text.lstrip()), text.strip()
                style = f'fill="{COLOURS.get(colour, f"#{colour}")}"' + (' font-weight="bold"' if bold else "")
                svg.append(
                    f'<text x="{MARGIN + start * WIDTH:g}" y="{MARGIN + y * HEIGHT + FONT_SIZE}" textLength="{len(text) * WIDTH:g}" '
                    f'lengthAdjust="spacingAndGlyphs" {style}>{html.escape(text).replace(" ", NO_BREAK)}</text>'
                )
    file.write_text("\n".join([*svg, "</svg>"]) + "\n")


def take(name: str, columns: int, build: Path, file: Path) -> None:
    screen = pyte.Screen(columns, TALLEST)
    with tempfile.TemporaryDirectory() as holder:
        folder = Path(holder)
        environment = build_folder(folder, build)
        if SCREENS[name].prepare:
            after = subprocess.run(
                ["bash", "-c", f"{{ {SCREENS[name].prepare}\n}} >/dev/null 2>&1; env -0"],
                cwd=folder, env=environment, capture_output=True, text=True, check=True,
            )  # fmt: skip
            environment = dict(each.split("=", 1) for each in after.stdout.split("\0") if each)
        for command in SCREENS[name].commands:
            pyte.Stream(screen).feed(f"\033[1;32m$\033[0m {command}\r\n")
            run(command, columns, screen, folder, environment)
            if screen.cursor.x:
                pyte.Stream(screen).feed("\r\n")
    draw(screen, file)
    print(f"{file}  {file.stat().st_size // 1024} KiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SCREENS)}; default: all")
    parser.add_argument("--columns", default="80,120")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "screens")
    parser.add_argument("--recorded", type=Path, help="a file with what a terminal got")
    parser.add_argument("--docs", action="store_true", help="the screens of docs/, into docs/screens")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(SCREENS):
        parser.error(f"no screen {', '.join(sorted(unknown))}; there are {', '.join(SCREENS)}")
    if arguments.recorded:
        lines = report_in(arguments.recorded.read_bytes().splitlines(keepends=True))
        screen = pyte.Screen(max(visible(line) for line in lines if b"SUMMARY" not in line), TALLEST)
        feed(screen, b"".join(folded(line, screen.columns) for line in lines), ROOT / "tests" / "gpu" / "stories")
        draw(screen, arguments.recorded.with_suffix(".svg"))
        return
    if arguments.docs:
        for name, columns in DOCS.items():
            take(name, columns, arguments.build, ROOT / "docs" / "screens" / f"{name}.svg")
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or SCREENS:
        for columns in map(int, arguments.columns.split(",")):
            take(name, columns, arguments.build, arguments.out / f"{name}-{columns}.svg")


if __name__ == "__main__":
    main()
