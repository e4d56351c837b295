"""The catalogue: complete, well-formed, and one code for each kind of the comparison."""

import re

import pytest
from patchgate.checks.codes import (
    CODES,
    cache,
    compilework,
    gate,
    graph,
    kernels,
    latency,
    lint,
    machine,
    modelled,
    options,
    parity,
    reach,
    recompiles,
    shapes,
    surface,
)
from patchgate.checks.codes.facts import code_of, codes_of

from patchgate.model.records import Kind

FAMILIES = {1: surface, 2: gate, 3: kernels, 4: graph, 5: parity, 6: compilework, 7: cache, 8: reach, 9: machine}
METRICS = (Kind.OVER, Kind.UNDER, Kind.AMBIGUOUS)
KINDS = [kind for kind in Kind if kind not in (Kind.NOTE, *METRICS)]


@pytest.mark.parametrize("code", CODES)
def test_a_code_is_listed_under_its_own_name_and_explained(code):
    told = CODES[code]
    assert told.code == code
    assert re.fullmatch(r"PG\d{3}", code)
    assert all((told.title, told.what, told.why, told.fix))
    assert "{" not in told.title + told.what


@pytest.mark.parametrize(("digit", "family"), FAMILIES.items())
def test_a_family_has_its_own_digit(digit, family):
    assert {code.code[2] for code in family.CODES} == {str(digit)}


def test_no_code_is_given_twice():
    listed = [
        code.code
        for family in (*FAMILIES.values(), lint, latency, modelled, options, recompiles, shapes)
        for code in family.CODES
    ]
    assert sorted(listed) == sorted(CODES)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_the_comparison_has_a_code_in_both_families_of_facts(kind):
    kernels_code, graph_code = code_of(30, kind), code_of(40, kind)
    assert kernels_code[3:] == graph_code[3:]
    assert {kernels_code, graph_code} <= CODES.keys()


def test_different_kinds_have_different_codes():
    assert len({code_of(30, kind) for kind in KINDS}) == len(KINDS)


def test_a_family_is_named_in_its_texts():
    assert codes_of(30, "kernel")[0].title == "kernel facts as recorded"
