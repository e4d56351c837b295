"""Folding observations into golden: what moves, and above all what does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgate.inputs.golden import GoldenFile, expectation, fold, format_golden
from patchgate.model.facts import FAILURE
from patchgate.model.records import Case, Cause, Failure, Observation, Unmeasured

RELEASES = ["2.10.0", "2.11.0", "2.12.1", "2.13.0"]
PATCHES = [None, "a", "b"]
facts = st.fixed_dictionaries(
    {"loads": st.lists(st.integers(1, 2), max_size=2).map(tuple), "loads.max": st.integers(1, 3)},
    optional={"fx.op.add": st.integers(1, 2), "aten.op.mm": st.integers(1, 2)},
)


def case(torch, patch=None):
    return Case(torch=torch, device="h200", workload="stack", patch=patch)


def seen(torch, patch=None, **told):
    return Observation(
        case=case(torch, patch), facts={name.replace("_", "."): v for name, v in told.items()}
    )


def failed(torch, patch=None, signature="TypeError: boom"):
    failure = Failure(cause=Cause.RAISED, stage="compile", signature=signature)
    return Observation(case=case(torch, patch), failure=failure)


@st.composite
def observations(draw, min_size=0):
    keys = draw(
        st.sets(st.tuples(st.sampled_from(RELEASES), st.sampled_from(PATCHES)), min_size=min_size)
    )
    # A patched case is never observed without its unpatched one: the runner always takes both.
    keys |= {(torch, None) for torch, _ in keys}
    ordered = sorted(keys, key=str)
    fails = st.builds(
        failed, st.just(""), signature=st.sampled_from(["TypeError: boom", 'E: "x"\n'])
    )
    found = []
    for torch, patch in ordered:
        made = draw(st.builds(lambda told: Observation(case=case(""), facts=told), facts) | fails)
        found.append(Observation(case=case(torch, patch), facts=made.facts, failure=made.failure))
    return found


def folded(*rounds):
    golden = GoldenFile("stack", "h200")
    for observed in rounds:
        golden = fold(golden, observed, RELEASES)
    return golden


def told(golden, torch, patch=None):
    expected = expectation(golden, case(torch, patch))
    return expected.known_failure or expected.facts


@given(observations())
def test_what_was_observed_is_what_is_expected_afterwards(observed):
    golden = folded(observed)
    for observation in observed:
        expected = expectation(golden, observation.case)
        failure = observation.failure
        assert expected.known_failure == (failure.signature if failure else None)
        if failure is None:
            assert {k: v for k, v in expected.facts.items() if v != 0} == observation.facts


@given(observations(), observations(min_size=1))
def test_releases_that_were_not_observed_keep_their_expectation(before, observed):
    old, new = folded(before), folded(before, observed)
    for torch in set(RELEASES) - {o.case.torch for o in observed}:
        for patch in PATCHES:
            assert told(new, torch, patch) == told(old, torch, patch)


@given(observations(), observations(min_size=1))
def test_patches_that_were_not_observed_keep_every_entry(before, observed):
    old, new = folded(before), folded(before, observed)
    for patch in {"a", "b"} - {o.case.patch for o in observed}:
        assert new.sections.get(patch) == old.sections.get(patch)


@given(observations(), observations())
def test_folding_twice_is_folding_once(before, observed):
    assert format_golden(folded(before, observed, observed)) == format_golden(
        folded(before, observed)
    )


@given(observations(), observations(), st.randoms(use_true_random=False))
def test_the_order_of_observations_does_not_matter(before, observed, random):
    shuffled = random.sample(observed, len(observed))
    assert format_golden(folded(before, shuffled)) == format_golden(folded(before, observed))


@given(observations(), observations())
def test_folding_leaves_the_golden_that_it_was_given_alone(before, observed):
    old = folded(before)
    text = format_golden(old)
    fold(old, observed, RELEASES)
    assert format_golden(old) == text


def ranges(golden, fact="loads.max", section="unpatched"):
    return {str(span): value for span, value in golden.sections[section].get(fact, {}).items()}


def test_equal_values_of_neighbouring_releases_merge():
    golden = folded([seen("2.11.0", loads_max=6)], [seen("2.13.0", loads_max=6)])
    assert ranges(golden) == {"2.11.0": 6, "2.13.0": 6}
    assert ranges(fold(golden, [seen("2.12.1", loads_max=6)], RELEASES)) == {"2.11.0..2.13.0": 6}


def test_another_value_in_the_middle_splits_a_range_and_going_back_merges_it():
    whole = folded([seen(torch, loads_max=6) for torch in RELEASES[1:]])
    split = fold(whole, [seen("2.12.1", loads_max=2)], RELEASES)
    assert ranges(split) == {"2.11.0": 6, "2.12.1": 2, "2.13.0": 6}
    assert format_golden(fold(split, [seen("2.12.1", loads_max=6)], RELEASES)) == format_golden(
        whole
    )


@pytest.mark.parametrize("torch", ["2.11.0", "2.11.5", "2.12.1"])
def test_a_fact_that_is_gone_leaves_only_that_release(torch):
    golden = fold(
        folded([seen(t, loads_max=6, bytes=1) for t in RELEASES]), [seen(torch, bytes=1)], RELEASES
    )
    assert "loads.max" not in told(golden, torch)
    assert all(told(golden, other)["loads.max"] == 6 for other in RELEASES if other != torch)


def test_a_patch_records_only_its_difference():
    golden = folded(
        [seen("2.11.0", loads_max=6, bytes=1), seen("2.11.0", "a", loads_max=4, bytes=1)]
    )
    assert golden.sections["a"].keys() == {"loads.max"}


def test_a_difference_that_is_gone_leaves_nothing_behind():
    unpatched = seen("2.11.0", loads_max=6)
    golden = folded(
        [unpatched, seen("2.11.0", "a", loads_max=4)], [unpatched, seen("2.11.0", "a", loads_max=6)]
    )
    assert "[a]" not in format_golden(golden)


def test_a_name_that_the_patch_takes_out_of_a_histogram_is_recorded_as_zero():
    golden = folded([seen("2.11.0", fx_op_add=2, bytes=1), seen("2.11.0", "a", bytes=1)])
    assert told(golden, "2.11.0", "a") == {"fx.op.add": 0, "bytes": 1}


@pytest.mark.parametrize("patch", PATCHES[:2])
def test_a_fact_that_was_not_measured_keeps_its_record(patch):
    before = [seen("2.11.0", loads_max=6), seen("2.11.0", "a", loads_max=4)]
    now = [o for o in before if o.case.patch != patch]
    now.append(seen("2.11.0", patch, loads_max=Unmeasured(reason="no counter")))
    assert format_golden(folded(before, now)) == format_golden(folded(before))


def test_an_unmeasured_baseline_does_not_turn_an_equal_fact_into_a_difference():
    before = [seen("2.11.0", loads_max=6), seen("2.11.0", "a", loads_max=6)]
    now = [
        seen("2.11.0", loads_max=Unmeasured(reason="no counter")),
        seen("2.11.0", "a", loads_max=6),
    ]
    assert format_golden(folded(before, now)) == format_golden(folded(before))


def test_a_failure_takes_the_place_of_the_facts_of_its_case():
    before = [seen("2.11.0", loads_max=6), seen("2.11.0", "a", loads_max=4)]
    golden = folded(before, [seen("2.11.0", loads_max=6), failed("2.11.0", "a", 'got "x"')])
    assert golden.sections["a"].keys() == {FAILURE}
    assert told(golden, "2.11.0", "a") == 'got "x"'


def test_a_case_that_runs_again_loses_its_known_failure():
    golden = folded([failed("2.11.0")], [seen("2.11.0", loads_max=6)])
    assert told(golden, "2.11.0") == {"loads.max": 6}


def test_what_is_taken_on_request_only_stays_until_it_is_taken_again():
    once = Observation(case=case("2.11.0"), facts={"loads.max": 2, "resources.registers": (64, 32)})
    golden = fold(GoldenFile("stack", "h200"), [once], RELEASES)
    plain = fold(golden, [Observation(case=case("2.11.0"), facts={"loads.max": 3})], RELEASES)
    assert expectation(plain, case("2.11.0")).facts == {
        "loads.max": 3,
        "resources.registers": (64, 32),
    }
    again = fold(
        plain, [Observation(case=case("2.11.0"), facts={"resources.warps": (4,)})], RELEASES
    )
    assert expectation(again, case("2.11.0")).facts == {"resources.warps": (4,)}
