"""Find every check of `checks/` by its module, every code once and explained, in the order of
reports.
"""

from __future__ import annotations

import pkgutil
import re
from functools import partial
from importlib import import_module
from types import ModuleType

import pytest

from patchgate import checks
from patchgate.checks.framework import find_checks
from patchgate.checks.framework.find_checks import (
    AXES,
    all_checks,
    every_code,
    families,
    verdict_of,
)
from patchgate.checks.framework.golden_verdicts import code_of, fact_codes
from patchgate.lint import rules
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Code, Command, read_codes
from patchgate.model.serialization import from_dict, to_dict

METRICS = (Kind.OVER, Kind.UNDER, Kind.AMBIGUOUS)
OTHERS = (Kind.NOTE, Kind.WARNING, Kind.ASSUMED, Kind.STOPPED)
KINDS = [kind for kind in Kind if kind not in (*OTHERS, *METRICS)]
CASE = Case(torch="2.11.0", device="cpu", workload="stack", patch="mine")
# Family -> the digits with which its codes begin.
DIGITS = {
    "machine": {"PG9"},
    "api": {"PG1"},
    "gate": {"PG2"},
    "kernels": {"PG3"},
    "graph": {"PG40"},
    "recompile": {"PG41"},
    "shapes": {"PG42"},
    "options": {"PG43"},
    "parity": {"PG5"},
    "compile": {"PG60"},
    "latency": {"PG61"},
    "cache": {"PG7"},
    "reach": {"PG80", "PG82"},
    "together": {"PG81"},
}


def modules() -> list[ModuleType]:
    return [
        import_module(each.name)
        for each in pkgutil.walk_packages(checks.__path__, f"{checks.__name__}.")
    ]


def codes_of(module: ModuleType) -> tuple[Code, ...]:
    return tuple(getattr(module, "CODES", ()))


@pytest.mark.parametrize("code", every_code())
def test_a_code_is_listed_under_its_own_name_and_explained(code):
    listed = every_code()[code]
    assert listed.code == code
    assert re.fullmatch(r"PG\d{3}", code)
    assert all((listed.title, listed.what, listed.why, listed.fix))
    assert "{" not in listed.title + listed.what


def test_a_family_has_its_own_digits():
    found: dict[str, set[str]] = {}
    for module in modules():
        for code in codes_of(module):
            (digits,) = (one for one in DIGITS[module.FAMILY] if code.code.startswith(one))
            found.setdefault(module.FAMILY, set()).add(digits)
    assert found == DIGITS


def test_no_code_is_given_twice():
    listed = [code.code for module in modules() for code in codes_of(module)] + [
        code.code for code in rules.CODES
    ]
    assert sorted(listed) == sorted(every_code())
    assert list(every_code()) == sorted(every_code())


@pytest.mark.parametrize("family", ["graph", "options"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_the_comparison_has_a_code_in_each_family_of_facts(kind, family):
    codes = code_of("kernels", kind), code_of(family, kind)
    assert codes[0][4:] == codes[1][4:]
    assert set(codes) <= every_code().keys()
    # Facts of shapes are those of graphs, as sizes change.
    assert code_of("shapes", kind) == code_of("graph", kind)


def test_different_kinds_have_different_codes():
    codes = {kind: code_of("kernels", kind) for kind in KINDS}
    assert codes.pop(Kind.CHANGED) == codes[Kind.REGRESSED]
    assert codes.pop(Kind.FIRST) == codes[Kind.NEW]
    assert len(set(codes.values())) == len(codes)


def test_a_family_is_named_in_its_texts():
    assert fact_codes("kernels", noun="kernel")[0].title == "kernel facts as recorded"


def test_a_module_with_a_family_is_a_check_by_being_there():
    """A decorated function is all that a check needs; none is written down a second time."""
    files = {f"{checks.__name__}.{found.name}" for found in pkgutil.iter_modules(checks.__path__)}
    assert {check.ask.__module__ for check in all_checks().values()} == files - {
        f"{checks.__name__}.framework"
    }


@pytest.mark.parametrize("name", all_checks())
def test_a_check_asks_the_first_line_of_its_module_for_combinations_of_the_axes(name):
    check = all_checks()[name]
    assert (check.name, check.ask.__module__.rpartition(".")[2]) == (name, name)
    assert "?" in check.question
    assert check.axes == tuple(axis for axis in AXES if axis in check.axes)
    assert "torch" in check.axes
    assert check.family in families()


@pytest.mark.parametrize("name", all_checks())
def test_a_result_with_a_check_s_own_workload_can_be_read_again(name):
    case = Case(torch="2.11.0", device="cpu", workload=all_checks()[name].workload, patch="mine")
    assert from_dict(Case, to_dict(case), where="verdicts.json") == case


def test_only_the_sentinel_is_asked_whatever_else_holds_and_it_comes_first():
    assert [name for name, check in all_checks().items() if check.first] == ["machine"]
    assert next(iter(all_checks())) == "machine"


def test_reports_list_the_machine_first_and_then_by_code():
    assert families() == tuple(DIGITS)


@pytest.mark.parametrize(
    ("given", "advice", "commands"),
    [
        ({}, "fix", ("listed",)),
        ({"advice": "mend it"}, "mend it", ()),
        ({"advice": "mend it", "commands": ("own",)}, "mend it", ("own",)),
        ({"advice": ""}, "", ()),
    ],
)
def test_a_verdict_has_the_next_step_of_its_code_unless_a_better_one_is_known(
    monkeypatch, given, advice, commands
):
    made = {name: Command(name=name) for name in ("listed", "own")}
    code = Code(
        code="PG999", title="t", what="w", why="because", fix="fix", commands=(made["listed"],)
    )
    monkeypatch.setattr(find_checks, "catalogue", lambda: {"PG999": code})
    given = given | (
        {"commands": tuple(made[name] for name in given["commands"])} if "commands" in given else {}
    )
    verdict = verdict_of("kernels", "PG999", Kind.NEW, CASE, "loads", "1", "2", "here:3", **given)
    assert (verdict.why, verdict.advice, verdict.commands) == (
        "because",
        advice,
        tuple(made[name] for name in commands),
    )
    assert (verdict.subject, verdict.torch, verdict.where) == (
        "stack.cpu loads",
        "2.11.0",
        "here:3",
    )


def test_codes_are_read_from_their_text():
    text = """
PG998 a title
    What happened; as PG997 in
    two lines.
    Why: because.
    Fix: nothing.
PG999 another
    What.
    Why: why.
    Fix: fix it: so.
    Paste:
        def mine():
            return 1
"""
    first, second = read_codes(text)
    assert first == Code(
        code="PG998",
        title="a title",
        what="What happened; as PG997 in two lines.",
        why="because.",
        fix="nothing.",
    )
    assert (second.code, second.fix) == ("PG999", "fix it: so.")
    assert (first.paste, second.paste) == ("", "def mine():\n    return 1")
    with pytest.raises(ValueError, match="unpack"):
        read_codes("PG999 a title\n    What.\n    Fix: fix it.")


# Codes of passes, notes and of what could not be judged: nobody is hurt.
NEVER_RED = re.compile(
    r"PG(105|21[12]|22[3678]|23[01]|[34][03][03789]|41[09]|50[389]|51[14578]|53[45]|60[389]|61[349]|619|70[589]|80[356790]|81[4]|90.)"
)
PEOPLE = re.compile(
    r"\b(users?|author|reviewers?|readers?|project|everyone|job|model in service|every process|a server)\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize(
    "code", [code for code in find_checks.catalogue() if not NEVER_RED.fullmatch(code)]
)
def test_a_code_that_can_be_red_says_who_is_hurt(code):
    assert PEOPLE.search(find_checks.catalogue()[code].why)


def test_of_several_clauses_a_list_shows_the_first():
    say = partial(verdict_of, "kernels", "PG301", Kind.REGRESSED, CASE, "loads", "1")
    alone, several = say("2; 3"), say(("2; 3", "more"))
    assert (alone.actual, alone.headline) == ("2; 3", "2; 3")
    assert (several.actual, several.headline) == ("2; 3; more", "2; 3")
