"""What every test of our own shares: hypothesis without chance, and a working folder of its own."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir

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


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder that is the working directory: paths in messages are relative to it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
