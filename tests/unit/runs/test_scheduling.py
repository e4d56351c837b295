"""Machines get every job once, a row each, and loads that are as even as the jobs allow."""

from hypothesis import given
from hypothesis import strategies as st

from patchgate.runs.scheduling import shares

TORCHES = ["2.10.0", "2.11.0", "2.12.1"]
PATCHES = list("abcdefg")
COSTS = {("a", "2.11.0"): 90.0, ("b", "2.11.0"): 50.0, ("c", "2.11.0"): 40.0, ("d", "2.11.0"): 10.0}


@given(
    st.lists(st.sampled_from(TORCHES), unique=True, min_size=1),
    st.lists(st.sampled_from(PATCHES), unique=True),
    st.integers(0, 30),
    st.dictionaries(st.tuples(st.sampled_from(PATCHES), st.sampled_from(TORCHES)), st.floats(0.1, 1000)),
)
def test_every_job_is_given_once_and_no_machine_is_idle(torches, patches, machines, costs):
    given = shares(torches, patches, machines, costs)
    jobs = [(patch, share.torch) for share in given for patch in share.patches]
    assert sorted(jobs) == sorted((patch, torch) for patch in patches for torch in torches)
    assert all(share.patches for share in given)
    assert len(given) <= max(machines, len(torches))


def test_the_dear_ones_are_kept_apart():
    assert [share.patches for share in shares(["2.11.0"], list("abcd"), 2, COSTS)] == [("a", "d"), ("b", "c")]


def test_the_slow_row_gets_the_second_machine():
    slow = {(patch, torch): 10.0 if torch == "2.12.1" else 1.0 for patch in PATCHES for torch in TORCHES}
    assert [(share.torch, share.part) for share in shares(TORCHES, PATCHES, 4, slow)] == [
        ("2.10.0", "1/1"),
        ("2.11.0", "1/1"),
        ("2.12.1", "1/2"),
        ("2.12.1", "2/2"),
    ]


def test_what_was_never_measured_counts_as_the_mean():
    assert [share.patches for share in shares(["2.11.0"], list("abz"), 2, COSTS)] == [("a",), ("b", "z")]
