"""The pytest process that the user started with --cufence: sends each test to a worker process and reports the result."""

from __future__ import annotations

import builtins
import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from array import array
from pathlib import Path
from typing import Any

import pytest

from . import _command

SECTION = "cufence"
STATUS = 87  # docs/exit-status.md
END_SECONDS = 60  # for the worker's last fixtures and CUDA's shutdown

# The worker uses the sys.path of this process.
_CODE = "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); import pytest; sys.exit(pytest.main())"


class _Process:
    """A worker process. Messages are dicts, as JSON, over a pipe, which it finds in the environment variable `mark`."""

    def __init__(self, arguments: list[str], folder: Path, environment: dict[str, str], mark: str) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        path = [entry for entry in sys.path if isinstance(entry, str)]  # Python ignores others, such as Path
        command = [sys.executable, *flags, "-c", _CODE, json.dumps(path), *arguments]
        with theirs:
            environment = {**environment, mark: str(theirs.fileno())}
            self.process = subprocess.Popen(command, env=environment, cwd=folder, pass_fds=[theirs.fileno()])

    def send(self, **message: Any) -> None:
        with contextlib.suppress(OSError):  # the worker has exited; receive() returns None
            self.pipe.send_bytes(json.dumps(message).encode())

    def receive(self) -> dict[str, Any] | None:
        """Returns the next message, None if the worker has exited."""
        try:
            message: dict[str, Any] = json.loads(self.pipe.recv_bytes())
            return message
        except (EOFError, OSError):
            return None

    def end(self) -> str:
        """Closes the pipe, waits for the worker to exit, kills it after END_SECONDS, and returns how it ended."""
        self.pipe.close()
        try:
            status = self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        return f"exit status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"


def _guarded(environment: dict[str, str], options: str) -> dict[str, str]:
    """Returns the environment that `cufence run` sets up for this interpreter. Raises UsageError."""
    say = "import json, os; print(json.dumps(dict(os.environ)))"
    command = [_command.program(), "run", "--set", options, "--", sys.executable, "-I", "-S", "-c", say]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise pytest.UsageError(f"cufence: {command[0]} cannot be run: {error.strerror}: reinstall cufence") from error
    if done.returncode:
        message = done.stderr.strip().removeprefix("cufence run: ")
        raise pytest.UsageError(f"cufence: {message.replace('--set: ', '--cufence-options: ', 1)}")
    guarded: dict[str, str] = json.loads(done.stdout)
    return guarded


# ---- what was guarded, as the processes of the tests tell (allocator/base/tally.h) ----

TALLY = "CUFENCE_TALLY"
TALLY_HEAD = b"cufence tally 2\0"
CONTEXT, GUARDED = "cg"  # of enum tally_letter

# Why nothing was guarded, the first that applies.
_WHY = {
    CONTEXT: "every allocation was left to the driver, as said above",
    "u": "cufence could not start, as said above",
    "i": "CUDA was initialised, but no test created a context",
    "n": "CUDA could not be initialised: cuInit failed; `cufence doctor` says more",
}


class Summary:
    """Says at the end what was guarded, and makes a session fail in which nothing was. The file's name is in the environment, in
    front of those that are there, so that every process counts."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        folder, before = tempfile.TemporaryDirectory(prefix="cufence-pytest-"), os.environ.get(TALLY, "")
        config.add_cleanup(folder.cleanup)
        config.add_cleanup(lambda: os.environ.update({TALLY: before}))
        self.file = Path(folder.name) / "tally"
        self.file.write_bytes(TALLY_HEAD + bytes(array("I", [0] * 128)))
        os.environ[TALLY] = f"{self.file}:{before}" if before else str(self.file)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        counts = array("I", self.file.read_bytes()[len(TALLY_HEAD) :])  # of processes, by letter
        used, guarded = counts[ord(CONTEXT)], counts[ord(GUARDED)]
        why = next((why for letter, why in _WHY.items() if counts[ord(letter)]), "no test used CUDA; see `cufence doctor`")
        self.says = f"cufence: NOTHING WAS GUARDED: {why}"
        if guarded:
            self.says = f"cufence: GPU memory was guarded in {guarded} of {used} process{'es' if used > 1 else ''} that used CUDA"
        self.is_failure = not guarded and self.config.getoption("--require-guarded")
        if self.is_failure:
            self.says += f" (exit status {STATUS}; --no-require-guarded lets it pass)"
            session.exitstatus = session.exitstatus or STATUS

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_line(self.says, red=self.is_failure, yellow="NOTHING" in self.says)


class Main:
    def __init__(self, config: pytest.Config, mark: str) -> None:
        self.config = config
        self.mark = mark
        self.worker: _Process | None = None
        folder = tempfile.TemporaryDirectory(prefix="cufence-pytest-")
        config.add_cleanup(folder.cleanup)
        config.add_cleanup(self._end)
        self.log = Path(folder.name) / "reports.txt"
        # Keep reports in a file: if the worker crashes, the output that its pytest captured is lost. The user's own log=
        # follows and wins.
        log = f"log={self.log}"
        before = ",".join(filter(None, [log, os.environ.get("CUFENCE_OPTIONS")]))
        self.environment = _guarded({**os.environ, "CUFENCE_OPTIONS": before}, config.getoption("--cufence-options"))
        self.environment[TALLY] = os.environ[TALLY]
        self.options = self.environment["CUFENCE_OPTIONS"].removeprefix(log).removeprefix(",")

    def pytest_report_header(self) -> str:
        return f"cufence: options: {self.options or 'defaults'}; the end says what was guarded"

    def _end(self) -> str:
        worker, self.worker = self.worker, None
        return worker.end() if worker is not None else ""

    def _start(self) -> _Process:
        parameters = self.config.invocation_params
        arguments = [str(argument) for argument in parameters.args]
        if hasattr(self.config, "workerinput"):  # this is a worker of pytest-xdist, which has got no arguments but the files
            arguments = [*self.config.workerinput["mainargv"][1:], "-n", "0", "--dist", "no"]
        self.worker = _Process(arguments, parameters.dir, self.environment, self.mark)
        if self.worker.receive() is None:
            pytest.exit(f"cufence: the worker ended before its first test ({self._end()})", returncode=3)
        return self.worker

    def _take(self, message: dict[str, Any]) -> None:
        if "report" in message:
            report = self.config.hook.pytest_report_from_serializable(config=self.config, data=message["report"])
            if isinstance(report.longrepr, list):
                report.longrepr = tuple(report.longrepr)  # a skipped test's; JSON has no tuples
            self.config.hook.pytest_runtest_logreport(report=report)
        elif "warning" in message:
            name, text, file, line, nodeid = message["warning"]
            kind = getattr(builtins, name, UserWarning)
            warning = warnings.WarningMessage(kind(text), kind, file, line)
            about = {"warning_message": warning, "when": "runtest", "nodeid": nodeid, "location": None}
            self.config.hook.pytest_warning_recorded.call_historic(kwargs=about)
        elif message["interrupted"]:
            raise KeyboardInterrupt(message["end"])
        else:
            pytest.exit(message["end"], message["status"])

    def _failed(self, item: pytest.Item, text: str) -> None:
        """Reports a test that has no report of its own: the worker has ended, or does not know it."""
        reports = self.log.read_text(errors="replace") if self.log.is_file() else ""
        sections = [(SECTION, reports)] if reports else []
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call", sections)
        self.config.hook.pytest_runtest_logreport(report=report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        self.log.unlink(missing_ok=True)  # reports of earlier tests
        worker = self.worker or self._start()
        worker.send(run=item.nodeid, next=nextitem.nodeid if nextitem is not None else None)
        while (message := worker.receive()) and "done" not in message:
            self._take(message)
        if message is None:
            self._failed(item, f"the process that ran the tests ended during this one: {self._end()}")
        elif message["done"] == "unknown":
            self._failed(item, "under cufence this test was not collected: what is collected must not change from run to run")
        elif message["done"] == "faulted":
            self._end()
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_keyboard_interrupt(self) -> None:
        if self.worker is not None:
            self.worker.process.send_signal(signal.SIGINT)  # the signal may have gone to this process only

    def pytest_sessionfinish(self) -> None:
        self._end()
