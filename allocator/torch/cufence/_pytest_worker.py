"""The pytest process that runs the tests of `pytest --cufence`, guarded: receives names of tests and returns their reports."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import warnings
from collections.abc import Generator
from multiprocessing.connection import Connection
from typing import Any

import pytest

from . import _api, _library, _tell
from ._pytest_main import SECTION

WAIT_SECONDS = 30.0


def _say_no_more() -> None:
    """A process with a fault ends in the middle of the session. Its closing lines would break pytest's line of dots, and the main
    process reports the fault."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _synchronize() -> None:
    """Waits for the test's GPU work, so that its faults are detected before the next test."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        for device in range(torch.cuda.device_count()):
            if torch._C._cuda_hasPrimaryContext(device):  # waiting would create the others' contexts
                with contextlib.suppress(RuntimeError):  # a fault, or an error of the test itself
                    torch.cuda.synchronize(device)
    library = _library.loaded()
    if library is not None:
        library.cufence_torch_before_sync(0, 0)  # the current device, even if torch did not start CUDA


def _settled() -> Generator[None, Any, Any]:
    """Wraps a phase of a test, inside pytest's capture. After it, all faults of the phase are reported, with names."""
    error: BaseException | None = None
    try:
        return (yield)
    except BaseException as raised:
        error = raised
        raise
    finally:
        _synchronize()
        with contextlib.suppress(_library.Error):  # CUDA is not in use yet
            _api.wait_reports(WAIT_SECONDS)
        _tell.after(error, error.__traceback__ if error is not None else None)
        del error  # it refers to this frame


class Worker:
    def __init__(self, config: pytest.Config, descriptor: int) -> None:
        self.config = config
        os.set_inheritable(descriptor, False)
        self.pipe = Connection(descriptor)
        self.pid = os.getpid()
        self.faults = 0
        # Set as pytest-xdist does in its workers: plugins then leave writing files to the main process.
        config.workerinput = {  # type: ignore[attr-defined]
            "workerid": os.environ.get("PYTEST_XDIST_WORKER", "cufence"),
            "workercount": int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")),
            "testrunuid": os.environ.get("PYTEST_XDIST_TESTRUNUID", ""),
        }
        from . import _startup  # noqa: F401, patches other libraries even if the package is not installed

    def _send(self, **message: Any) -> None:
        if os.getpid() != self.pid:
            os._exit(1)  # a child that a test forked, and that has left the test: the pipe is its parent's
        self.pipe.send_bytes(json.dumps(message, default=repr).encode())

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        # The main process prints. The terminal reporter stays here, because other plugins require it, but is silenced.
        if self.config.pluginmanager.hasplugin("terminalreporter"):
            self.config.get_terminal_writer()._file = open(os.devnull, "w")  # noqa: SIM115, open until exit

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        self._send(ready=True)
        while True:
            try:
                message = json.loads(self.pipe.recv_bytes())
            except EOFError:
                return True
            item = items.get(message["run"])
            if item is not None:
                self.config.hook.pytest_runtest_protocol(item=item, nextitem=items.get(message["next"]))
            self._send(done="unknown" if item is None else "faulted" if self.faults else "well")

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Also of pytest.exit(): the test ends the whole session."""
        end = excinfo.value
        self._send(end=str(end), status=getattr(end, "returncode", None), interrupted=isinstance(end, KeyboardInterrupt))

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        return (yield from _settled())

    pytest_runtest_call = pytest_runtest_teardown = pytest_runtest_setup

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        faults = _api.fault_count()
        if faults > self.faults:
            if not self.faults:
                atexit.register(_say_no_more)  # when pytest no longer captures
            self._blame(report, faults - self.faults)
            self.faults = faults
        return report

    def _blame(self, report: pytest.TestReport, count: int) -> None:
        text = _library.last_report_text() or ""
        known = _tell.after(None, None)
        for part in (text, _tell.text_of(*known) if known else ""):
            if part not in report.capstderr:
                report.sections.append((SECTION, part))
        if not report.longrepr or (report.skipped and not hasattr(report, "wasxfail")):
            what = "a GPU fault" if count == 1 else f"{count} GPU faults"
            headline = text.partition("\n")[0].partition("== ")[2] or "cufence"
            report.longrepr = f"{headline}: {what} during the {report.when} of this test"
        report.outcome = "failed"
        vars(report).pop("wasxfail", None)  # an expected failure is not a GPU fault

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._send(report=self.config.hook.pytest_report_to_serializable(config=self.config, report=report))

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, when: str, nodeid: str) -> None:
        if when == "runtest":  # else collected in the main process too
            of = warning_message
            self._send(warning=[of.category.__name__, str(of.message), of.filename, of.lineno, nodeid])
