"""Records to dicts and back; what does not fit is refused with its dotted path."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgate.model.errors import UsageError
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Cause, Command, Failure, Observation, Unmeasured, Verdict
from patchgate.model.serialization import fact_from, fact_to, failure_of, from_dict, to_dict
from patchgate.runner.run_settings import Run

text = st.text(max_size=8)
fact_values = st.integers() | text | st.lists(st.integers(), max_size=3).map(tuple)
names = st.from_regex(r"\w[\w.+-]{0,8}", fullmatch=True)
releases = st.sampled_from(("", "2.11.0", "2.12.0.dev1", "2.11.0+git.abc"))
cases = st.builds(Case, torch=releases, device=names, workload=names, patch=st.none() | names)
failures = st.builds(
    Failure, cause=st.sampled_from(Cause), stage=text, signature=text, detail=text, where=text
)
tables = st.dictionaries(text, text, max_size=3)
observations = st.builds(
    Observation,
    case=cases,
    failure=st.none() | failures,
    facts=st.dictionaries(names, fact_values, max_size=3),
    environment=tables,
    artifacts=tables,
)
commands = st.builds(Command, name=text, arguments=st.lists(text, max_size=3).map(tuple), when=text)
verdicts = st.builds(
    Verdict,
    code=text,
    kind=st.sampled_from(Kind),
    check=text,
    case=cases,
    item=text,
    fact=text,
    before=st.none() | text,
    after=st.none() | text,
    recorded=st.none() | text,
    where=st.none() | text,
    advice=text,
    commands=st.lists(commands, max_size=2).map(tuple),
)
runs = st.builds(
    Run, folder=text, patch=text, rows=tables, problems=tables, devices=st.lists(text).map(tuple)
)


@pytest.mark.parametrize(
    ("kind", "records"), [(Observation, observations), (Verdict, verdicts), (Run, runs)]
)
@given(data=st.data())
def test_a_record_survives_json(kind, records, data):
    record = data.draw(records)
    assert from_dict(kind, json.loads(json.dumps(to_dict(record))), where="here") == record


def test_a_missing_fact_survives_json_with_its_reason():
    case = Case(torch="2.11.0", device="h200", workload="stack")
    told = json.dumps(
        to_dict(Observation(case=case, facts={"bytes": Unmeasured(reason="no counter")}))
    )
    fact = from_dict(Observation, json.loads(told), where="here").facts["bytes"]
    assert (type(fact), fact.reason) == (Unmeasured, "no counter")


@given(fact_values)
def test_a_fact_is_read_as_it_was_written(value):
    assert fact_from(fact_to(value)) == value


@pytest.mark.parametrize(
    "value", [None, True, 1.5, [1, "a"], [True], {"unmeasured": "x", "more": 1}, {}]
)
def test_what_is_no_fact_is_refused(value):
    with pytest.raises(ValueError, match="not a fact"):
        fact_from(value)


def refused(kind, data):
    with pytest.raises(UsageError) as error:
        from_dict(kind, data, where="a.json")
    return str(error.value)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"case": {"workload": "stack", "colour": 1}}, "`case.colour`: unknown key"),
        ({"case": {"workload": "stack"}}, "`case.torch`: missing"),
        ({"case": {"torch": "2.11.0"}, "facts": {"loads": 1.5}}, "`facts.loads`: not a fact: 1.5"),
        ({"case": {"torch": "2.11.0"}, "took": [[1, 2]]}, "`took`: not a list of tables"),
    ],
)
def test_the_first_path_that_does_not_fit_is_named(data, told):
    assert told in refused(Observation, data)


@pytest.mark.parametrize("data", [[], None, 3, "text"])
@pytest.mark.parametrize("kind", [Run, Observation, Verdict])
def test_what_is_no_table_is_refused(kind, data):
    assert refused(kind, data).startswith(f"a.json: not a valid {kind.__name__.lower()}")


def test_an_answer_without_a_failure_has_none():
    assert failure_of({"facts": {}}) is None


def test_the_failure_of_an_answer_is_read_with_what_it_leaves_out():
    told = {"cause": "hung", "stage": "compile", "signature": "no end"}
    assert failure_of({"failure": told}) == Failure(
        cause=Cause.HUNG, stage="compile", signature="no end"
    )
