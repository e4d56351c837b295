"""Faults that act in the code for a GPU alone are red without a GPU; a neighbour that computes the
same is green.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.kernel_faults import FAULTS, WORKLOAD
from patchgate.checks import tokens
from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import Instance, NothingToJudge, all_checks
from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import load_workloads
from patchgate.model.paths import ROOT
from patchgate.model.policy import Colour
from patchgate.model.records import Case, Verdict
from patchgate.runner.cache_keys import environment_digest
from patchgate.runner.client import Runner
from patchgate.runner.run_settings import Run

CHECKS = all_checks()
VERDICTS = ROOT / "fixtures" / "verdicts"
WORKLOADS = {**load_workloads(), **load_workloads(WORKLOAD)}
# Before a merge one fault of each code.
NIGHTLY = [pytest.mark.nightly]
FIRST = ("loses NaN in a maximum", "sums in bfloat16", "no store")


@pytest.fixture
def judge(torch: str, run: Run, runner: Runner, kept: Path, tmp_path: Path):
    def verdicts(
        source: str,
        workload: str = "odd_sizes",
        check: str = "generated_kernels",
        numerics: str = "rounding",
        device: str = "h200",
    ) -> list[Verdict]:
        path = tmp_path / "patch.py"
        path.write_text(source)
        manifest = f'title = "Edits kernels"\nnumerics = "{numerics}"\n'
        (tmp_path / "patch.toml").write_text(manifest)
        patch = load_patch(tmp_path)
        given = replace(
            run, patch=str(tmp_path), devices=(device,), shared_cache=str(kept / "unpatched")
        )
        asking = replace(runner, run=given, identities={torch: environment_digest(run.rows[torch])})
        context = CheckContext(given, patch, WORKLOADS, asking)
        case = Case(torch=torch, device=device, workload=workload, patch=patch.id)
        return list(CHECKS[check].ask(context, Instance(case=case)))

    return verdicts


def faults() -> list[object]:
    return [
        pytest.param(name, id=name, marks=[] if name in FIRST else [pytest.mark.nightly])
        for name in FAULTS
    ]


@pytest.mark.parametrize("name", faults())
def test_a_fault_in_a_kernel_is_red_with_its_line(judge, name):
    red = [v for v in judge(FAULTS[name].patch(faulty=True)) if v.colour is Colour.RED]
    assert FAULTS[name].codes & {verdict.code for verdict in red}, red
    # An element that the caller reads and nobody wrote has no line; the other results name the
    # store.
    named = [verdict for verdict in red if "the caller" not in verdict.actual]
    assert named, red
    assert all("triton_" in verdict.actual and "`" in verdict.actual for verdict in named), red


@pytest.mark.parametrize("name", faults())
def test_a_sound_edit_of_the_same_place_is_green(judge, name):
    verdicts = judge(FAULTS[name].patch(faulty=False))
    assert {verdict.colour for verdict in verdicts} == {Colour.GREEN}, verdicts
    assert [verdict for verdict in verdicts if "same code" not in verdict.actual]


@pytest.mark.parametrize("faulty", [True, False])
def test_on_a_gpu_its_profile_tells_what_kernels_do_to_memory(judge, monkeypatch, faulty):
    # No GPU is here: the facts that it would have are those of the simulated one.
    observations, unpatched = CheckContext.observations, CheckContext.observe_unpatched
    monkeypatch.setattr(
        CheckContext,
        "observations",
        lambda self, case, **how: observations(self, replace(case, device="h200"), **how),
    )
    monkeypatch.setattr(
        CheckContext,
        "observe_unpatched",
        lambda self, case: unpatched(self, replace(case, device="h200")),
    )
    source = FAULTS["no bounds check"].patch(faulty=faulty)
    (judged,) = judge(source, device="cuda")
    assert (judged.code, judged.case.device) == ("PG516" if faulty else "PG503", "h200")
    assert ("`tl.store(" in judged.actual) == faulty


# Edits every kernel; what it computes changes for a batch of one row alone, or not at all.
_ONE_ROW = """from torch._inductor.codegen.triton import TritonKernel

original = TritonKernel.codegen_kernel


def edited(self, *args, **kwargs):
    text = original(self, *args, **kwargs)
    factor = "FACTOR * " if "xnumel = 1\\n" in text else "1.0 * "
    return text.replace("libdevice.rsqrt(", factor + "libdevice.rsqrt(")


TritonKernel.codegen_kernel = edited
"""


@pytest.mark.parametrize(
    ("factor", "codes"), [("1.02", {"PG507"}), pytest.param("1.0", set(), marks=NIGHTLY)]
)
def test_a_kernel_that_is_another_for_single_rows_is_red_with_the_device(judge, factor, codes):
    verdicts = judge(_ONE_ROW.replace("FACTOR", factor), "residual_chain", "equivalence")
    red = [verdict for verdict in verdicts if verdict.colour is Colour.RED]
    assert {verdict.code for verdict in red} == codes, verdicts
    assert all(verdict.subject == "residual_chain.h200 batch and single rows" for verdict in red)
    assert len(verdicts) == 3


# An operator with a kernel that its author wrote, as `triton_op` has it.
_OWN_KERNEL = """import torch
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, bias_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    if bias_ptr is not None:
        x += tl.load(bias_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x / (1.0 + tl.exp(-x)), mask=at < n)


original = F.silu


@torch.library.triton_op("mine::silu", mutates_args=())
def silu_op(x: torch.Tensor) -> torch.Tensor:
    out, n = torch.empty_like(x), x.numel()
    kernel = torch.library.wrap_triton(silu_kernel)
    kernel[(n // 1024 + 1,)](x, None, out, n, BLOCK=1024)
    return out


silu_op.register_kernel("cpu")(original)
F.silu = lambda x, inplace=False: silu_op(x.contiguous())
"""


# The same operator, whose function for a GPU is not traced.
_OPAQUE_OPERATOR = (
    _OWN_KERNEL.replace("triton_op", "custom_op")
    .replace("mutates_args=()", 'mutates_args=(), device_types="cuda"')
    .replace("torch.library.wrap_triton(silu_kernel)", "silu_kernel")
    .replace("    out, n =", "    assert x.is_cuda\n    out, n =")
) + "silu_op.register_fake(torch.empty_like)\n"


@pytest.mark.parametrize(
    ("operator", "part", "faulty", "codes"),
    [
        pytest.param(*case, id=f"{name}, {what}", marks=[] if name == "opaque" else NIGHTLY)
        for name, operator in (("opaque", _OPAQUE_OPERATOR), ("traced", _OWN_KERNEL))
        for what, case in {
            "sound": (operator, "", "", set()),
            "wrong": (operator, "-x)", "-1.5 * x)", {"PG502", "PG505"}),
            "too wide": (operator, "exp(-x)), mask=at < n", "exp(-x)), mask=at <= n", {"PG516"}),
        }.items()
    ],
)
def test_kernels_of_users_run_in_their_own_blocks(judge, operator, part, faulty, codes):
    verdicts = judge(operator.replace(part, faulty) if part else operator, "decoder_block")
    red = [verdict for verdict in verdicts if verdict.colour is Colour.RED]
    assert {verdict.code for verdict in red} == codes, verdicts
    assert all("_kernel" in v.actual or "triton_" in v.actual for v in red), red
    assert red or {verdict.code for verdict in verdicts} == {"PG503"}, verdicts


# The sizes of a workload are above the limit, and the small ones that are run are below it.
_LARGE_ALONE = """import torch.nn.functional as F

original = F.silu


def silu(x, inplace=False):
    return original(x) * 1.5 if x.numel() > 100_000 else original(x)


F.silu = silu
"""


def test_a_patch_of_large_inputs_is_not_judged_by_small_ones(judge):
    (verdict,) = judge(_LARGE_ALONE, "decoder_block")
    assert verdict.code == "PG517"
    assert "small inputs" in verdict.actual
    assert "PG517" not in {v.code for v in judge(_LARGE_ALONE.replace("_000", ""), "decoder_block")}


# Patches of triton_heuristics, which no generated code shows, and the codes of their verdicts at
# night.
_LAUNCHES = {
    "leaves out the last block": (
        """from torch._inductor.runtime.triton_heuristics import Grid1D

original = Grid1D.generate


def generate(self, meta):
    original(self, meta)
    self.x_grid = f"max(({self.x_grid}) - 1, 1)"


Grid1D.generate = generate
""",
        {"PG516"},
    ),
    "half of the programs": (
        """from torch._inductor.runtime.triton_heuristics import GridExpr

original = GridExpr.eval_slow


def half(self, meta):
    x, y, z = original(self, meta)
    return -(-x // 2), y, z


GridExpr.eval_slow = half
""",
        {"PG516"},
    ),
    "blocks beyond what has a mask": (
        """import triton
from torch._inductor.runtime import triton_heuristics

original = triton_heuristics.cached_autotune


def large(size_hints, configs, *args, **kwargs):
    for config in configs:
        if "XBLOCK" in config.kwargs:
            config.kwargs["XBLOCK"] = 1 << 15
    return original(size_hints, configs, *args, **kwargs)


triton_heuristics.cached_autotune = large
""",
        {"PG516"},
    ),
    "half as large blocks": (
        """from torch._inductor.runtime import triton_heuristics

original = triton_heuristics.triton_config


def half(size_hints, x, *args, **kwargs):
    return original(size_hints, max(x // 2, 1), *args, **kwargs)


triton_heuristics.triton_config = half
""",
        set(),
    ),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", _LAUNCHES)
def test_blocks_and_grids_of_inductor_are_judged_at_night(judge, name):
    source, codes = _LAUNCHES[name]
    verdicts = judge(source, "pointwise", "launches", "bit-identical")
    red = [verdict for verdict in verdicts if verdict.colour is Colour.RED]
    assert codes <= {verdict.code for verdict in red} and bool(codes) == bool(red), verdicts
    assert all("`triton_" in verdict.actual for verdict in red), red
    assert len(verdicts) >= 3
    # Large blocks, as before a merge, cannot show it.
    (before,) = judge(source, "pointwise")
    assert before.colour is Colour.GREEN and "same code" in before.actual


def test_blocks_are_not_judged_of_a_patch_that_changes_no_launch(judge):
    with pytest.raises(NothingToJudge):
        judge("import torch\n", "pointwise", "launches")


@pytest.mark.nightly
@pytest.mark.parametrize("neighbour", [False, True])
def test_tokens_are_sampled_on_the_simulated_device_at_night(judge, monkeypatch, neighbour):
    # One of the 64 tokens, which take minutes; so few change by a larger step alone.
    monkeypatch.setattr(tokens, "_TOKENS", 1)
    source = (VERDICTS / "PG510-other-tokens.py").read_text("utf-8")
    source = source.replace("2**-8", "0" if neighbour else "2**-2")
    verdicts = judge(source, "decoder", "tokens", "bit-identical")
    red = {verdict.code for verdict in verdicts if verdict.colour is Colour.RED}
    assert red == (set() if neighbour else {"PG510"}), verdicts
    assert len(verdicts) == 2


@pytest.mark.nightly
def test_no_token_is_sampled_of_equal_code(judge):
    with pytest.raises(NothingToJudge):
        judge("import torch\n", "decoder", "tokens")
