"""Test which facts are compared between a device and its simulation, and how they are shown."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from benchmarks.fidelity import Difference, compare_sides, exit_code, fidelity, show_fidelity
from patchgate.model.errors import UsageError
from patchgate.model.records import Case, Cause, Failure, Observation, Unmeasured


def observed(device="cuda", **facts):
    case = Case(torch="2.11.0", device=device, workload="stack")
    return Observation(
        case=case, facts={name.replace("__", "."): value for name, value in facts.items()}
    )


def failed(device):
    failure = Failure(
        cause=Cause.RAISED, stage="compile", signature="RuntimeError: no", detail="", where=None
    )
    return replace(observed(device), failure=failure)


def text_of(*told):
    out = io.StringIO()
    show_fidelity(Console(file=out, width=140), told)
    return out.getvalue()


def test_equal_facts():
    told = compare_sides(
        observed(loads=(2, 1), kernels__called=3), observed("h200", loads=(2, 1), kernels__called=3)
    )
    assert (told.compared, told.unlike, told.failed) == (2, (), "")
    assert exit_code([told]) == 0
    assert "2 of 2 facts equal in 1 cases" in text_of(told)


def test_a_difference_is_reported_with_both_values():
    told = compare_sides(observed(loads=(2, 1)), observed("h200", loads=(2, 3)))
    assert told.unlike == (Difference(fact="loads", real="[2 1]", simulated="[2 3]"),)
    assert exit_code([told]) == 1
    assert "loads: [2 1], [2 3]" in text_of(told)


def test_a_fact_of_one_side_only_is_a_difference_unless_it_counts_something():
    told = compare_sides(
        observed(loads=(2,), aten__op__mul=1), observed("h200", aten__op__mul=1, fx__op__add=0)
    )
    assert [one.fact for one in told.unlike] == ["loads"]


def test_what_only_a_device_can_tell_is_left_out_with_the_reason():
    told = compare_sides(
        observed(loads=(2,)), observed("h200", loads=Unmeasured(reason="needs a real device"))
    )
    assert (told.compared, told.excluded) == (0, {"loads": "needs a real device"})
    assert exit_code([told]) == 3
    assert "not compared: loads of stack: needs a real device" in text_of(told)


def test_a_case_that_only_a_device_can_compile():
    told = compare_sides(
        observed(loads=(2,)),
        observed("h200", compiles=Unmeasured(reason="needs a real device: autotunes")),
    )
    assert (told.compared, told.excluded) == (0, {"every fact": "needs a real device: autotunes"})


def test_occupancy_has_nothing_to_be_compared_with():
    told = compare_sides(
        observed(loads=(2,)), observed("h200", loads=(2,), resources__occupancy=(50,))
    )
    assert (told.compared, told.unlike) == (1, ())
    assert list(told.excluded) == ["resources.occupancy"]


def test_a_case_that_failed_proves_nothing():
    told = compare_sides(failed("cuda"), observed("h200", loads=(2,)))
    assert told.failed == "real: RuntimeError: no [compile]"
    assert exit_code([told]) == 4
    assert "1 cases could not be compared" in text_of(told)


@pytest.mark.parametrize(
    ("arguments", "got"),
    [
        ([], "none"),
        (["--row", "2.11.0"], "2.11.0"),
        (["--profile", "cpu"], "cpu"),
        (["--workload", "stck"], "stck"),
    ],
)
def test_usage(arguments, got):
    with pytest.raises(UsageError) as told:
        fidelity.main(arguments, standalone_mode=False)
    assert told.value.got == got
