"""What cufence prints, as pictures of a terminal: each command runs in a pseudo terminal, on the simulated device.

    ./dev build && python3 -m pip install pyte Pillow pytest
    python3 docs/screens.py                          # every screen at 80 and 120 columns, into build/screens
    python3 docs/screens.py --columns 80 demo hunt   # these only
    python3 docs/screens.py --docs                   # those that pages of docs/ show, into docs/screens

A picture is as tall as what was printed. Programs come from build/tests, so build everything first.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
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
from PIL import Image, ImageDraw, ImageFont

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import simulated  # noqa: E402

TALLEST = 2000  # lines of the terminal, so that nothing scrolls away
FONT_SIZE, MARGIN = 15, 12
FONTS = ("DejaVuSansMono", "LiberationMono-Regular", "NotoSansMono-Regular")  # one of them, as fontconfig knows them

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
    "run-estimate": Screen(("cufence run --estimate ./app small_ones",)),
    "run-html": Screen(("cufence run --html found.html ./app overrun; echo status $?",)),
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
    "diff": Screen(
        ("cufence run --trace b.jsonl -- ./app traced", "cufence diff a.jsonl b.jsonl"),
        "cufence run --trace a.jsonl -- ./app traced; export TRACED=race",
    ),
    "report": Screen(
        ("cufence report faults.*.json",),
        "for i in 0 1 2; do RANK=$i cufence run --json faults.%r.json ./app overrun; done;"
        " RANK=3 cufence run --json faults.%r.json ./app double_free",
    ),
    "pytest": Screen(("pytest -q --cufence",), PYTEST + "export PYTEST_PLUGINS=cufence.pytest_plugin"),
}
DOCS = {"demo": 100, "pytest": 100, "values": 80}  # screens that pages show, with their columns


def font_file() -> str:
    for name in FONTS:
        found = subprocess.run(["fc-match", "-f", "%{file}", name], capture_output=True, text=True, check=False).stdout
        if found.endswith(f"{name}.ttf"):
            return found
    sys.exit(f"screens.py: none of these fonts is installed: {', '.join(FONTS)} (apt-get install fonts-dejavu-core)")


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
    for line in text.splitlines(keepends=True):
        pyte.ByteStream(screen).feed(without_paths(line, folder).replace(b"\033[2m", b"\033[90m"))  # pyte knows no dim text


def without_paths(line: bytes, folder: Path) -> bytes:
    """Without folders of this machine. A certainty at the right edge stays there."""
    shown = line
    for path in (folder, ROOT):
        shown = shown.replace(f"{path}/".encode(), b"")
    gap = b" " * (len(line) - len(shown))
    return re.sub(rb"  (?=(\033\[\d+m)?(exact|restaged|derived|candidate)(\033\[0m)?\r?\n)", b"  " + gap, shown)


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
    font = ImageFont.truetype(font_file(), FONT_SIZE)
    bold = ImageFont.truetype(font_file().replace("Mono.ttf", "Mono-Bold.ttf"), FONT_SIZE)
    width, height = round(font.getlength("M")), FONT_SIZE + 4
    lines = max((y for y, line in screen.buffer.items() if any(cell.data.strip() for cell in line.values())), default=0) + 1
    picture = Image.new("RGB", (screen.columns * width + 2 * MARGIN, lines * height + 2 * MARGIN), BACKGROUND)
    canvas = ImageDraw.Draw(picture)
    for y in range(lines):
        for x, cell in screen.buffer[y].items():
            if cell.data.strip():
                colour = COLOURS.get(cell.fg, f"#{cell.fg}")
                canvas.text((MARGIN + x * width, MARGIN + y * height), cell.data, colour, bold if cell.bold else font)
    picture.quantize(255, dither=Image.Dither.NONE).save(file, optimize=True)


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
    parser.add_argument("--docs", action="store_true", help="the screens of docs/, into docs/screens")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(SCREENS):
        parser.error(f"no screen {', '.join(sorted(unknown))}; there are {', '.join(SCREENS)}")
    if arguments.docs:
        for name, columns in DOCS.items():
            take(name, columns, arguments.build, ROOT / "docs" / "screens" / f"{name}.png")
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or SCREENS:
        for columns in map(int, arguments.columns.split(",")):
            take(name, columns, arguments.build, arguments.out / f"{name}-{columns}.png")


if __name__ == "__main__":
    main()
