"""The observations of one run: a file a case."""

import pytest

from patchgate.model.errors import UsageError
from patchgate.model.records import Case, Observation
from patchgate.runner.run_settings import ResultStore


def observation(torch="2.11.0", patch=None, **facts):
    return Observation(
        case=Case(torch=torch, device="h200", workload="stack", patch=patch), facts=facts
    )


def test_what_was_saved_is_loaded(tmp_path):
    store, saved = ResultStore(tmp_path / "new"), observation(loads=(1, 2))
    store.save(saved)
    assert store.load(saved.case) == saved


def test_a_case_that_was_not_observed_is_none(tmp_path):
    store = ResultStore(tmp_path)
    store.save(observation())
    assert store.load(observation(patch="mine").case) is None


def test_saving_again_replaces(tmp_path):
    store = ResultStore(tmp_path)
    store.save(observation(a=1))
    store.save(observation(a=2))
    assert [o.facts for o in store] == [{"a": 2}]


def test_all_observations_come_in_the_order_of_their_names(tmp_path):
    store = ResultStore(tmp_path)
    saved = [observation("2.11.0", "mine"), observation("2.11.0"), observation("2.12.1")]
    for one in reversed(saved):
        store.save(one)
    assert list(store) == saved


def test_an_empty_store_has_nothing(tmp_path):
    assert list(ResultStore(tmp_path / "none")) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_a_broken_file_is_refused_by_name(tmp_path, text):
    store, case = ResultStore(tmp_path), observation().case
    (tmp_path / f"{case.id}.json").write_text(text)
    with pytest.raises(UsageError, match=case.id):
        store.load(case)
