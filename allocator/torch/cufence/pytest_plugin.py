"""`pytest --cufence`: runs pytest guarded, and fails the test during which a fault happens.

pytest executes itself again, once, under `cufence run`. A fault destroys the CUDA context, so the session ends with that test.
Without --cufence this module does nothing and imports nothing else of cufence.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator
from typing import Any

import pytest

SECTION = "cufence"
WAIT_SECONDS = 30.0


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cufence", "cufence: out-of-bounds accesses of GPU memory")
    group.addoption(
        "--cufence",
        action="store_true",
        help="run the tests guarded by cufence, and fail the one during which a kernel reads or writes out of bounds",
    )
    group.addoption(
        "--cufence-options",
        metavar="KEY=VALUE,...",
        default="",
        help="options of cufence, as `cufence options` prints them; they win over CUFENCE_OPTIONS",
    )
    group.addoption(
        "--require-guarded",
        action="store_true",
        default=True,
        help="with --cufence: exit with 87 if no GPU memory was guarded and no test failed; the default",
    )
    group.addoption("--no-require-guarded", action="store_false", dest="require_guarded", help="do not")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before anything of the tests is imported."""
    from . import _command, _preload

    known = early_config.known_args_namespace
    if not known.cufence or _preload.path():
        return
    capture = early_config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)  # else what follows would write into files of pytest
    words = ["run", *(["--set", known.cufence_options] if known.cufence_options else [])]
    words += ["--require-guarded"] if known.require_guarded and not known.collectonly else []
    raise pytest.UsageError(f"cufence: {_command.become([*words, '--', sys.executable, *sys.orig_argv[1:]], dict(os.environ))}")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--cufence"):
        config.pluginmanager.register(Guard(), "cufence-guard")


def _synchronize() -> None:
    """Waits for the test's GPU work, so that its faults are detected before the next test."""
    from . import _library

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
    from . import _api, _library, _tell

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


class Guard:
    faults = 0

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        return (yield from _settled())

    pytest_runtest_call = pytest_runtest_teardown = pytest_runtest_setup

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        from . import _api

        report = yield
        faults = _api.fault_count()
        if faults > self.faults:
            self._blame(report, faults - self.faults)
            self.faults = faults
            item.session.shouldfail = "a kernel has faulted, and CUDA cannot be used in this process any more"
        return report

    def _blame(self, report: pytest.TestReport, count: int) -> None:
        from . import _library, _tell

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
