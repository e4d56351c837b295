"""The text of golden files: canonical, read back exactly, refused with file and line; values by
range and release.
"""

from itertools import pairwise

import pytest
from expecttest import assert_expected_inline
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from patchgate.inputs.golden import (
    GoldenFile,
    expectation,
    format_golden,
    golden_path,
    load_golden,
    read_golden,
    recorded_as,
    release_for,
    values_by_range,
    values_by_release,
)
from patchgate.model.errors import UsageError
from patchgate.model.facts import facts_with_compiles, format_value, parse_value, value_in
from patchgate.model.paths import GOLDEN
from patchgate.model.records import Case, Cause, Failure, Observation
from patchgate.model.versions import parse_range

RELEASES = ["2.10.0", "2.11.0", "2.12.1", "2.13.0"]
fact_values = st.integers() | st.text() | st.lists(st.integers()).map(tuple)
names = st.sampled_from(
    ["loads", "loads.max", "kernels.defined", "aten.op.mm.default", "fx.ops", "failure"]
)
ranges = st.dictionaries(st.sampled_from(RELEASES), fact_values, min_size=1).map(
    lambda told: values_by_range(told, RELEASES)
)
small_values = st.dictionaries(st.sampled_from(RELEASES), st.integers(0, 2))
sections = st.dictionaries(names, ranges, min_size=1)
goldens = st.dictionaries(st.sampled_from(["unpatched", "vllm-42686", "a"]), sections).map(
    lambda told: GoldenFile("stack", "h200", told)
)


def read(folder, text):
    path = folder / "stack.h200.txt"
    path.write_text(text, encoding="utf-8")
    return read_golden(path, "stack", "h200")


def small():
    span = parse_range
    unpatched = {
        "loads.max": {span("2.13.0"): 2, span("2.11.0..2.12.1"): 6},
        "loads": {span("2.11.0"): (2, 1, 6)},
        "kernels.defined": {span("2.11.0"): 13},
        "failure": {span("2.10.0"): 'TypeError: got "x"'},
    }
    return GoldenFile(
        "stack",
        "h200",
        {"mine": {"loads.max": {span("2.11.0"): 4}}, "unpatched": unpatched, "a": {}},
    )


@given(fact_values)
def test_a_value_is_read_as_it_was_written(value):
    assert parse_value(format_value(value)) == value


@given(goldens)
def test_a_file_is_read_as_it_was_written(tmp_path, golden):
    assert read(tmp_path, format_golden(golden)).sections == golden.sections


@given(goldens)
def test_reading_and_writing_again_changes_no_byte(tmp_path, golden):
    text = format_golden(golden)
    assert format_golden(read(tmp_path, text)) == text


@given(goldens, st.randoms(use_true_random=False))
def test_the_order_of_insertion_leaves_no_trace(golden, random):
    def shuffled(table):
        return dict(random.sample(list(table.items()), len(table)))

    other = {
        name: shuffled({fact: shuffled(r) for fact, r in s.items()})
        for name, s in golden.sections.items()
    }
    assert format_golden(GoldenFile("stack", "h200", shuffled(other))) == format_golden(golden)


def test_the_canonical_text_has_unpatched_first_and_a_blank_line_between_stages():
    assert_expected_inline(
        format_golden(small()),
        """\
# stack on h200
schema 1

[unpatched]
failure  2.10.0  "TypeError: got \\"x\\""

kernels.defined  2.11.0  13

loads  2.11.0  [2 1 6]
loads.max  2.11.0..2.12.1  6
loads.max  2.13.0  2

[mine]
loads.max  2.11.0  4
""",
    )


def test_a_missing_file_is_an_empty_one(tmp_path):
    assert read_golden(tmp_path / "none.txt", "stack", "h200") == GoldenFile("stack", "h200")


def test_the_path_names_workload_and_device(tmp_path):
    assert golden_path("stack", "h200", tmp_path) == tmp_path / "stack.h200.txt"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("loads.max 2.11.0", "not enough values"),
        ("loads.max two 6", "Invalid version"),
        ("loads.max 2.13.0..2.11.0 6", "empty range"),
        ("loads.max 2.11.0 six", "invalid literal"),
        ("loads.max 2.11.0 [1 two]", "invalid literal"),
        ('loads.max 2.11.0 "six', "Unterminated string"),
        ('loads.max 2.11.0 "six" 7', "Extra data"),
    ],
)
def test_a_line_that_is_none_is_refused_with_its_number(folder, line, reason):
    with pytest.raises(UsageError, match=reason) as refused:
        read(folder, f"schema 1\n\n[unpatched]\n{line}\n")
    assert refused.value.where == "stack.h200.txt:4"


def test_the_refusal_shows_the_form_of_a_line_and_the_way_back(folder):
    with pytest.raises(UsageError) as refused:
        read(folder, "schema 1\nloads.max  2.11.0  6\n")
    assert_expected_inline(
        str(refused.value),
        """\
stack.h200.txt:2: not a golden line
  got:  'loads.max  2.11.0  6' (a fact before the first [section])
  next: fact  2.11.0..2.13.0  value   (or restore the file: git checkout -- stack.h200.txt)""",
    )


def test_another_schema_is_refused(folder):
    with pytest.raises(UsageError) as refused:
        read(folder, "schema 2\n")
    assert_expected_inline(
        str(refused.value),
        """\
stack.h200.txt:1: not a golden line
  got:  'schema 2' (this patchgate reads schema 1)
  next: fact  2.11.0..2.13.0  value   (or restore the file: git checkout -- stack.h200.txt)""",
    )


@pytest.mark.parametrize(
    ("torch", "patch", "facts"),
    [
        ("2.11.0", None, {"loads.max": 6, "loads": (2, 1, 6), "kernels.defined": 13}),
        ("2.11.0", "mine", {"loads.max": 4, "loads": (2, 1, 6), "kernels.defined": 13}),
        ("2.12.1", "mine", {"loads.max": 6}),
        ("2.15.0", "mine", {}),
    ],
)
def test_a_patched_case_expects_the_unpatched_facts_but_for_its_own(torch, patch, facts):
    told = expectation(small(), Case(torch=torch, device="h200", workload="stack", patch=patch))
    assert (told.facts, told.known_failure, told.recorded) == (facts, None, bool(facts))


@pytest.mark.parametrize(
    ("torch", "release"),
    [
        ("2.11.0", "2.11.0"),
        ("2.10.5", "2.10.5"),
        ("2.12.0.dev20260101+cu130", "2.12.0.dev20260101+cu130"),
        ("2.16.0.dev20261120+cu130", "2.13.0"),
        ("2.14.0rc1", "2.13.0"),
        ("2.14.0a0+git1234567", "2.13.0"),
        ("2.16.0", "2.16.0"),
    ],
)
def test_what_is_on_its_way_to_a_newer_release_is_held_to_the_newest_record(torch, release):
    """A release that nobody has recorded is not: its facts are read and accepted."""
    assert release_for(small(), torch) == release
    assert release_for(GoldenFile("stack", "h200"), torch) == torch


@pytest.mark.parametrize("patch", [None, "mine"])
def test_a_known_failure_of_torch_is_one_of_the_patched_case_too(patch):
    told = expectation(small(), Case(torch="2.10.0", device="h200", workload="stack", patch=patch))
    assert (told.facts, told.known_failure) == ({}, 'TypeError: got "x"')


def test_a_patch_that_cures_a_failure_of_torch_is_not_expected_to_fail():
    golden = small()
    golden.sections["mine"]["loads"] = {parse_range("2.10.0"): (1,)}
    told = expectation(golden, Case(torch="2.10.0", device="h200", workload="stack", patch="mine"))
    assert (told.facts, told.known_failure) == ({"loads": (1,)}, None)


@pytest.mark.parametrize(
    ("facts", "fact", "value"),
    [
        ({"loads": (1,)}, "fx.op.add", 0),
        ({"loads": (1,)}, "loads.max", None),
        ({"fx.op.add": 2}, "fx.op.add", 2),
        ({}, "fx.op.add", None),
    ],
)
def test_a_histogram_counts_zero_for_a_name_it_does_not_list(facts, fact, value):
    assert value_in(facts, fact) == value


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        (None, {"compiles": 1}),
        (Cause.RAISED, {"compiles": 0}),
        (Cause.HUNG, {}),
        (Cause.MACHINE, {}),
    ],
)
def test_whether_it_compiles_is_a_fact_that_nobody_has_to_take(cause, told):
    case = Case(torch="2.11.0", device="cpu", workload="stack")
    failure = Failure(cause=cause, stage="compile", signature="boom") if cause else None
    assert facts_with_compiles(Observation(case=case, failure=failure)) == told


@given(small_values)
def test_gathering_loses_and_adds_nothing(told):
    assert values_by_release(values_by_range(told, RELEASES), RELEASES) == told


@given(small_values)
def test_neighbouring_ranges_never_hold_the_same_value(told):
    ranges = sorted(
        values_by_range(told, RELEASES).items(), key=lambda item: Version(item[0].first)
    )
    for (left, before), (right, after) in pairwise(ranges):
        between = [
            torch
            for torch in RELEASES
            if Version(left.last) < Version(torch) < Version(right.first)
        ]
        assert between or before != after


@pytest.mark.parametrize(
    ("told", "ranges"),
    [
        ({"2.11.0": 1, "2.12.1": 1, "2.13.0": 1}, {"2.11.0..2.13.0": 1}),
        ({"2.11.0": 1, "2.12.1": 2, "2.13.0": 1}, {"2.11.0": 1, "2.12.1": 2, "2.13.0": 1}),
        ({"2.11.0": 1, "2.13.0": 1}, {"2.11.0": 1, "2.13.0": 1}),
        ({"2.11.0": 1, "2.11.5": 1, "2.12.1": 1}, {"2.11.0..2.12.1": 1}),
        ({}, {}),
    ],
)
def test_equal_values_join_over_neighbouring_releases_only(told, ranges):
    assert {str(span): value for span, value in values_by_range(told, RELEASES).items()} == ranges


@pytest.mark.parametrize(
    ("patch", "loads", "told"),
    [("copy", 4, "mine"), ("copy", 5, None), ("mine", 4, None)],
)
def test_a_copy_of_an_accepted_patch_is_known_by_its_facts(tmp_path, patch, loads, told):
    (tmp_path / "accepted.txt").write_text(
        "schema 1\n[mine]\naccepted 2.11.0 1\n[other]\naccepted 2.11.0 1\n"
    )
    (tmp_path / "stack.h200.txt").write_text(
        "schema 1\n[unpatched]\nloads 2.11.0 6\n[mine]\nloads 2.11.0 4\n"
    )
    case = Case(torch="2.11.0", device="h200", workload="stack", patch=patch)
    assert recorded_as([Observation(case=case, facts={"loads": loads})], patch, tmp_path) == told


def test_a_project_that_says_what_torch_does_is_known(tmp_path):
    assert not load_golden("residual_stack", "h200", GOLDEN).states_torch
    assert not load_golden("residual_stack", "h200", tmp_path).states_torch
    own = golden_path("residual_stack", "h200", tmp_path)
    own.write_text("schema 1\n\n[mine]\nloads.max  2.11.0  4\n")
    assert not load_golden("residual_stack", "h200", tmp_path).states_torch
    own.write_text("schema 1\n\n[unpatched]\nloads.max  2.11.0  4\n")
    assert load_golden("residual_stack", "h200", tmp_path).states_torch
