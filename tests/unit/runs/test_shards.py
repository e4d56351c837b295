"""Machines get every job once, a row each, and loads that are as even as the jobs allow."""

from hypothesis import given
from hypothesis import strategies as st

from patchgate.runs.shards import every_nth, shards_by_cost

TORCHES = ["2.10.0", "2.11.0", "2.12.1"]
PATCHES = list("abcdefg")
COSTS = {("a", "2.11.0"): 90.0, ("b", "2.11.0"): 50.0, ("c", "2.11.0"): 40.0, ("d", "2.11.0"): 10.0}


@given(
    st.lists(st.sampled_from(TORCHES), unique=True, min_size=1),
    st.lists(st.sampled_from(PATCHES), unique=True),
    st.integers(0, 30),
    st.dictionaries(
        st.tuples(st.sampled_from(PATCHES), st.sampled_from(TORCHES)), st.floats(0.1, 1000)
    ),
)
def test_every_job_is_given_once_and_no_machine_is_idle(torches, patches, machines, costs):
    given = shards_by_cost(torches, patches, machines, costs)
    jobs = [(patch, shard.torch) for shard in given for patch in shard.patches]
    assert sorted(jobs) == sorted((patch, torch) for patch in patches for torch in torches)
    assert all(shard.patches for shard in given)
    assert len(given) <= max(machines, len(torches))


def test_the_dear_ones_are_kept_apart():
    assert [shard.patches for shard in shards_by_cost(["2.11.0"], list("abcd"), 2, COSTS)] == [
        ("a", "d"),
        ("b", "c"),
    ]


def test_the_slow_row_gets_the_second_machine():
    slow = {
        (patch, torch): 10.0 if torch == "2.12.1" else 1.0 for patch in PATCHES for torch in TORCHES
    }
    assert [(shard.torch, shard.part) for shard in shards_by_cost(TORCHES, PATCHES, 4, slow)] == [
        ("2.10.0", "1/1"),
        ("2.11.0", "1/1"),
        ("2.12.1", "1/2"),
        ("2.12.1", "2/2"),
    ]


def test_what_was_never_measured_counts_as_the_mean():
    assert [shard.patches for shard in shards_by_cost(["2.11.0"], list("abz"), 2, COSTS)] == [
        ("a",),
        ("b", "z"),
    ]


def test_every_nth_job_of_each_machine_is_all_jobs_together():
    parts = [every_nth(range(7), number, 3) for number in (1, 2, 3)]
    assert parts == [[0, 3, 6], [1, 4], [2, 5]]
