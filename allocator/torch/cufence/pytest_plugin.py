"""`pytest --cufence`: runs the tests guarded, in a separate process, and fails the test during which a fault happens.

pytest collects as usual, but sends each test to a worker: a second pytest with the same arguments, in the environment that
`cufence run` sets up. A fault destroys the CUDA context, so after a fault, as after a crash, the next test gets a new worker.
Without --cufence this module does nothing and imports nothing else of cufence.
"""

from __future__ import annotations

import os

import pytest

WORKER = "CUFENCE_PYTEST_WORKER"  # the descriptor of a worker's end of the pipe


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


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--cufence"):
        if config.getoption("--cufence-options"):
            raise pytest.UsageError("--cufence-options has no effect without --cufence")
        return
    mark = os.environ.pop(WORKER, None)
    if mark is not None:
        from ._pytest_worker import Worker

        config.pluginmanager.register(Worker(config, int(mark)), "cufence-worker")
    elif not config.getoption("collectonly", False):
        if config.getoption("usepdb", False) or config.getoption("trace", False):
            raise pytest.UsageError("--cufence runs the tests in another process, where --pdb and --trace have no terminal")
        if config.getoption("cov_source", None):
            raise pytest.UsageError("--cufence runs the tests in another process, which --cov does not see: measure without it")
        from ._pytest_main import Main, Summary

        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(Summary(config), "cufence-summary")
        if config.getoption("dist", "no") == "no":  # else pytest-xdist deals tests out to processes, each with a worker of its own
            config.pluginmanager.register(Main(config, WORKER), "cufence-main")
