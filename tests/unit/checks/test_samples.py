"""Samples of operators -> PG512 to PG515, and which replaced names are operators."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import Instance
from patchgate.checks.samples import (
    PROGRAMS,
    _is_coverage_asked,
    _run_samples,
    _write_program,
    ask_samples,
    judge_samples,
    sampled_names,
)
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Case, Numerics
from patchgate.runner.run_settings import Run

CASE = Case(torch="2.11.0", patch="mine")
WRONG = {
    "sample": "add(float32[5], alpha=2)",
    "what": "output: 1, not 2",
    "excess": 1e5,
    "raises": False,
    "offer": "",
}
FAILS = {
    "sample": "add(bool[5])",
    "what": "raises TypeError: no bool",
    "excess": 1e30,
    "raises": True,
    "offer": "",
}

KEPT = {"programs": 0, "expected": 0, "actual": 0, "sample": ""}


def judge(
    differing: list[dict[str, Any]],
    numerics: Numerics = Numerics.ROUNDING,
    judged: int = 30,
    name: str = "lowering",
) -> dict[str, Any]:
    patch = Patch(
        id="mine",
        path="patch.py",
        source="",
        claims=Claims(title="Mine", numerics=numerics),
        manifest="",
    )
    metrics = {
        "samples": 34,
        "judged": judged,
        "rounded": 0,
        "differing": differing,
        "grown": [],
        "kept": KEPT,
        "serial": [],
        "settings": [],
        "unjudged": [],
    }
    return {
        verdict.code: verdict for verdict in judge_samples(CASE, patch, {name: ["add"]}, metrics)
    }


def test_the_next_step_for_a_pass_is_its_small_program():
    patch = Patch(id="mine", path="patch.py", source="", claims=Claims(title="Mine"), manifest="")
    metrics = {
        "judged": 20,
        "differing": [WRONG],
        "grown": [],
        "kept": KEPT,
        "serial": [],
        "settings": [],
    }
    (verdict,) = judge_samples(CASE, patch, {"config.pass": [PROGRAMS]}, metrics)
    assert verdict.advice.startswith("Compile the small program that is shown")
    assert judge([WRONG])["PG512"].advice.startswith("Call the operator")


@pytest.mark.parametrize(
    ("differing", "numerics", "codes"),
    [
        ([], Numerics.BIT_IDENTICAL, ["PG514"]),
        ([WRONG], Numerics.BIT_IDENTICAL, ["PG512"]),
        ([WRONG], Numerics.CHANGES, ["PG514"]),
        ([{**WRONG, "is_missing": True}], Numerics.CHANGES, ["PG512"]),  # a gradient
        ([{**WRONG, "is_shared": True}], Numerics.CHANGES, ["PG512"]),  # memory
        ([FAILS], Numerics.CHANGES, ["PG513"]),
        ([{**FAILS, "is_cast": True}], Numerics.ROUNDING, ["PG513"]),
        ([{**FAILS, "is_cast": True}], Numerics.CHANGES, ["PG514"]),
        ([WRONG, FAILS], Numerics.ROUNDING, ["PG512", "PG513"]),
        ([{**WRONG, "offer": "backend mine"}], Numerics.ROUNDING, ["PG532"]),
        ([{**FAILS, "offer": "pass mine"}], Numerics.ROUNDING, ["PG531"]),
        ([{**WRONG, "offer": "backend mine"}], Numerics.CHANGES, ["PG514"]),
    ],
)
def test_wrong_numbers_and_failures_are_told_apart(differing, numerics, codes):
    verdicts = judge(differing, numerics)
    assert [*verdicts] == codes
    assert all(
        (verdict.colour is Colour.GREEN) == (code == "PG514") for code, verdict in verdicts.items()
    )


@pytest.mark.parametrize(
    ("gross", "name", "codes"),
    [
        ({"is_gross": True, "is_graph": True}, "torch._inductor.fx_passes.b2b_gemm", ["PG512"]),
        ({"is_gross": True, "is_graph": True}, "torch.optim.Adam.step", ["PG514"]),
        ({"is_gross": True, "is_graph": False}, "torch._inductor.fx_passes.b2b_gemm", ["PG514"]),
        ({"is_gross": False, "is_graph": True}, "torch._inductor.fx_passes.b2b_gemm", ["PG514"]),
    ],
)
def test_a_pass_that_changes_numbers_may_not_move_programs_by_half_of_their_size(
    gross, name, codes
):
    assert [*judge([{**WRONG, **gross}], Numerics.CHANGES, name=name)] == codes


@pytest.mark.parametrize(
    ("sample", "called", "manifest", "code", "kind"),
    [
        (WRONG, True, None, "PG512", Kind.WARNING),
        (WRONG, True, "", "PG512", Kind.REGRESSED),
        (WRONG, False, None, "PG512", Kind.REGRESSED),
        (FAILS, True, None, "PG513", Kind.REGRESSED),
    ],
)
def test_numbers_of_eager_calls_may_differ_within_a_scope_that_no_manifest_describes(
    sample, called, manifest, code, kind
):
    claims = Claims(title="Mine", scope="mine")
    patch = Patch(id="mine", path="patch.py", source="", claims=claims, manifest=manifest)
    lists = {"grown": [], "serial": [], "settings": [], "unjudged": [], "kept": KEPT}
    metrics = {"judged": 1, "differing": [{**sample, "is_called": called}], **lists}
    (verdict,) = judge_samples(CASE, patch, {"copy": ["copies"]}, metrics)
    assert (verdict.code, verdict.kind) == (code, kind)


def test_a_sample_that_differs_is_shown():
    assert (
        judge([WRONG])["PG512"].actual
        == "1 of 30 samples differ: add(float32[5], alpha=2) -> output: 1, not 2"
    )


def test_another_dtype_shape_or_layout_is_no_failure():
    cast = {**FAILS, "is_form": True, "is_cast": True, "what": "output: float32[], not float64[]"}
    assert judge([cast])["PG513"].fact == "form of results of add"
    assert judge([FAILS])["PG513"].fact == "of add"
    assert judge([{**cast, "offer": "pass mine"}])["PG531"].fact == "pass mine, add"
    laid_out = {**WRONG, "is_layout": True, "what": "output 1 is stored in rows"}
    assert judge([laid_out], Numerics.CHANGES)["PG513"].fact == "form of results of add"


def test_a_sample_that_differs_in_two_ways_counts_once():
    ways = [{**WRONG, "at": 3}, {**WRONG, "at": 3, "sample": "add(), on the simulated GPU"}]
    assert judge([*ways, {**WRONG, "at": 4}])["PG512"].actual.startswith("2 of 30 samples differ: ")


def test_one_sample_of_several_replaced_names_is_shown_once():
    found = [{**WRONG, "at": at} for at in (3, 4)]
    found.append({**WRONG, "at": 5, "sample": f"{WRONG['sample']}, in eager mode"})
    assert judge(found)["PG512"].actual == (
        "3 of 30 samples differ: add(float32[5], alpha=2) -> output: 1, not 2"
    )


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (WRONG, "An argument that the replacement"),
        ({**WRONG, "is_near": True}, "digits"),
        ({**WRONG, "what": "gradient: 1, not 2"}, "backward"),
        ({**WRONG, "what": "output 1 shares its memory with output 2"}, "Return a copy"),
        ({**WRONG, "what": "input: 1, not 2"}, "arguments and the module's state"),
        ({**WRONG, "sample": "return x: its gradient is the slope of its results"}, "seed"),
        ({**WRONG, "sample": "rand(3), twice with a generator of one seed"}, "`generator`"),
        ({**WRONG, "what": "output: 0, not nan"}, "comparison that NaN fails"),
        ({**WRONG, "what": "output: nan+0j, not 1+0j"}, "comparison that NaN fails"),
        ({**WRONG, "what": "output: -inf, not 12"}, "overflows"),
        (FAILS, "Accept every argument"),
        (
            {**FAILS, "what": "raises RuntimeError: no autograd formula was registered"},
            "register_autograd",
        ),
        ({**FAILS, "what": "raises RuntimeError: There was no fake impl"}, "register_fake"),
    ],
)
def test_the_next_step_fits_what_is_different(found, word):
    (verdict,) = judge([found]).values()
    assert word in verdict.advice


def test_where_torch_itself_differs_everywhere_nothing_is_judged():
    assert judge([], judged=0)["PG515"].colour is Colour.GREY


def test_an_option_that_holds_a_pass_is_replaced_and_another_option_is_not():
    options = [
        f"torch._inductor.config.{name}"
        for name in ("post_grad_custom_post_pass", "max_fusion_size")
    ]
    effects = [
        {"kind": "config", "name": name, "what": "", "line": 1, "old": ""} for name in options
    ]
    names = sampled_names({"changed": [], "effects": effects})
    assert names["names"] == names["passes"] == options[:1]


def test_what_decides_what_is_saved_for_a_backward_acts_on_both_graphs():
    replaced = [
        "torch._functorch.partitioners.min_cut_rematerialization_partition",
        "torch._inductor.fx_passes.replace_random.replace_random_passes",
        "torch._functorch.apis.vmap",
    ]
    names = sampled_names({"changed": replaced, "effects": []})
    assert (names["joint"], names["passes"]) == (replaced[:1], replaced[1:2])
    assert names["compiler"] == replaced[::2]
    assert names["names"] == replaced


@pytest.mark.parametrize(
    ("name", "is_judged"),
    [
        ("torch._subclasses.fake_impls.FAST_OP_IMPLEMENTATIONS[aten.tanh.default]", True),
        ("torch._dynamo.backends.registry._BACKENDS['mine']", False),
    ],
)
def test_entries_for_operators_act_in_a_compile(name, is_judged):
    names = sampled_names({"changed": [name]})
    assert names["compiler"] == names["names"] == ([name] if is_judged else [])


def test_what_was_not_judged_is_named_with_its_reason():
    metrics = {
        "samples": 2,
        "judged": 1,
        "rounded": 0,
        "differing": [],
        "grown": [],
        "kept": KEPT,
        "serial": [],
        "settings": [],
        "unjudged": ["add(): used up"],
    }
    patch = Patch(id="mine", path="patch.py", source="", claims=Claims(title="Mine"), manifest="")
    (verdict,) = judge_samples(CASE, patch, {"lowering": ["add"]}, metrics)
    assert (
        verdict.actual
        == "as unpatched or eager in 1 of 2 samples; others were not judged: add(): used up"
    )


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("torch._inductor.lowering.lowerings[aten.add.Tensor]", True),
        ("torch._inductor.decomposition.decompositions[aten.silu.default]", True),
        ("torch.library._impls['aten/where.ScalarOther/CPU']", True),
        ("torch.nn.functional.gelu", True),
        ("torch.Tensor.add", True),
        ("torch._inductor.lowering.make_reduction", True),
        ("torch._inductor.ir.StorageBox.should_realize_on_reuse", True),
        ("torch._dynamo.variables.lists.ListVariable.call_method", True),
        ("torch._inductor.custom_graph_pass.CustomGraphPass.uuid", False),
        ("torch._inductor.scheduler.Scheduler.fuse_nodes", True),
        ("torch._inductor.memory.reorder_for_peak_memory", True),
        ("torch._inductor.config.max_fusion_size", False),
        ("torch.compile", False),
        ("torch._dynamo.config", False),
        ("torch.cuda.is_available", False),
    ],
)
def test_operators_are_told_from_other_names(name, holds):
    assert bool(sampled_names({"changed": [name]})["names"]) is holds


@pytest.mark.parametrize(
    ("of", "code"), [("graphs", "PG411"), ("breaks", "PG422"), ("raises", "PG513")]
)
def test_samples_that_are_compiled_more_often_or_break_are_red(of, code):
    step = {"sample": "add()", "step": "in the second call", "of": of, "expected": 0, "actual": 1}
    metrics = {
        "samples": 2,
        "judged": 2,
        "rounded": 0,
        "differing": [],
        "grown": [step],
        "kept": KEPT,
        "serial": [],
        "settings": [],
    }
    patch = Patch(id="mine", path="patch.py", source="", claims=Claims(title="Mine"), manifest="")
    (verdict,) = judge_samples(CASE, patch, {"lowering": ["add"]}, metrics)
    assert verdict.code == code
    assert "1 in the second call of add()" in verdict.actual


@pytest.mark.parametrize(("actual", "codes"), [(1021, ["PG301"]), (1020, ["PG514"])])
def test_programs_that_keep_more_for_their_backwards_are_red(actual, codes):
    kept = {"programs": 4, "expected": 1000, "actual": actual, "sample": "return a @ m"}
    counts = {"samples": 4, "judged": 4, "rounded": 0}
    lists = {"differing": [], "grown": [], "serial": [], "settings": [], "unjudged": []}
    patch = Patch(id="mine", path="patch.py", source="", claims=Claims(title="Mine"), manifest="")
    verdicts = judge_samples(CASE, patch, {"size": ["programs"]}, {**counts, **lists, "kept": kept})
    assert [verdict.code for verdict in verdicts] == codes


@pytest.mark.parametrize(
    ("cause", "is_alike", "scope", "code"),
    [
        ("raised", False, "within", "PG515"),
        ("raised", False, None, "PG513"),
        ("hung", True, None, "PG515"),
        ("hung", False, None, "PG513"),
    ],
)
def test_errors_around_samples_and_time_limits_are_judged_by_the_unpatched_side(
    cause, is_alike, scope, code
):
    failure = {"cause": cause, "stage": "run", "signature": "RuntimeError: on meta"}
    answers = {
        "unpatched": {"operators": {"torch.add": ["add"]}, "unmeasured": ""}
        | ({"failure": failure} if is_alike else {}),
        "patched": {"failure": failure},
        "compared": {},
    }
    context: Any = SimpleNamespace(
        apply=lambda torch: {"changed": ["torch.add"]},
        once_a_run=lambda name, ask: answers,
        patch=SimpleNamespace(claims=SimpleNamespace(scope=scope)),
    )
    (found,) = ask_samples(context, Instance(case=CASE))
    assert found.code == code


def _context_that_asks(ask: Callable[..., dict[str, Any]]) -> Any:
    return SimpleNamespace(
        apply=lambda torch: {"changed": ["torch.add"], "replacements": {"torch.add": [3]}},
        ask_building=ask,
        leaves_functions_unreached=lambda torch: False,
        differences=print,
        patch=Patch(id="mine", path="patch.py", source="", claims=Claims(title="Mine")),
        run=SimpleNamespace(profile=None, devices=(), seed=0, asks=lambda check, family: True),
    )


@pytest.mark.parametrize(("cause", "is_alike"), [("hung", True), ("raised", False)])
def test_after_a_time_limit_the_unpatched_side_does_the_same_work_in_half_the_time(cause, is_alike):
    asked: list[dict[str, Any]] = []

    def ask(torch: str, question: str, device: str, **request: Any) -> dict[str, Any]:
        asked.append(request)
        failure = {"cause": cause, "stage": "run", "signature": "RuntimeError"}
        return {
            "operators": {"torch.add": ["add"]},
            "unmeasured": "",
            **({"failure": failure} if request["patch"] else {}),
        }

    answers = _run_samples(_context_that_asks(ask), "2.11.0")
    assert "failure" not in answers["unpatched"]
    _, patched, again = asked
    assert again.get("as_patched", False) is is_alike
    assert again["compiles"] == patched["compiles"] / (2 if is_alike else 1)


@pytest.mark.parametrize(("cause", "made"), [("crashed", [True, False]), ("hung", [True])])
def test_an_operator_that_ends_the_process_gets_no_random_calls(cause, made):
    asked: list[bool] = []

    def ask(torch: str, question: str, device: str, **request: Any) -> dict[str, Any]:
        if "random_calls" in request:
            asked.append(request["random_calls"])
        failure = {"cause": cause, "stage": "run", "signature": "SIGSEGV"}
        return {
            "operators": {},
            "unmeasured": "",
            **({"failure": failure} if request.get("random_calls") else {}),
        }

    answers = _run_samples(_context_that_asks(ask), "2.11.0")
    assert asked == made
    assert ("failure" in answers["unpatched"]) is (made[-1])


@pytest.mark.parametrize(
    ("replacements", "checks", "is_unreached", "cover"),
    [
        ({"torch.add": [3]}, (), True, True),
        ({"torch.add": [3]}, (), False, False),
        ({"torch.add": [3]}, ("samples",), True, False),
        ({"torch.add": [3]}, ("reach",), True, True),
        ({}, (), True, False),
    ],
)
def test_lines_are_recorded_if_the_check_of_calls_needs_them(
    replacements, checks, is_unreached, cover
):
    context: Any = SimpleNamespace(
        apply=lambda torch: {"replacements": replacements},
        leaves_functions_unreached=lambda torch: is_unreached,
        run=Run(folder="", patch="", rows={}, checks=checks),
    )
    assert _is_coverage_asked(context, "2.11.0") is cover


@pytest.mark.parametrize(
    ("manifest", "effects", "found"),
    [
        ("", (), ("PG208", Kind.REGRESSED)),
        (None, (), ("PG208", Kind.WARNING)),
        ("", ("state float32_matmul_precision",), ("PG514", Kind.PASS)),
    ],
)
def test_a_setting_that_calls_leave_changed_is_red_unless_claimed(manifest, effects, found):
    settings = ["state float32_matmul_precision"]
    counts = {"samples": 2, "judged": 2, "rounded": 0}
    metrics = {
        **counts,
        "differing": [],
        "grown": [],
        "kept": KEPT,
        "serial": [],
        "settings": settings,
        "unjudged": [],
    }
    claims = Claims(title="Mine", effects=effects)
    patch = Patch(id="mine", path="patch.py", source="", claims=claims, manifest=manifest)
    (verdict,) = judge_samples(CASE, patch, {"MultiheadAttention": ["made"]}, metrics)
    assert (verdict.code, verdict.kind) == found


def test_a_sample_as_a_program_names_its_interpreter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    patch = Patch(id="mine", path="patch.py", source="", claims=Claims(title="Mine"), manifest="")
    run = Run(folder=str(tmp_path), patch="patch.py", rows={"2.11.0": "/my envs/python"})
    context = cast(CheckContext, SimpleNamespace(patch=patch, run=run))
    found = [{"sample": "add()"}, {"program": "def call(a):\n    return a\n"}]
    file = _write_program(context, "2.11.0", found)
    first, *_ = (tmp_path / file).read_text().splitlines()
    assert first.startswith("# Run it with '/my envs/python' (torch 2.11.0): ")
    compile((tmp_path / file).read_text(), file, "exec")
    assert _write_program(context, "2.11.0", found[:1]) == ""
    wrong = [WRONG, {**WRONG, "at": 2, "program": "..."}]
    metrics = {
        "judged": 20,
        "differing": wrong,
        "grown": [],
        "kept": KEPT,
        "serial": [],
        "settings": [],
    }
    (verdict,) = judge_samples(CASE, patch, {"add": ["add"]}, metrics, file)
    assert "one of them as a program: samples/mine-2.11.0.py" in verdict.actual


@pytest.mark.parametrize("serial", [[], ["x.sum(-1) of float32[512, 2048]"]])
def test_loops_that_are_no_longer_shared_are_red(serial):
    metrics = {"judged": 1, "samples": 1, "differing": [], "grown": [], "kept": KEPT}
    metrics |= {"serial": serial, "settings": [], "unjudged": []}
    patch = Patch(id="mine", path="patch.py", source="", claims=Claims(title="Mine"))
    (found,) = judge_samples(CASE, patch, {"torch.add": ["add"]}, metrics)
    red = "PG301", Colour.RED
    assert (found.code, found.colour) == (red if serial else ("PG514", Colour.GREEN))
