"""A device is warm when two blocks took the same time; what never settles ends too, and is told."""

import itertools

import pytest

from patchgate.probe.timing import device


@pytest.fixture
def clock(monkeypatch):
    """Each look at the clock takes a quarter of a second."""
    ticks = itertools.count(0, 0.25)
    monkeypatch.setattr(device.time, "perf_counter", lambda: next(ticks))


@pytest.mark.parametrize(
    ("medians", "told"),
    [
        ([10.0, 10.0], "warm after 2 blocks"),
        ([10.0, 10.01], "warm after 2 blocks"),
        ([12.0, 10.0, 10.0], "warm after 3 blocks"),
        ([9.0, 10.0, 9.0, 10.0, 9.0, 10.0, 10.0], "not steady after 6 blocks: +11.11% in the last"),
    ],
)
def test_blocks_are_taken_until_two_are_the_same_or_time_is_up(clock, medians, told):
    assert device.warm_up(iter(medians)) == told


def test_the_load_is_reported_of_a_cpu_and_a_gpu_without_a_driver_is_unknown(monkeypatch):
    assert "load average" in device.device_state("cpu")
    monkeypatch.setenv("PATH", "")
    assert device.device_state("cuda") == "unknown"
