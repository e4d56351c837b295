"""The device is held alone while kernels are timed, and free while they are compiled."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from patchgate.probe.timing.device import DeviceQueue


class Tuner:
    def __init__(self, path: Path) -> None:
        self.path = path

    def benchmark(self) -> bool:
        return is_locked(self.path)


def is_locked(path: Path) -> bool:
    with open(path, "rb") as other:
        try:
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "device.lock").touch()
    return tmp_path / "device.lock"


def test_nobody_else_has_the_device_meanwhile(path: Path) -> None:
    queue = DeviceQueue(str(path))
    with queue.alone():
        with queue.alone():  # what is timed may choose a launch config
            assert is_locked(path)
        assert is_locked(path)
    assert not is_locked(path)
    assert queue.held > 0


def test_the_device_is_free_again_after_an_exception(path: Path) -> None:
    queue = DeviceQueue(str(path))
    with pytest.raises(ValueError, match="no kernel"), queue.alone():
        raise ValueError("no kernel")
    assert not is_locked(path)


def test_a_launch_config_is_chosen_alone_and_compiling_is_not(path: Path) -> None:
    queue = DeviceQueue(str(path))
    with queue.alone_in(Tuner, "benchmark"):
        assert not is_locked(path)
        assert Tuner(path).benchmark()
    assert not Tuner(path).benchmark()


def test_without_a_lock_there_is_nobody_to_wait_for() -> None:
    queue = DeviceQueue("")
    benchmark = Tuner.benchmark
    with queue.alone(), queue.alone_in(Tuner, "benchmark"):
        assert (queue.held, Tuner.benchmark) == (0, benchmark)
