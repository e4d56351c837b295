"""Instructions: counted where there is a counter; where there is none, why, and never 0."""

import pytest

from patchgate.probe.timing import compile_cpu_time
from patchgate.probe.timing.compile_cpu_time import InstructionCounter


@pytest.fixture
def clock(monkeypatch):
    """The kernel's own clock of this thread in place of the processor's counter: virtual machines have it too."""
    monkeypatch.setattr(compile_cpu_time, "_HARDWARE", 1)
    monkeypatch.setattr(compile_cpu_time, "_INSTRUCTIONS", 1)
    made = InstructionCounter()
    if made.missing:
        pytest.skip(made.missing)
    return made


def test_it_grows_with_work(clock):
    before = clock.count()
    assert sum(range(10_000))
    assert clock.count() > before > 0


def test_where_there_is_no_counter_it_says_why(monkeypatch):
    monkeypatch.setattr(compile_cpu_time, "_HARDWARE", 1 << 30)
    found = InstructionCounter()
    assert found.missing.startswith("perf_event_open: ")
    assert found.count() is None


def test_an_unknown_machine_has_none(monkeypatch):
    monkeypatch.setattr(compile_cpu_time.platform, "machine", lambda: "abacus")
    assert InstructionCounter().missing == "no counter is known on abacus"
