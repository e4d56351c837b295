"""Fixtures for all our tests: hypothesis without chance, and a working folder for each test."""

import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir
from toytorch import TORCHES

from patchgate.cli.lint import lint
from patchgate.lint.index import release as index
from patchgate.runner.torch_environments import NotInstallable

# Tables that hypothesis keeps between runs do not belong into a checkout.
set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "patchgate-hypothesis")
settings.register_profile(
    "patchgate",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("patchgate")


@pytest.fixture(autouse=True)
def _no_environment_is_made(monkeypatch):
    """No test of a command installs torch: an environment that nobody has stood in for cannot be
    made.
    """

    def refuse(torch, requires, package):
        raise NotInstallable("no environment is made in a test")

    monkeypatch.setattr("patchgate.runs.plan.cached_environment", refuse)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder that is the working directory: paths in messages are relative to it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(tmp_path, monkeypatch):
    """`patchgate lint` (or `usage`) in an empty folder, against the three small releases of
    toytorch.
    """
    monkeypatch.chdir(tmp_path)
    by_version = {each.version: each for each in TORCHES}
    for module in (index, sys.modules["patchgate.cli.lint"]):
        monkeypatch.setattr(module, "releases", lambda: tuple(by_version))
        monkeypatch.setattr(module, "load", lambda version, sources=None: by_version[version])
    return lambda *arguments, command=lint: CliRunner().invoke(command, list(arguments))
