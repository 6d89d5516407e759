"""The command line as people meet it: completions, the manual page, the width of what is printed, Ctrl-C at a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest
from pathlib import Path

import standin
from standin import BUILD, COMMAND, LIBCUDA

MANUAL = standin.ROOT / "docs" / "cufence.1"
SHELLS = ("bash", "zsh", "fish")


def cufence(*arguments: str) -> str:
    environment = standin.clean_environment(CUFENCE_DRIVER="sim")
    return subprocess.run([COMMAND, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=True).stdout


def sub_commands() -> list[str]:
    return re.findall(r"^  ([a-z]\w*)  ", cufence("--help"), re.M)


def own_options(command: str) -> set[str]:
    """Those that a sub-command's help names."""
    return set(re.findall(r"--[a-z][-_a-z]*", cufence(command, "--help"))) - {"--steps"}


def library_options() -> list[str]:
    return re.findall(r"^(\w+): ", cufence("options"), re.M)


def read_until(terminal: int, word: str) -> str:
    """Reads what a terminal shows, until it has shown the word."""
    text, until = "", time.monotonic() + 60
    while word not in text:
        if time.monotonic() > until or not select.select([terminal], [], [], until - time.monotonic())[0]:
            raise AssertionError(f"no {word!r} in {text!r}")
        text += os.read(terminal, 4096).decode()
    return text


@unittest.skipUnless(COMMAND.is_file(), f"no {COMMAND}")
class Completion(standin.InFolder):
    def setUp(self) -> None:
        super().setUp()
        self.files = {shell: self.folder / f"completion.{shell}" for shell in SHELLS}
        for shell, file in self.files.items():
            file.write_text(cufence("completion", shell))
        self.environment = {**os.environ, "PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}

    def test_syntax(self) -> None:
        for shell in SHELLS:
            with self.subTest(shell):
                if not shutil.which(shell):
                    self.skipTest(f"no {shell} here")
                subprocess.run([shell, "-n", self.files[shell]], check=True, timeout=60)

    def test_everything_is_offered(self) -> None:
        def offered(*words: str) -> set[str]:
            return {line.split("\t")[0] for line in cufence("complete", *words).splitlines()}

        self.assertGreater(len(sub_commands()), 5)
        self.assertGreater(len(library_options()), 20)
        self.assertEqual(offered(""), {*sub_commands(), "help", "--help", "--version"})
        for command in sub_commands():
            with self.subTest(command):
                self.assertLessEqual({command}, offered("help", ""))
                usage = re.split(r"\n\n\w", cufence(command, "--help"))[0]
                self.assertLessEqual(set(re.findall(r"\[(--[-a-z]+)", usage)), offered(command, "--"))
        self.assertLessEqual({f"--{option}" for option in library_options()}, offered("run", "-"))

    def complete_in_bash(self, *words: str) -> list[str]:
        code = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cufence; printf "%s\\n" "${COMPREPLY[@]}"'
        command = ["bash", "-c", code, "bash", self.files["bash"], COMMAND, *words]
        environment = {**os.environ, "LC_ALL": "C"}  # bash complains of a locale that is not installed
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_in_bash(self) -> None:
        for words, expected in (
            (("ru",), ["run"]),
            (("r",), ["run", "replay", "report"]),
            (("hu",), ["hunt"]),
            (("help", "exp"), ["explain"]),
            (("run", "--uaf_"), []),
            (("run", "--uaf", ""), ["off", "adaptive", "strict"]),
            (("run", "--uaf", "=", "s"), ["strict"]),
            (("run", "--uaf", "=", "strict", "--sid"), ["--side"]),
            (("run", "--verbose", "=", "o"), []),
            (("replay", "--json", "=", "on", "--ver"), ["--verbose"]),
            (("run", "--preset", "t"), ["thorough"]),
            (("hunt", "--first", "--mo"), ["--modes"]),
            (("hunt", "--modes", "st"), ["start", "strict"]),
            (("demo", "u"), ["underrun", "use-after-free"]),
            (("completion", "f"), ["fish"]),
            (("options", "--ch"), ["--check"]),
            (("run", "python", "--ua"), []),
            (("run", "--", "--ua"), []),
            (("run", "--guard", "1G", "--if-asked", "python", "--ua"), []),
        ):
            with self.subTest(words):
                self.assertEqual(self.complete_in_bash(*words), expected)
        self.assertIn("bash", self.complete_in_bash("run", "--if-asked", "bas"))
        self.assertIn("bash", self.complete_in_bash("hunt", "--modes", "end", "--", "bas"))

    @unittest.skipUnless(shutil.which("fish"), "no fish here")
    def test_in_fish(self) -> None:
        for line, expected in (
            ("cufence hu", {"hunt"}),
            ("cufence run --ua", {"--uaf"}),
            ("cufence run --uaf=s", {"--uaf=strict"}),
            ("cufence demo use", {"use-after-free"}),
            ("cufence replay --json on --ver", {"--verbose"}),
            ("cufence report --html complet", {"completion.bash", "completion.fish", "completion.zsh"}),
            ("cufence report --html=complet", {f"--html=completion.{shell}" for shell in SHELLS}),
            ("cufence run --uaf strict true --uaf=", set()),
        ):
            with self.subTest(line):
                code = f"source completion.fish; complete -C '{line}'"
                done = standin.run("fish", "--no-config", "-c", code, env=self.environment, cwd=self.folder)
                self.assertEqual({word.split("\t")[0] for word in done.stdout.splitlines()}, expected, done.stderr)

    @unittest.skipUnless(shutil.which("zsh"), "no zsh here")
    def test_in_zsh(self) -> None:
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execvpe("zsh", ["zsh", "-f"], {**self.environment, "TERM": "dumb"})
        os.write(terminal, b"autoload -Uz compinit && compinit -D; source completion.zsh; echo rea''dy\n")
        read_until(terminal, "ready\r")
        for line, expected in (
            ("cufence hu", "cufence hunt "),
            ("cufence run --uaf=st", "cufence run --uaf=strict "),
            ("cufence demo use", "cufence demo use-after-free "),
            ("cufence report --html completion.f", "cufence report --html completion.fish "),
            ("cufence report --html=completion.f", "cufence report --html=completion.fish "),
            ("cufence run --uaf strict ech", "cufence run --uaf strict echo"),
        ):
            os.write(terminal, line.encode() + b"\t")
            read_until(terminal, expected)
            os.write(terminal, b"\x15")  # Ctrl-U: another line
        os.close(terminal)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@unittest.skipUnless(COMMAND.is_file(), f"no {COMMAND}")
class Manual(unittest.TestCase):
    def test_everything_occurs(self) -> None:
        text = MANUAL.read_text().replace("\\-", "-")
        for command in sub_commands():
            self.assertIn(f"\n.B cufence {command}\n", text)
            others = {"--help", *(f"--{option}" for option in library_options())}
            self.assertEqual([option for option in own_options(command) - others if option not in text], [], command)
        words = set(re.findall(r"[a-z_0-9]+", text.partition(".SH OPTIONS")[2].partition(".SH ENVIRONMENT")[0]))
        self.assertLessEqual(set(library_options()), words)

    @unittest.skipUnless(shutil.which("groff"), "no groff here")
    def test_is_well_formed(self) -> None:
        done = subprocess.run(["groff", "-man", "-ww", "-z", MANUAL], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


@unittest.skipUnless(COMMAND.is_file(), f"no {COMMAND}")
class Output(unittest.TestCase):
    def test_the_doctor_keeps_to_100_columns(self) -> None:
        done = standin.cufence("doctor", CUFENCE_UAF="strict")
        self.assertGreater(len(done.stdout.splitlines()), 15)
        for line in done.stdout.splitlines():
            # A path may be longer than a line, and is never cut.
            self.assertTrue(len(line) <= 100 or len(line.split()) <= 4, line)
        self.assertIn("unknown variable", done.stdout)
        self.assertIn("-> write CUFENCE_OPTIONS=uaf=strict", done.stdout)

    def test_help_keeps_to_79_columns(self) -> None:
        commands = sub_commands()
        self.assertGreater(len(commands), 8)
        for text in [cufence("--help"), *(cufence(command, "--help") for command in commands)]:
            self.assertEqual([line for line in text.splitlines() if len(line) > 79], [])

    def test_statuses_mean_the_same_everywhere(self) -> None:
        """Each --help has its exit statuses, and the page has each of them."""
        page = (standin.ROOT / "docs" / "exit-status.md").read_text()
        documented = {row.replace(" ", "") for row in re.findall(r"^\| (\d+(?: \+ n)?) \|", page, re.M)}
        for command in sub_commands():
            with self.subTest(command):
                _, title, statuses = cufence(command, "--help").partition("\nExit status:\n")
                self.assertTrue(title)
                named = {status.lower() for status in re.findall(r"^  (\d+(?:\+N)?) ", statuses, re.M)}
                self.assertTrue({"2"} <= named <= documented, named)

    def test_a_link_in_path_finds_the_installation(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "cufence").symlink_to(COMMAND)
            environment = standin.clean_environment(CUFENCE_DRIVER="sim", PATH=f"{folder}:/usr/bin:/bin")
            for command in ("cufence demo", f"{folder}/cufence demo", "cufence run true"):
                done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


@unittest.skipUnless(COMMAND.is_file(), f"no {COMMAND}")
class Narrow(unittest.TestCase):
    """On a terminal lines are folded to its width. Files get them whole."""

    PROGRAM = BUILD / "tests" / "programs" / "program_dlsym"

    def shown(self, columns: int, *command: object) -> list[str]:
        """What a command shows on a terminal, without colours."""
        pid, terminal = pty.fork()
        if pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            environment = standin.clean_environment(CUFENCE_DRIVER="sim", LD_LIBRARY_PATH=str(LIBCUDA))
            os.execve(COMMAND, [str(word) for word in command], environment)
        text = b""
        with contextlib.suppress(OSError):  # the program has ended
            while chunk := os.read(terminal, 4096):
                text += chunk
        os.close(terminal)
        os.waitpid(pid, 0)
        return re.sub(r"\033\[[\d;]*m", "", text.decode()).splitlines()

    def test_lines_fit(self) -> None:
        for command in (
            ["demo"],
            ["run", self.PROGRAM, "overrun"],
            ["hunt", "--modes", "end,start", "--", self.PROGRAM, "several_bugs"],
            ["doctor"],
            ["options"],
        ):
            lines = self.shown(80, "cufence", *command)
            self.assertGreater(len(lines), 12, lines)
            for line in lines:
                # A path may be longer than a line, and is never cut.
                self.assertTrue(len(line) <= 80 or len(line.split()) <= 4 or line.startswith("cufence hunt: run"), line)

    def test_a_certainty_stands_at_the_edge(self) -> None:
        lines = self.shown(80, "cufence", "run", self.PROGRAM, "overrun")
        # A path may be longer than a line: it depends on where this checkout is.
        marks = [line for line in lines if line.endswith(" exact") and "/" not in line]
        self.assertGreater(len(marks), 2, lines)
        self.assertEqual({len(line) for line in marks}, {80}, marks)
        wide = self.shown(120, "cufence", "run", self.PROGRAM, "overrun")
        marks = [line for line in wide if line.endswith(" exact") and "/" not in line]
        self.assertGreater(len(marks), 2, wide)
        self.assertEqual({len(line) for line in marks}, {100}, marks)

    def test_files_get_whole_lines(self) -> None:
        done = standin.cufence("run", self.PROGRAM, "overrun")
        self.assertRegex(done.stderr, r"\n==\d+== SUMMARY: cufence: overrun at kernels\.cu:12 in store: .* of buffer #1\n")
        self.assertIn(100, {len(line) for line in done.stderr.splitlines()})


@unittest.skipUnless(COMMAND.is_file(), f"no {COMMAND}")
class Terminal(unittest.TestCase):
    """Ctrl-C reaches hunt and the program at once: the program must get it once only, and can read from the terminal."""

    PROGRAM = 'trap "echo interrupted; exit 7" INT; read -r line; echo "got $line"; while :; do sleep 0.05; done'

    def test_control_c(self) -> None:
        pid, terminal = pty.fork()
        if pid == 0:
            environment = standin.clean_environment(CUFENCE_DRIVER="sim", PATH=os.environ["PATH"])
            os.execve(COMMAND, ["cufence", "hunt", "--modes", "end,start", "--", "bash", "-c", self.PROGRAM], environment)
        os.write(terminal, b"a line\n")
        text = read_until(terminal, "got a line")
        os.write(terminal, b"\x03")
        text += read_until(terminal, "No mode sees")
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(status), 128 + 2, text)
        self.assertEqual(text.count("interrupted\r"), 1, text)
        self.assertIn("cufence hunt: end: exit status 7 after", text)
        self.assertNotIn("run 2 of 2", text)
