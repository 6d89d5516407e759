"""The command line as people meet it: completion, the manual page, the width of what is printed, Ctrl-C at a terminal, and what `cufence doctor`
says of Python installations."""

from __future__ import annotations

import functools
import gzip
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import standin
from standin import COMMAND

import cufence as package

MANUAL = standin.ROOT / "docs" / "cufence.1"


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
class Completion(unittest.TestCase):
    """allocator/cli/completion.bash knows all that the command does, and nothing else."""

    def test_everything_is_offered(self) -> None:
        commands = sub_commands()
        self.assertEqual(len(commands), 9)
        self.assertEqual(set(self.complete_in_bash("")), {*commands, "help", "--help", "--version"})
        self.assertEqual(set(self.complete_in_bash("help", "")), set(commands))
        for command in commands:
            with self.subTest(command):
                usage = cufence(command, "--help").partition("\n\n")[0]
                own = set(re.findall(r"\[(--[a-z][-a-z]*)", usage)) | {"--help"}
                if "--KEY" in usage:
                    own |= {f"--{option}" for option in library_options()}
                self.assertEqual(set(self.complete_in_bash(command, "--")), own)
                for option in re.findall(r"\[--([a-z][-a-z]*)\]", usage):
                    self.assertEqual(self.complete_in_bash(command, f"--{option}", "--hel"), ["--help"], option)
        self.assertEqual(set(self.complete_in_bash("options", "")), set(library_options()))

    def test_every_choice_is_offered(self) -> None:
        for option in json.loads(cufence("options", "--json")):
            with self.subTest(option["key"]):
                offered = self.complete_in_bash("run", f"--{option['key']}", "")
                if option["type"] in ("choice", "switch"):
                    self.assertEqual(offered, option["allowed"].partition(",")[0].split(" | "))
        for command, option in (("hunt", "modes"), ("run", "preset")):
            words = re.findall(r"^  (\w+) ", re.split(r"\n(?:Modes|Presets)", cufence(command, "--help"))[1].partition("\n\n")[0], re.M)
            self.assertEqual(self.complete_in_bash(command, f"--{option}", ""), words)
        listed = [line.split()[0] for line in cufence("demo", "--list").splitlines()]
        self.assertEqual(self.complete_in_bash("demo", ""), listed)

    def complete_in_bash(self, *words: str) -> list[str]:
        code = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cufence; printf "%s\\n" "${COMPREPLY[@]}"'
        command = ["bash", "-c", code, "bash", standin.ROOT / "allocator/cli/completion.bash", COMMAND, *words]
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
            (("hunt", "--require-guarded", "--mo"), ["--modes"]),
            (("hunt", "--modes", "st"), ["start", "strict"]),
            (("demo", "u"), ["underrun", "use-after-free"]),
            (("options", "--ch"), ["--check"]),
            (("run", "python", "--ua"), []),
            (("run", "--", "--ua"), []),
            (("run", "--guard", "1G", "--if-asked", "python", "--ua"), []),
        ):
            with self.subTest(words):
                self.assertEqual(self.complete_in_bash(*words), expected)
        self.assertIn("bash", self.complete_in_bash("run", "--if-asked", "bas"))
        self.assertIn("bash", self.complete_in_bash("hunt", "--modes", "end", "--", "bas"))

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
        self.assertIn("CUFENCE_UAF=strict: cufence does not read this variable; write CUFENCE_OPTIONS=uaf=strict\n", done.stderr)

    def test_help_keeps_to_79_columns(self) -> None:
        for text in [cufence("--help"), *(cufence(command, "--help") for command in sub_commands())]:
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


DUMP = standin.BUILD / "dumps" / "trap_last.core.gz"
NAME = "two\nlines \x1b[31m\x9b\u202e\udcff"  # the last is a byte that is not UTF-8


@unittest.skipUnless(COMMAND.is_file() and DUMP.is_file(), "build first")
class WrongFiles(standin.InOneFolder):
    """Each command that takes a file, with each kind of wrong file: one sentence, the right status, 3 GiB of memory at most."""

    KNOWN = {"cut": "it must be a text file", "folder": "Is a directory", "secret": "Permission denied", "bomb": "it must be a text file",
             "zeros": "it must be a text file", "missing": "No such file"}
    PLACE = {"empty": "Not a directory", "zeros": "Not a directory", "pipe": "Not a directory", "folder/no\n\x9b/no": "No such file"}
    PROGRAM = dict.fromkeys(("./empty", "./cut", "./zeros", "./secret", f"./{NAME}"), "is not executable")
    PROGRAM |= {"./folder": "is a directory", "./pipe": "is a pipe", "./missing": "there is no"}
    OUTPUT = {"folder": "Is a directory", "secret": "Permission denied", "folder/no/\x1b": "No such file"}
    # Part of the sentence by what is given; None: that is well. A word in capitals is a folder of the three files of a bundle.
    TABLE = {
        ("explain",): {
            "empty": "it is empty", "cut": "is not an ELF64 file, or it is cut off", "text": "is not an ELF64 file", "json": "is not an ELF64 file",
            "cubin": "it has no table of GPUs", "folder": "it has no GPU core dump", "pipe": "it is not a regular file",
            "secret": "Permission denied", "bomb": "it has more than 1 GiB", "missing": "No such file", NAME: "is not an ELF64 file",
            "EMPTY": "dump.gz: it is empty", "BOMB": "it has more than 1 GiB", "PIPE": "dump.gz: it is not a regular file",
        },
        ("replay",): {
            **dict.fromkeys(("empty", "cut", "text", "json", "pipe", "secret", "bomb", NAME), "Not a directory"), "missing": "No such file",
            "folder": "launch.json: No such file", "EMPTY": "launch.json: it is empty", "BOMB": "launch.json: cannot be unpacked",
            "CUT": "launch.json is not a JSON object", "PIPE": "launch.json: it is not a regular file",
        },
        ("report",): {
            "empty": "it is empty", "cut": "it is not JSON", "text": "it is not JSON", "json": None, "folder": "Is a directory",
            "pipe": "it is empty", "secret": "Permission denied", "bomb": "it is not JSON", "zeros": "it has more than 16 MiB",
            "deep": "maximum parsing depth", "missing": "No such file", NAME: "it is not JSON",
        },
        ("report", "json", "--known"): {"empty": None, "text": None, "pipe": None} | KNOWN, ("hunt",): PROGRAM,
        ("run",): {"./script": "Exec format error"} | PROGRAM,
        ("run", "--known"): {"pipe": "it is a pipe"} | KNOWN, ("hunt", "--known"): {"pipe": "it is a pipe"} | KNOWN, ("hunt", "--keep"): PLACE,
        ("run", "--json"): OUTPUT, ("hunt", "--json"): OUTPUT, ("report", "json", "--html"): {"pipe": "Broken pipe"} | OUTPUT,
    }  # fmt: skip
    STATUS = {"explain": 1, "replay": 1, "report": 87, "run": 126, "hunt": 126}

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        dump = gzip.decompress(DUMP.read_bytes())
        bomb = gzip.compress(bytes(100 << 20), 1) * 100
        contents = {"empty": b"", "cut": dump[: len(dump) // 2], "text": b"a\nb\n", "secret": b"x", "bomb": bomb, "deep": b"[" * 100000}
        contents |= {"json": b'{"schema":2,"kind":"overrun"}\n', NAME: b"text", "zeros": b"", "cubin": dump[dump.index(b"\x7fELF", 1) :], "script": b"x"}
        for name, content in contents.items():
            (cls.folder / name).write_bytes(content)
        os.truncate(cls.folder / "zeros", 10 << 30)
        (cls.folder / "folder").mkdir()
        os.mkfifo(cls.folder / "pipe")
        for bundle in ("EMPTY", "BOMB", "CUT", "PIPE"):
            (cls.folder / bundle).mkdir()
            for file in ("dump.gz", "launch.json"):
                os.link(cls.folder / bundle.lower(), cls.folder / bundle / file)
        os.chmod(cls.folder / "secret", 0)
        os.chmod(cls.folder / "script", 0o755)
        os.chmod(cls.folder, 0o755)

    def test_each_is_told_in_one_sentence(self) -> None:
        nobody = {} if os.geteuid() else {"user": 65534}
        most = resource.RLIM_INFINITY if b"__asan_init" in COMMAND.read_bytes() else 3 << 30
        limit = functools.partial(resource.setrlimit, resource.RLIMIT_AS, (most, most))
        for command, files in self.TABLE.items():
            for file, sentence in files.items():
                with self.subTest(command=command, file=file):
                    rights = nobody if file == "secret" else {}
                    program = ("--", "true") if command[0] in ("run", "hunt") and len(command) > 1 else ()
                    done = standin.run(COMMAND, *command, file, *program, timeout=60, cwd=self.folder, preexec_fn=limit, **rights)
                    self.assertEqual(done.returncode, self.STATUS.get(command[-1], 2) + (file == "./missing") if sentence else 0, done.stderr)
                    self.assertEqual(done.stderr.count("\n"), 1 if sentence else 0, done.stderr)
                    self.assertIn(sentence or "", done.stderr)
                    self.assertIn("".join(c if c.isprintable() and c != "\udcff" else "?" for c in file), done.stderr if sentence else file)
                    self.assertEqual([letter for letter in done.stderr[:-1] if not letter.isprintable()], [])

    def test_in_a_folder_each_dump_is_told_and_no_other_file(self) -> None:
        nobody = {} if os.geteuid() else {"user": 65534}
        (self.folder / "dumps/sub").mkdir(parents=True)
        for name in ("cut", "bomb", "secret", "text", "json", "cubin", "empty", "pipe", NAME):
            os.link(self.folder / name, self.folder / "dumps" / name)
        shutil.copy(DUMP, self.folder / "dumps/good")
        (self.folder / "dumps/x.nvcudmp").touch()
        done = standin.run(COMMAND, "explain", "dumps", cwd=self.folder, **nobody)
        self.assertEqual((done.returncode, done.stdout.split("\n")[0]), (1, "dumps/good"), done.stderr)
        told = [line.split(": ")[1] for line in done.stderr.splitlines()]
        self.assertEqual(told, [f"dumps/{name}" for name in ("bomb", "cut", "secret", "x.nvcudmp")], done.stderr)


# Importing it fails the test, because it leaves a marker.
BOMB = "import pathlib\npathlib.Path(__file__).with_name('imported').touch()\n"


@unittest.skipUnless(COMMAND.is_file(), f"no {COMMAND}")
class Doctor(standin.InFolder):
    def install(self, name: str, version: str, files: dict[str, str]) -> None:
        metadata = self.folder / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        standin.write_files(self.folder, files)

    def checks(self, **environment: str) -> dict[str, dict[str, str]]:
        """Returns the doctor's checks by name."""
        unwanted = ("PYTORCH_", "CUFENCE_", "LD_PRELOAD")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
        path = os.pathsep.join([str(self.folder), str(standin.PACKAGE)])
        environment = {**clean, "CUFENCE_DRIVER": "sim", "PYTHONPATH": path, **environment}
        done = subprocess.run([COMMAND, "doctor", "--json"], env=environment, capture_output=True, text=True, timeout=120)
        document = json.loads(done.stdout)
        self.assertEqual(document["can_work"], done.returncode == 0, done.stderr)
        return {check["check"]: check for check in document["checks"]}

    def expect(self, check: dict[str, str], found: str, detail: str) -> None:
        self.assertEqual(check["found"], found, check)
        self.assertIn(detail, check["detail"])

    def test_finds_pytorch_without_importing_it(self) -> None:
        self.install("torch", "2.11.0+cu130", {"torch/__init__.py": BOMB})
        checks = self.checks()
        self.expect(checks["PyTorch"], "yes", "2.11.0+cu130")
        self.expect(checks["cufence package"], "yes", f"{package.__version__}, {standin.PACKAGE / 'cufence'}")
        self.assertEqual(list(self.folder.rglob("imported")), [])

    def test_a_build_without_cuda(self) -> None:
        self.install("torch", "2.11.0+cpu", {"torch/__init__.py": ""})
        self.expect(self.checks()["PyTorch"], "no", "built without CUDA")

    def test_a_version_without_an_allocator_of_its_own(self) -> None:
        self.install("torch", "2.10.0", {"torch/__init__.py": ""})
        self.expect(self.checks()["PyTorch"], "no", "2.10.0: its back end cudaMallocAsync is taken")

    def test_a_package_of_another_version(self) -> None:
        self.install("cufence", "9.9", {"cufence/__init__.py": "__version__ = '9.9'\n", "cufence-startup.pth": ""})
        checks = self.checks()
        self.expect(checks["cufence package"], "no", f"it is version 9.9, this program is {package.__version__}")
        self.expect(checks["start-up hook"], "yes", "in place")

    def test_a_setting_that_asks_for_cufence_starts_no_interpreter_anew(self) -> None:
        self.install("torch", "2.11.0", {"torch/__init__.py": ""})
        checks = self.checks(PYTORCH_CUDA_ALLOC_CONF="backend:cufence,cufence_uaf:strict")
        self.expect(checks["settings"], "yes", "backend:cufence,cufence_uaf:strict asks for cufence")
        self.assertIn("python3", checks)

    def test_an_interpreter_that_says_nothing_of_use(self) -> None:
        python = self.folder / "python3"
        python.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
        python.chmod(0o755)
        checks = self.checks(PATH=f"{self.folder}{os.pathsep}{os.environ['PATH']}")
        self.expect(checks["python3"], "no", "broken")
