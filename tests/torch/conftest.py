"""Tests that need a real torch: before a merge each on one of the rows that `nox -s tests` names,
at night on all.
"""

import contextlib
import json
import os
import subprocess
from pathlib import Path
from zlib import crc32

import pytest
from shared_channels import connect_through, shared_channels

from patchgate.model.paths import PACKAGE
from patchgate.runner.client import Runner
from patchgate.runner.run_settings import Run
from patchgate.runner.start_server import running_servers

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
    """Give each test its row; which one depends on its name alone, so that every run has the
    same.
    """
    for item in items:
        row = getattr(item, "callspec", None) and item.callspec.params.get("torch")
        if row in ROWS and not item.get_closest_marker("every_row"):
            turn = crc32(item.nodeid.replace(row, "").encode()) % len(ROWS)
            if row != list(ROWS)[turn]:
                item.add_marker(pytest.mark.nightly)


_STARTED, _ADDRESS = pytest.StashKey(), pytest.StashKey()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """All workers share one server a row: it imports torch once."""
    node.workerinput["servers"] = shared_servers(node.config)


def shared_servers(config):
    """Return the address at which a worker asks for channels to this session's servers; they are
    started when first asked for.
    """
    if _ADDRESS not in config.stash:
        config.stash[_STARTED] = stack = contextlib.ExitStack()
        servers = stack.enter_context(running_servers(ROWS))
        config.stash[_ADDRESS] = stack.enter_context(shared_channels(servers)), dict(servers.logs)
    return config.stash[_ADDRESS]


def pytest_unconfigure(config):
    if _STARTED in config.stash:
        config.stash[_STARTED].close()


@pytest.fixture(scope="session")
def servers(request):
    """How to reach them, and where their logs are."""
    # None where the folder above was named: then the process that starts the workers has not read
    # this file.
    given = getattr(request.config, "workerinput", {}).get("servers")
    address, logs = given or shared_servers(request.config)
    return connect_through(address), logs


@pytest.fixture(scope="session")
def kept(tmp_path_factory, worker_id):
    """A folder that all workers of this session share, as runs share theirs."""
    folder = tmp_path_factory.getbasetemp()
    return (folder if worker_id == "master" else folder.parent) / "kept"


@pytest.fixture
def run(torch, tmp_path, kept):
    """Compiled C++ is found again, as it is by the next run."""
    return Run(
        folder=str(tmp_path / "gate"),
        patch="",
        rows={torch: ROWS[torch]},
        binaries=str(kept / "cpp"),
    )


@pytest.fixture
def runner(servers, run):
    connect, logs = servers
    return Runner(run=run, connect=connect, logs=logs)


def running(mark):
    """The processes that have `mark` in their command line."""
    listed = subprocess.run(
        ["ps", "-eo", "stat,args"], capture_output=True, text=True, check=True
    ).stdout
    return [line for line in listed.splitlines() if mark in line and not line.startswith("Z")]


def printed_by(python, script, given=""):
    """The JSON that a script of this folder prints last; `given` is its standard input."""
    environment = {
        "PYTHONPATH": str(PACKAGE.parent),
        "CUDA_VISIBLE_DEVICES": "",
        "PATH": "/usr/bin:/bin",
    }
    command = [python, str(Path(__file__).with_name(script))]
    ran = subprocess.run(command, env=environment, input=given, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])
