"""Figures of a numeric comparison -> PG501 to PG509."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from patchgate.checks import parity
from patchgate.checks.parity import comparison_failure, judge_numbers, judge_side, varies_by_itself
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Case, Cause, Failure, Numerics, Verdict

CASE = Case(torch="2.11.0", device="cpu", workload="w", patch="mine")
SAME = {
    "differing": 0.0,
    "elements": 1000.0,
    "largest": 0.0,
    "repeats": {"unpatched": True, "patched": True},
    "error_eager": 0.00736,
    "error_unpatched": 0.00609,
    "error_patched": 0.00609,
    "ulps": 0.0,
    "worst_eager": 3.0,
    "worst_unpatched": 1.5,
    "worst_patched": 1.5,
    "special": {"nan": "", "inf": ""},
    "small": {},
}
ROUNDED = {"differing": 0.624, "largest": 0.03125, "ulps": 2.0, "error_patched": 0.00626}
WORSE = {"differing": 0.624, "error_patched": 0.0080}
NAN = float("nan")


def judge(
    figures: dict[str, Any], numerics: Numerics = Numerics.BIT_IDENTICAL, factor: float = 1.0
) -> list[Verdict]:
    claims = Claims(title="Mine", numerics=numerics, error_factor=factor)
    patch = Patch(id="mine", path="patch.py", source="", claims=claims, manifest="patch.toml")
    return judge_numbers(CASE, patch, SAME | figures)


@pytest.mark.parametrize(
    ("figures", "numerics", "codes"),
    [
        ({}, Numerics.BIT_IDENTICAL, ["PG503", "PG503", "PG503"]),
        (ROUNDED, Numerics.BIT_IDENTICAL, ["PG501", "PG503", "PG503"]),
        (ROUNDED, Numerics.ROUNDING, ["PG503", "PG503", "PG503"]),
        (WORSE, Numerics.BIT_IDENTICAL, ["PG501", "PG502", "PG503"]),
        (WORSE, Numerics.ROUNDING, ["PG503", "PG502", "PG503"]),
        (WORSE, Numerics.CHANGES, ["PG503"]),
        ({"error_patched": NAN}, Numerics.ROUNDING, ["PG503", "PG502", "PG503"]),
        ({"ulps": 8.5}, Numerics.ROUNDING, ["PG505", "PG503", "PG503"]),
        ({"ulps": NAN}, Numerics.ROUNDING, ["PG505", "PG503", "PG503"]),
        ({"ulps": 8.5}, Numerics.CHANGES, ["PG503"]),
        ({"worst_patched": 6.9}, Numerics.ROUNDING, ["PG503", "PG503", "PG503"]),
        ({"worst_patched": 7.1}, Numerics.ROUNDING, ["PG503", "PG502", "PG503"]),
        ({"special": {"nan": "3 other"}}, Numerics.ROUNDING, ["PG503", "PG503", "PG506"]),
        (
            {"special": {"nan": "raises ValueError"}},
            Numerics.BIT_IDENTICAL,
            ["PG503", "PG503", "PG506"],
        ),
        ({"special": {"nan": "3 other"}}, Numerics.CHANGES, ["PG503"]),
        (
            {"repeats": {"unpatched": False, "patched": True}},
            Numerics.BIT_IDENTICAL,
            ["PG511", "PG503", "PG503"],
        ),
        ({"repeats": {"unpatched": True, "patched": False}}, Numerics.CHANGES, ["PG511"]),
        (
            {"repeats": {"unpatched": True, "patched": False}},
            Numerics.BIT_IDENTICAL,
            ["PG501", "PG503", "PG503"],
        ),
        (
            {"repeats": {"unpatched": True, "patched": False}} | ROUNDED,
            Numerics.ROUNDING,
            ["PG501", "PG503", "PG503"],
        ),
        (
            {"repeats": {"unpatched": False, "patched": False}} | ROUNDED,
            Numerics.ROUNDING,
            ["PG511", "PG503", "PG503"],
        ),
    ],
)
def test_numbers_are_held_to_the_class_that_is_claimed(figures, numerics, codes):
    assert [verdict.code for verdict in judge(figures, numerics)] == codes


@pytest.mark.parametrize(("factor", "code"), [(1.0, "PG502"), (1.05, "PG502"), (1.1, "PG503")])
def test_the_error_may_grow_by_the_factor_that_is_claimed(factor, code):
    assert judge(WORSE, Numerics.ROUNDING, factor)[1].code == code


@pytest.mark.parametrize(
    ("error", "code"), [(0.00736, "PG503"), (0.00736 * (1 + 1e-7), "PG503"), (0.0074, "PG502")]
)
def test_the_bound_is_the_larger_error_of_eager_and_unpatched_but_for_its_last_digits(error, code):
    assert judge({"error_patched": error})[1].code == code
    swapped = {"error_eager": SAME["error_unpatched"], "error_unpatched": SAME["error_eager"]}
    assert judge(swapped | {"error_patched": error})[1].code == code


@pytest.mark.parametrize("manifest", ["", "patch.toml"])
def test_another_sign_of_zero_alone_is_red_only_against_a_stated_claim(manifest, tmp_path):
    if manifest:
        (tmp_path / manifest).write_text('numerics = "bit-identical"\n')
        manifest = str(tmp_path / manifest)
    patch = Patch(id="mine", path="patch.py", source="", claims=Claims(title=""), manifest=manifest)
    zeros = {"differing": 0.107, "is_equal": True, "ulps": 0.0}
    zeros["small"] = {"one row": zeros | {"mismatch": ""}}
    bits, _, _, few = judge_numbers(CASE, patch, SAME | zeros)
    assert bits.actual == "10.7% of 1000 elements differ only in the sign of zero or in NaN"
    red = (Colour.RED, "PG501") if manifest else (Colour.GREY, "PG503")
    assert (bits.code, bits.colour, few.code) == ("PG501", *red)
    assert judge_numbers(CASE, patch, SAME | ROUNDED)[0].colour is Colour.RED


def test_one_unit_is_no_plural():
    assert judge(ROUNDED | {"ulps": 1.0})[0].actual.endswith("(1 ulp)")


def test_a_difference_is_reported_in_figures():
    bits, error, special = judge(ROUNDED)
    assert (
        bits.actual
        == "62.4% of 1000 elements differ bit for bit; largest difference 0.03125 (2 ulps)"
    )
    assert (bits.expected, bits.where) == ('numerics = "bit-identical" (by default)', "patch.toml")
    assert error.actual == (
        "eager 0.00736, unpatched 0.00609, patched 0.00626; worst element, in ulps: eager 3, "
        "unpatched 1.5, patched 1.5"
    )
    assert (
        error.expected == "relative error against float64 of at most 0.00736, of one element 7 ulps"
    )
    assert (error.where, special.actual) == (None, "as there, for inputs with nan, inf")


GRADIENTS = "w.cpu gradients bits"


@pytest.mark.parametrize(
    ("gradients", "codes"),
    [({}, ["PG503", "PG503"]), (ROUNDED, ["PG501", "PG503"]), (WORSE, ["PG501", "PG502"])],
)
def test_gradients_are_judged_apart_from_outputs(gradients, codes):
    verdicts = judge({"gradients": SAME | gradients})
    assert [verdict.code for verdict in verdicts] == ["PG503", "PG503", *codes, "PG503"]
    assert verdicts[2].subject == GRADIENTS


def small(mismatch: str = "", differing: float = 0.0, ulps: float = 0.0) -> dict[str, Any]:
    return {"small": {"one row": {"mismatch": mismatch, "differing": differing, "ulps": ulps}}}


@pytest.mark.parametrize(
    ("told", "numerics", "code"),
    [
        (small(), Numerics.BIT_IDENTICAL, "PG503"),
        (small("raises ValueError"), Numerics.ROUNDING, "PG506"),
        (small(differing=0.5, ulps=1.0), Numerics.BIT_IDENTICAL, "PG501"),
        (small(differing=0.5, ulps=9.0), Numerics.BIT_IDENTICAL, "PG506"),
        (small(differing=0.5, ulps=8.0), Numerics.ROUNDING, "PG503"),
        (small(differing=0.5, ulps=8.5), Numerics.ROUNDING, "PG506"),
    ],
)
def test_small_inputs_behave_as_unpatched_within_the_claim(told, numerics, code):
    verdict = judge(told, numerics)[-1]
    assert (verdict.code, verdict.subject) == (code, "w.cpu small inputs")
    assert verdict.is_rounding == (code == "PG501")
    assert ('numerics = "rounding"' in verdict.advice) == (code == "PG501")


def test_a_side_whose_runs_differ_is_named_and_never_red():
    verdict = judge({"repeats": {"unpatched": False, "patched": True}} | ROUNDED)[0]
    assert (verdict.colour, verdict.actual) == (
        Colour.GREY,
        "unpatched: two equal runs gave different bits",
    )


def test_where_the_sides_part_is_reported():
    assert judge(ROUNDED | {"diverges_at": "add_3"})[0].actual.endswith(
        "; first difference at add_3"
    )


NO_COMPILER = "InvalidCxxCompiler: No working C++ compiler found"


@pytest.mark.parametrize(
    ("unpatched", "patched", "signature", "code", "colour"),
    [
        (None, Cause.RAISED, "boom", "PG504", Colour.RED),
        (None, Cause.HUNG, "boom", "PG504", Colour.RED),
        (None, Cause.MACHINE, "boom", "PG509", Colour.GREY),
        (Cause.MACHINE, None, "boom", "PG509", Colour.GREY),
        (Cause.HUNG, None, "boom", "PG509", Colour.GREY),
        (Cause.RAISED, None, "boom", "PG509", Colour.GREY),
        (Cause.RAISED, Cause.RAISED, "boom", "PG509", Colour.GREY),
        (Cause.RAISED, Cause.RAISED, NO_COMPILER, "PG508", Colour.GREY),
    ],
)
def test_a_side_that_did_not_run_is_the_patchs_fault_only_when_the_other_did(
    unpatched, patched, signature, code, colour
):
    failures = [
        c and Failure(cause=c, stage="run", signature=signature) for c in (unpatched, patched)
    ]
    verdict = judge_side(CASE, *failures)
    assert (verdict.code, verdict.colour, verdict.subject) == (code, colour, "w.cpu")


@pytest.mark.parametrize(
    ("answer", "code", "colour"),
    [
        ({"metrics": {}, "unreadable": "KeyError: 'outputs'"}, "PG504", Colour.RED),
        (
            {"failure": {"cause": "machine", "stage": "differ", "signature": "own step"}},
            "PG509",
            Colour.GREY,
        ),
    ],
)
def test_outputs_that_are_none_are_the_patchs_fault_and_a_comparison_that_fails_is_not(
    answer, code, colour
):
    verdict = judge_side(CASE, None, comparison_failure(answer))
    assert (verdict.code, verdict.colour) == (code, colour)


def test_no_verdict_of_numbers_is_a_kind_that_hides_red():
    assert {verdict.kind for verdict in judge(WORSE)[:2]} == {Kind.REGRESSED}


@pytest.mark.parametrize(
    ("runs", "varies", "asked"),
    [
        ([0.0, 0.0, 0.0], False, 3),
        ([0.0, 1e-7], True, 2),
        ([None], False, 1),
    ],
)
def test_unpatched_side_that_differs_from_itself_is_no_evidence(monkeypatch, runs, varies, asked):
    told = iter(runs)
    outputs: list[Patch | None] = []
    monkeypatch.setattr(
        parity,
        "outputs_of",
        lambda context, case, question, patch, path: outputs.append(patch) or {},
    )
    failure = {"failure": {"cause": "machine", "stage": "differ", "signature": "own step"}}

    def differences(*_: Any) -> dict[str, Any]:
        share = next(told)
        return failure if share is None else {"metrics": {"differing": share}}

    context: Any = SimpleNamespace(differences=differences)
    assert varies_by_itself(context, CASE, Path("/folder")) is varies
    assert outputs == [None] * asked


def test_gradients_of_a_side_that_differs_from_itself_are_no_evidence():
    figures = parity._as_not_repeated(SAME | ROUNDED | {"gradients": SAME | ROUNDED})
    verdicts = judge(figures)
    assert [verdict.code for verdict in verdicts if verdict.fact.endswith("bits")] == [
        "PG511",
        "PG511",
    ]
    assert not any(verdict.colour is Colour.RED for verdict in verdicts)
