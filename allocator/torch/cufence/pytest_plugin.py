"""`pytest --cufence`: runs the tests guarded, in a separate process, and fails the test during which a fault happens.

pytest collects as usual, but sends each test to a worker: a second pytest with the same arguments, in the environment that
`cufence run` sets up. A fault destroys the CUDA context, so after a fault, as after a crash, the next test gets a new worker.
Without --cufence this module does nothing and imports nothing else of cufence.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ._pytest_main import Main

WORKER = "CUFENCE_PYTEST_WORKER"  # "<pid of the main process> <descriptor to read> <descriptor to write>"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cufence", "cufence: out-of-bounds accesses of GPU memory")
    group.addoption(
        "--cufence",
        action="store_true",
        help="run the tests guarded by cufence, and fail those during which a kernel reads or writes out of bounds",
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


def _check_other_options(config: pytest.Config) -> None:
    if config.getoption("usepdb", False) or config.getoption("trace", False):
        raise pytest.UsageError("--cufence runs the tests in another process, where --pdb and --trace have no terminal")
    if config.getoption("cov_source", None):
        raise pytest.UsageError("--cufence runs the tests in another process, which --cov does not see: measure without it")


class _Distributed:
    """In the process that deals tests out to pytest-xdist's workers: tells them how to start their guarded process."""

    def __init__(self, config: pytest.Config) -> None:
        parameters = config.invocation_params
        self.counts: Counter[str] = Counter()
        self.start = {"arguments": [str(argument) for argument in parameters.args], "folder": str(parameters.dir)}

    def pytest_report_header(self) -> str:
        return "cufence: a process of its own for each of pytest-xdist's workers; the end says what was guarded"

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["cufence"] = self.start

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.counts.update(getattr(node, "workeroutput", {}).get("cufence", {}))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        from ._pytest_main import judge

        judge(session, self.counts)

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        from ._pytest_main import say

        say(terminalreporter, config, self.counts)


def _is_distributed(config: pytest.Config) -> bool:
    return bool(config.getoption("dist", "no") != "no" and (config.getoption("numprocesses", None) or config.getoption("tx", None)))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--cufence"):
        return
    mark = os.environ.pop(WORKER, "").split()
    if mark and int(mark[0]) == os.getppid():
        from ._pytest_worker import Worker

        config.pluginmanager.register(Worker(config, int(mark[1]), int(mark[2])), "cufence-worker")
    elif not config.getoption("collectonly", False):
        _check_other_options(config)
        if _is_distributed(config):
            config.pluginmanager.register(_Distributed(config), "cufence-distributed")
            return
        from ._pytest_main import Main

        main: Main = Main(config, WORKER)
        config.pluginmanager.register(main, "cufence-main")
