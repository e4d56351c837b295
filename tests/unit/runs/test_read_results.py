"""Put together the files that a run left in its folder: golden and both sides, code, and times."""

import json

import pytest

from patchgate.inputs.golden import GoldenFile, format_golden, golden_path
from patchgate.inputs.manifest import Claims, Patch
from patchgate.inputs.project import Project
from patchgate.model.errors import UsageError
from patchgate.model.records import Case, Observation
from patchgate.model.serialization import to_dict
from patchgate.model.versions import parse_range
from patchgate.runner.run_settings import Run
from patchgate.runs.read_results import results_of

PATCH = Patch(id="mine", path="p.py", source="", claims=Claims(title="t"))


@pytest.fixture
def run(folder):
    """A run with one case, its code, and golden that says 6, and 4 with the patch."""
    span = parse_range("2.11.0")
    golden = GoldenFile(
        "stack", "h200", {"unpatched": {"loads.max": {span: 6}}, "mine": {"loads.max": {span: 4}}}
    )
    (folder / "golden").mkdir()
    golden_path("stack", "h200", folder / "golden").write_text(format_golden(golden))
    project = Project(root=str(folder), golden="golden")
    made = Run(folder=str(folder / "out"), patch="p.py", rows={"2.11.0": "python"}, project=project)
    (folder / "out" / "code").mkdir(parents=True)
    for patch, value in ((None, 6), ("mine", 5), ("other", 1)):
        case = Case(torch="2.11.0", device="h200", workload="stack", patch=patch)
        # The paths of another machine: the folder was carried here.
        artifacts = {"code": f"elsewhere/code/{case.id}.py"}
        made.store.save(Observation(case=case, facts={"loads.max": value}, artifacts=artifacts))
        (folder / "out" / "code" / f"{case.id}.py").write_text(f"x = {value}")
    return made


def rounds(ratio):
    pair = {"unpatched": [100.0] * 10, "patched": [100.0 * ratio] * 10}
    return {
        "rounds": [pair] * 4,
        "peak_memory": {},
        "first_call": {"unpatched": 1.0, "patched": 1.0},
        "more": 1,
    }


def test_a_case_is_golden_and_both_sides_of_this_patch(run):
    (found,) = results_of(run, PATCH, []).compared
    assert (found.case.name, found.on) == ("stack.h200", "simulated (h200)")
    assert (found.golden.facts, found.golden_unpatched.facts) == (
        {"loads.max": 4},
        {"loads.max": 6},
    )
    assert (found.unpatched.facts, found.patched.facts) == ({"loads.max": 6}, {"loads.max": 5})
    assert found.code == ("x = 6", "x = 5")


def test_code_that_is_gone_is_left_out(run, folder):
    (folder / "out" / "code" / "stack.h200.2.11.0.mine.py").unlink()
    assert results_of(run, PATCH, []).compared[0].code is None


def test_all_looks_at_one_size_are_one_ratio(run, folder):
    times = folder / "out" / "times"
    times.mkdir()
    case = Case(torch="2.11.0", device="cuda", workload="stack", patch="mine")
    for number, (size, ratio) in enumerate((("64", 1.01), ("64", 1.01), ("full", 0.98))):
        look = rounds(ratio) | {"case": to_dict(case), "size": size}
        (times / f"{number}.json").write_text(json.dumps(look))
    found = results_of(run, PATCH, []).times
    assert [(t.name, t.torch, t.size, round(t.interval.ratio, 4)) for t in found] == [
        ("stack.cuda", "2.11.0", "64", 1.01),
        ("stack.cuda", "2.11.0", "full", 0.98),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"case": {"torch": "2.11.0"}, "size": "64", "rounds": 1, "peak_memory": {}}',
    ],
)
def test_times_that_are_none_are_refused_with_their_file(run, folder, text):
    path = folder / "out" / "times" / "stack.cuda.64.2.11.0.1.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(UsageError, match=r"stack\.cuda\.64\.2\.11\.0\.1\.json"):
        results_of(run, PATCH, [])


def test_a_run_that_left_nothing_has_no_evidence(folder):
    empty = results_of(
        Run(folder=str(folder), patch="p.py", rows={}, problems={"2.13.0": "no wheel"}), PATCH, []
    )
    assert (empty.torches, empty.compared, empty.times) == (("2.13.0",), (), ())
