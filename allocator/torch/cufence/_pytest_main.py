"""The pytest process that the user started with --cufence: sends each test to a worker process and reports the result."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
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
    """A worker process. Messages are lines of JSON over a pair of pipes, which it finds in the environment variable `mark`."""

    def __init__(self, arguments: list[str], folder: Path, environment: dict[str, str], mark: str) -> None:
        from_main, to_worker = os.pipe()
        from_worker, to_main = os.pipe()
        environment = {**environment, mark: f"{os.getpid()} {from_main} {to_main}"}
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        path = [entry for entry in sys.path if isinstance(entry, str)]  # Python ignores others, such as Path
        command = [sys.executable, *flags, "-c", _CODE, json.dumps(path), *arguments]
        try:
            self.process = subprocess.Popen(command, env=environment, cwd=folder, pass_fds=(from_main, to_main))
        finally:
            os.close(from_main)
            os.close(to_main)
            self.output = os.fdopen(to_worker, "w", encoding="utf-8")
            self.input = os.fdopen(from_worker, encoding="utf-8")

    def send(self, **message: Any) -> None:
        with contextlib.suppress(BrokenPipeError):  # the worker has exited; receive() returns None
            self.output.write(json.dumps(message) + "\n")
            self.output.flush()

    def receive(self) -> dict[str, Any] | None:
        """Returns the next message, None if the worker has exited."""
        line = self.input.readline()
        message: dict[str, Any] | None = json.loads(line) if line.endswith("\n") else None
        return message

    def end(self) -> int:
        """Closes the pipes, waits for the worker to exit, kills it after END_SECONDS, and returns its exit status."""
        for file in (self.output, self.input):
            with contextlib.suppress(BrokenPipeError):
                file.close()
        try:
            return self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def _how_it_ended(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


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


# ---- what the processes of the tests tell of themselves (allocator/base/tally.h) ----

TALLY = "CUFENCE_TALLY"
TALLY_HEAD = b"cufence tally 2\0"

# The letters of enum tally_letter.
NO_DEVICE, STARTED, UNGUARDED, CONTEXT, GUARDED = "niucg"


def _begin_tally(file: Path, environment: dict[str, str]) -> None:
    """Makes the tally, and names it in the environment, in front of those that are there."""
    file.write_bytes(TALLY_HEAD + bytes(array("I", [0] * 128)))
    environment[TALLY] = ":".join(filter(None, [str(file), os.environ.get(TALLY)]))


def _read_tally(file: Path) -> dict[str, int]:
    """Returns how many processes have written each letter."""
    try:
        return {chr(letter): count for letter, count in enumerate(array("I", file.read_bytes()[len(TALLY_HEAD) :])) if count}
    except OSError:
        return {}


def _sentence(counts: dict[str, int]) -> str:
    """Returns what was guarded, or why nothing was."""
    used, guarded = counts.get(CONTEXT, 0), counts.get(GUARDED, 0)
    if guarded:
        return f"GPU memory was guarded in {guarded} of {used} process{'es' if used > 1 else ''} that used CUDA"
    if used:
        why = "every allocation was left to the driver, as said above"
    elif UNGUARDED in counts:
        why = "cufence could not start, as said above"
    elif STARTED in counts:
        why = "CUDA was initialised, but no test created a context"
    elif NO_DEVICE in counts:
        why = "CUDA could not be initialised: cuInit failed; `cufence doctor` says more"
    else:
        why = "no test used CUDA; `cufence doctor` helps to find out why"
    return f"NOTHING WAS GUARDED: {why}"


def judge(session: pytest.Session, counts: dict[str, int]) -> None:
    """Makes the session fail if nothing was guarded."""
    if session.exitstatus == 0 and not counts.get(GUARDED) and session.config.getoption("--require-guarded"):
        session.exitstatus = STATUS


def say(terminal: Any, config: pytest.Config, counts: dict[str, int]) -> None:
    """Prints what was guarded, in front of the last line."""
    is_guarded = bool(counts.get(GUARDED))
    is_failure = not is_guarded and config.getoption("--require-guarded")
    way_out = f" (exit status {STATUS}; --no-require-guarded lets it pass)" if is_failure else ""
    terminal.write_line(f"cufence: {_sentence(counts)}{way_out}", red=is_failure, yellow=not is_guarded)


class Main:
    def __init__(self, config: pytest.Config, mark: str) -> None:
        self.config = config
        self.mark = mark
        self.worker: _Process | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="cufence-pytest-"))
        config.add_cleanup(self._clean)
        self.log = self.folder / "reports.txt"
        # Keep reports in a file: if the worker crashes, the output that its pytest captured is lost. The user's own log=
        # follows and wins.
        log = f"log={self.log}"
        before = ",".join(filter(None, [log, os.environ.get("CUFENCE_OPTIONS")]))
        self.environment = _guarded({**os.environ, "CUFENCE_OPTIONS": before}, config.getoption("--cufence-options"))
        self.tally = self.folder / "tally"
        _begin_tally(self.tally, self.environment)
        self.counts: dict[str, int] = {}
        self.options = self.environment["CUFENCE_OPTIONS"].removeprefix(log).removeprefix(",")

    def _clean(self) -> None:
        if self.worker is not None:
            self.worker.end()
            self.worker = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def pytest_report_header(self) -> str:
        return f"cufence: options: {self.options or 'defaults'}; the end says what was guarded"

    def _start(self) -> _Process:
        parameters = self.config.invocation_params
        arguments, folder = [str(argument) for argument in parameters.args], parameters.dir
        distributed = getattr(self.config, "workerinput", {}).get("cufence")
        if distributed:  # this is a worker of pytest-xdist, which has got no arguments but the files
            arguments, folder = [*distributed["arguments"], "-n", "0", "--dist", "no"], Path(distributed["folder"])
        worker = _Process(arguments, folder, self.environment, self.mark)
        message = worker.receive()
        if message is None:
            status = worker.end()
            pytest.exit(f"cufence: the worker ended before its first test ({_how_it_ended(status)})", returncode=3)
        return worker

    def _take(self, message: dict[str, Any]) -> None:
        if "report" in message:
            report = self.config.hook.pytest_report_from_serializable(config=self.config, data=message["report"])
            if isinstance(report.longrepr, list):
                report.longrepr = tuple(report.longrepr)  # a skipped test's; JSON has no tuples
            self.config.hook.pytest_runtest_logreport(report=report)
        elif "warning" in message:
            self._warn(message["warning"])
        elif "end" in message:
            if message["interrupted"]:
                raise KeyboardInterrupt(message["end"])
            pytest.exit(message["end"], message["status"])

    def _warn(self, told: dict[str, Any]) -> None:
        category = getattr(__import__("builtins"), told["category"], None)
        text = told["message"]
        if not (isinstance(category, type) and issubclass(category, Warning)):
            category, text = UserWarning, f"{told['category']}: {text}"
        message = warnings.WarningMessage(category(text), category, told["filename"], told["lineno"])
        self.config.hook.pytest_warning_recorded.call_historic(
            kwargs={"warning_message": message, "when": told["when"], "nodeid": told["nodeid"], "location": None}
        )

    def _crashed(self, item: pytest.Item) -> None:
        """Reports the test during which the worker exited as failed."""
        assert self.worker is not None
        status = self.worker.end()
        self.worker = None
        text = f"the process that ran the tests ended during this one: {_how_it_ended(status)}"
        reports = self.log.read_text(errors="replace") if self.log.is_file() else ""
        report = pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords={},
            outcome="failed",
            longrepr=text,
            when="call",
            sections=[(SECTION, reports)] if reports else [],
        )
        self.config.hook.pytest_runtest_logreport(report=report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        if self.log.is_file():
            self.log.unlink()  # reports of earlier tests
        if self.worker is None:
            self.worker = self._start()
        self.worker.send(run=item.nodeid, next=nextitem.nodeid if nextitem is not None else None)
        while True:
            message = self.worker.receive()
            if message is None:
                self._crashed(item)
                break
            if "done" in message:
                if message["faults"]:
                    self.worker.end()
                    self.worker = None
                break
            self._take(message)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_keyboard_interrupt(self) -> None:
        if self.worker is not None:
            self.worker.process.send_signal(signal.SIGINT)  # the signal may have gone to this process only

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.worker is not None:
            self.worker.end()
            self.worker = None
        self.counts = _read_tally(self.tally)
        if hasattr(self.config, "workeroutput"):  # of pytest-xdist, whose main process says it for all
            self.config.workeroutput["cufence"] = self.counts
        else:
            judge(session, self.counts)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        say(terminalreporter, self.config, self.counts)
