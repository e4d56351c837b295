"""Whether what a patch has put in place is reached: PG801 to PG809."""

from patchgate.checks.coverage import Functions
from patchgate.checks.judge.reach import judge_called, judge_holders, judge_hooks

from patchgate.model.records import Case, Cause, Claims, Colour, Failure, Observation, Patch

TORCH = "2.11.0"
SOURCE = "import a\n\n\ndef f(x):\n    return x\n\n\na.b.f = f\n"
PATCH = Patch(id="mine", path="/p/patch.py", source=SOURCE, claims=Claims(title="Mine"))
CASE = Case(torch=TORCH, device="cpu", workload="w", patch="mine")
APPLIED = {"replacements": {"torch.b.f": [5]}}
FAILED = Observation(case=CASE, failure=Failure(cause=Cause.RAISED, stage="compile", signature="boom"))


def ran(*lines):
    return Observation(case=CASE, ran=lines)


def codes(verdicts):
    return [verdict.code for verdict in verdicts]


def holders(**answer):
    return list(judge_holders(TORCH, PATCH, {"changed": ["torch.b.f"], "holders": {}, "unreachable": []} | answer))


def test_a_replacement_that_everybody_gets_is_green():
    (verdict,) = holders()
    assert (verdict.code, verdict.colour) == ("PG806", Colour.GREEN)


def test_who_still_holds_the_original_is_named_at_the_line_that_replaced_it():
    (verdict,) = holders(holders={"torch.b.f": [f"torch.c{n}.f" for n in range(8)]})
    assert (verdict.code, verdict.where) == ("PG801", "/p/patch.py:8")
    assert verdict.actual.endswith("torch.c5.f and 2 more")


def test_a_target_that_cannot_be_called_is_named():
    assert codes(holders(unreachable=["torch.b.f"])) == ["PG802"]


def called(*observed, applied=APPLIED, functions=None):
    return list(judge_called(TORCH, PATCH, applied, functions or Functions(), observed))


def test_a_replacement_that_ran_in_one_workload_is_called():
    assert codes(called(ran(), ran(5))) == ["PG806"]


def test_a_replacement_that_never_ran_is_red():
    (verdict,) = called(ran(), ran(1))
    assert (verdict.code, verdict.colour, verdict.actual) == ("PG803", Colour.RED, "no line of it ran in 2 workloads")


def test_nothing_is_said_of_calls_where_nothing_compiled():
    (verdict,) = called(FAILED)
    assert (verdict.code, verdict.colour) == ("PG809", Colour.GREY)


def test_a_patch_without_functions_of_its_own_has_none_to_call():
    assert codes(called(ran(), applied={"replacements": {}})) == ["PG806"]


def test_lines_that_never_ran_are_listed_for_functions_that_did():
    told = called(ran(5, 11), functions=Functions(lines={"f:4": [5], "g:10": [11, 12, 14], "never:20": [21]}))
    assert codes(told) == ["PG806", "PG805"]
    assert told[1].actual == "lines 12, 14 never ran in 1 workloads: add a workload"


def test_branches_that_came_out_one_way_only_are_listed():
    functions = Functions(
        lines={"f:4": [5, 6, 7], "never:20": [21]},
        outcomes={"f:4": [(5, "true"), (5, "false"), (6, "entered"), (6, "left")], "never:20": [(21, "true")]},
    )
    half = Observation(case=CASE, ran=(5, 6, 7), took=((5, "true"), (6, "entered")))
    other = Observation(case=CASE, ran=(5,), took=((6, "left"),))
    told = called(half, other, functions=functions)
    assert codes(told) == ["PG806", "PG807"]
    assert (told[1].where, told[1].actual) == ("/p/patch.py:5", "line 5 was never false: add a workload")
    whole = Observation(case=CASE, ran=(5, 6, 7), took=tuple(functions.outcomes["f:4"]))
    assert codes(called(whole, functions=functions)) == ["PG806"]


def test_a_condition_that_never_ran_is_told_as_a_line_only():
    functions = Functions(lines={"f:4": [5, 6]}, outcomes={"f:4": [(6, "true"), (6, "false")]})
    assert codes(called(ran(5), functions=functions)) == ["PG806", "PG805"]


def test_a_hook_that_is_no_longer_called_is_red():
    (verdict,) = judge_hooks(TORCH, PATCH, {"called": {"a": 2, "b": 1}}, {"called": {"b": 1}})
    assert (verdict.code, verdict.subject) == ("PG804", "hook a")
    assert codes(judge_hooks(TORCH, PATCH, {"called": {"a": 2}}, {"called": {"a": 1}})) == ["PG806"]


def test_hooks_are_not_judged_where_a_side_failed():
    failure = {"failure": {"cause": "raised", "stage": "compile", "signature": "boom"}}
    assert codes(judge_hooks(TORCH, PATCH, {"called": {}}, failure)) == ["PG809"]
