"""Tests that need a real torch: before a merge each on one of the rows that `nox -s tests` names, at night on all."""

import os
from zlib import crc32

import pytest

from patchgate.runner.client import Runner
from patchgate.runner.run_settings import Run
from patchgate.runner.start_server import start_server

_PREFIX = "PATCHGATE_ROW_"
ROWS = {
    name.removeprefix(_PREFIX).replace("_", "."): python
    for name, python in sorted(os.environ.items())
    if name.startswith(_PREFIX) and python
}


def pytest_generate_tests(metafunc):
    if "torch" in metafunc.fixturenames:
        none = pytest.mark.skip(reason="no torch row: run `nox -s tests`")
        metafunc.parametrize("torch", ROWS or [pytest.param("none", marks=none)])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Give each test its row; which one depends on its name alone, so that every run has the same."""
    for item in items:
        row = getattr(item, "callspec", None) and item.callspec.params.get("torch")
        if row in ROWS and not item.get_closest_marker("every_row"):
            turn = crc32(item.nodeid.replace(row, "").encode()) % len(ROWS)
            if row != list(ROWS)[turn]:
                item.add_marker(pytest.mark.nightly)


@pytest.fixture(scope="session")
def servers():
    """Started when first asked for, stopped at the end."""
    running = {}
    yield running
    for server in running.values():
        server.stop()


@pytest.fixture(scope="session")
def kept(tmp_path_factory, worker_id):
    """A folder that all workers of this session share, as runs share theirs."""
    folder = tmp_path_factory.getbasetemp()
    return (folder if worker_id == "master" else folder.parent) / "kept"


@pytest.fixture
def run(torch, tmp_path, kept):
    """Compiled C++ is found again, as it is by the next run."""
    return Run(folder=str(tmp_path / "gate"), patch="", rows={torch: ROWS[torch]}, binaries=str(kept / "cpp"))


@pytest.fixture
def runner(torch, servers, run):
    if torch not in servers:
        servers[torch] = start_server(torch, ROWS[torch])
    server = servers[torch]
    return Runner(run=run, connect=server.connect, logs={torch: server.log})
