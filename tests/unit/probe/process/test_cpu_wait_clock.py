"""A child's own clock: what the machine kept it waiting is not its time, and nothing else is taken
off.
"""

import pytest

from patchgate.probe.process import cpu_wait_clock
from patchgate.probe.process.cpu_wait_clock import CpuWaitClock
from patchgate.probe.protocol import PATIENCE


@pytest.fixture
def machine(monkeypatch):
    """A process 1 with a child 2; `now`, and the seconds that each has waited."""
    state = {"now": 0.0, 1: 0.0, 2: 0.0}
    monkeypatch.setattr(cpu_wait_clock.time, "monotonic", lambda: state["now"])
    monkeypatch.setattr(cpu_wait_clock, "_family", lambda pid: [1, 2])
    monkeypatch.setattr(cpu_wait_clock, "_seconds_waited", lambda pid: state[pid])
    return state


def later(machine, seconds, *, first=0.0, second=0.0):
    machine["now"] += seconds
    machine[1] += first
    machine[2] += second


def test_a_child_that_sleeps_or_computes_has_the_time_of_the_wall(machine):
    clock = CpuWaitClock(1)
    later(machine, 10)
    assert clock.seconds() == 10


def test_what_the_machine_kept_it_waiting_is_taken_off(machine):
    clock = CpuWaitClock(1)
    later(machine, 5, first=3)
    clock.seconds()
    later(machine, 5, second=1)
    assert clock.seconds() == 6


def test_two_that_wait_at_the_same_time_wait_once_and_never_longer_than_the_wall(machine):
    clock = CpuWaitClock(1)
    later(machine, 10, first=4, second=4)
    assert clock.seconds() == 6
    later(machine, 1, first=9)
    assert clock.seconds() == 6


def test_patience_ends(machine):
    clock = CpuWaitClock(1)
    later(machine, 90, first=90)
    assert clock.seconds() == 90 / PATIENCE


def test_a_process_that_is_gone_has_waited_for_nothing():
    assert cpu_wait_clock._seconds_waited(2**30) == 0.0
    assert cpu_wait_clock._family(2**30) == [2**30]
