"""Real runs in a terminal of 100 columns, word for word: sound, vLLM #42686, broken, one's own
workload.

benchmarks/report/stored holds their verdicts: what is not green in full, green verdicts as counts.
"""

from __future__ import annotations

import io
import re

import pytest
from expecttest import assert_expected_inline
from rich.console import Console

from benchmarks.report.stored import load_run, title_of
from patchgate.inputs.workloads import load_workloads
from patchgate.model.exit_code import exit_code
from patchgate.model.records import Workload
from patchgate.report.last_lines import answer_lines
from patchgate.report.terminal import show_run
from patchgate.report.view import view
from patchgate.runner.run_settings import Run


def lines_of(
    name: str, *workloads: str, width: int = 100, color: bool = False, results: tuple[str, ...] = ()
) -> list[str]:
    """The lines that the run prints at its end."""
    stored = load_run(name)
    verdicts = stored.verdicts
    run = Run(
        folder="out", patch=name, rows=dict.fromkeys(stored.torches, "python"), workloads=workloads
    )
    seen, code = view(verdicts, run.torches), exit_code(verdicts)
    file = io.StringIO()
    known = load_workloads() | {
        one: Workload(name=one, path="", dtype="bfloat16") for one in workloads
    }
    console = Console(
        file=file, width=width, color_system="standard" if color else None, force_terminal=color
    )
    show_run(console, title_of(name), seen, answer_lines(run, verdicts, seen, known, code, results))
    # An expectation is ASCII: the rule of the table is dashes, and a line that was cut ends in a
    # tilde.
    text = (
        file.getvalue()
        .replace("\N{BOX DRAWINGS LIGHT HORIZONTAL}", "-")
        .replace("\N{HORIZONTAL ELLIPSIS}", "~")
    )
    # How many workloads there are changes with every new one.
    return [
        re.sub(r"\b\d\d (other workloads|workloads that)", r"NN \1", line.rstrip())
        for line in text.splitlines()
    ]


def test_a_sound_patch():
    printed = lines_of("sound", "pointwise", "prenorm_mlp")
    assert len(printed) <= 25
    assert_expected_inline(
        "\n".join(printed),
        """\
harmless Counts calls and changes nothing: what a patch must look like to pass
check   item                                      2.11.0   2.12.1
-----------------------------------------------------------------
all     machine, api, gate, kernels, graph, ...   197 ok   196 ok
replaces: torch._inductor.ir.StorageBox.should_realize_on_reuse (on torch 2.11.0, 2.12.1)

judged: 2 workloads on h200 (simulated), cpu (codegen); torch 2.11.0, 2.12.1
not judged: time and memory on a GPU (`--device cuda`); NN workloads that only `--nightly` judges
nothing red, 393 green; exit code 0""",
    )


def test_vllm_42686():
    printed = lines_of("vllm-42686")
    assert len(printed) <= 60
    assert_expected_inline(
        "\n".join(printed),
        """\
vllm-42686 Cost model in StorageBox.should_realize_on_reuse
https://github.com/vllm-project/vllm/pull/42686 (reverted by #42913: changed outputs)
check     item                                      2.11.0          2.12.1 (does not apply)
-------------------------------------------------------------------------------------------
gate      symptom                                   ok 1            PG203 1
parity    decoder.cpu                               PG510 2         ok 1
          moe_routing.cpu                           PG501 1         ok 1
          residual_chain.cpu                        PG501 PG507 3   ok 1
compile   residual_chain.h200                       PG601 1         ok 1
cache     residual_chain.cpu                        PG701 2         ok 1
others    machine, api, gate, kernels, graph, ...   1268 ok         1239 ok
replaces: torch._inductor.ir.StorageBox.should_realize_on_reuse (on torch 2.11.0)
the report also has 3 accepted changes

1. Outputs change more than the patch claims (by default in no bit): tests of exact text can fail.
  PG510 decoder.cpu sampled tokens on torch 2.11.0: 1.6% of 4096 change, 2 of 64 sequences (0.9% to
        10.7%); probability that an exact-text test fails: 3.2% (0.9% to 11.1%) over 64 tokens,
        39.6% (12.9% to 84.1%) over 1000 tokens; expected: numerics = "bit-identical" (by default)
  where fixtures/patches/vllm-42686/patch.toml
     do If the change is acceptable, claim `numerics = "rounding"` in patch.toml and warn users who
        compare sampled text exactly. If not, correct the patch.
   also PG510 decoder.cpu greedy tokens: 0.1% of 4096 change, 3 of 64 sequences (1.6% to 12.9%)
        PG501 residual_chain.cpu bits: 34.6% of 49152 elements differ bit for bit
        PG501 moe_routing.cpu bits: 27.2% of 3096 elements differ bit for bit
        PG507 residual_chain.cpu whole graph and pieces: 51.6% -> 51.8% of the elements differ
        PG507 residual_chain.cpu batch and single rows: 0.0% -> 33.1% of the elements differ

2. The version check is too narrow: users of other releases still have the defect.
  PG203 symptom residual_stack.h200 loads.max > 4 on torch 2.12.1: loads.max 6, loads [2 1 3 4 5 6
        4] with and without the patch; recorded without the patch: defect present on 2.10.0 to
        2.13.0 (patch needed), absent on 2.14.1 to 2.15.0; 2.14.0: not recorded; expected: absent
        where the patch does not apply; claimed: applies_to = "==2.11.0", fixed_in = "2.12"
  where fixtures/patches/vllm-42686/patch.toml:3: applies_to = "==2.11.0"
     do The patch is needed on 2.10.0 to 2.13.0: let applies_to and the version check at patch.py:41
        cover it, or correct the claim; then: nox -s gate -- fixtures/patches/vllm-42686

3. With the patch, a compile cache gives the wrong code, or none.
  PG701 residual_chain.cpu patched after unpatched on torch 2.11.0: the unpatched code ran; FX
        graphs: 1 hit; AOTAutograd: 1 hit; expected: patched code
  where fixtures/patches/vllm-42686/patch.py:42
     do Add a digest of the patch's text to the cache key, as fixtures/patches/vllm-42686-corrected
        does (more: patchgate explain PG701)
   also PG701 residual_chain.cpu unpatched after patched: the patched code ran

4. With the patch, compiling costs more than its budget allows.
  PG601 residual_chain.h200 on torch 2.11.0: 483,298 -> 562,800 Python calls (+16.450%);
        torch.utils._ordered_set +14,357, sympy.core.basic +9,474; expected: compile_calls = "0.1 %"
  where fixtures/patches/vllm-42686/patch.toml
     do Reduce the calls, or accept them in patch.toml: [budgets] compile_calls = "0 % .. 17 %".

judged: 13 workloads on h200 (simulated), cpu (codegen); torch 2.11.0, 2.12.1
not judged: time and memory on a GPU (`--device cuda`); NN workloads that only `--nightly` judges
1. PG510 patch.toml   sampled tokens change: decoder.cpu sampled tokens: 1.6% of 4096 change, 2 of ~
2. PG203 patch.toml:3 version check too narrow: symptom residual_stack.h200 loads.max > 4: loads.ma~
3. PG701 patch.py:42  stale cached code hides the patch: residual_chain.cpu patched after unpatched~
4. PG601 patch.toml   compiling costs more than its budget: residual_chain.h200: 483,298 -> 562,800~
4 causes, 10 red results, 2519 green; exit code 1""",
    )


def test_a_patch_on_a_workload_of_ones_own_is_judged_on_the_first_run():
    printed = lines_of("own-workload", "gated_sum")
    assert len(printed) <= 30
    assert_expected_inline(
        "\n".join(printed),
        """\
fused_norm Realise what many blocks read
check     item                                      2.11.0
-----------------------------------------------------------------
kernels   gated_sum.h200                            PG301 8
others    machine, api, gate, kernels, graph, ...   32 ok, 3 grey
replaces: torch._inductor.ir.StorageBox.should_realize_on_reuse (on torch 2.11.0)
new: 86 facts of gated_sum.cpu, gated_sum.h200 that the patch does not change are not recorded yet;
they are recorded together with the changes of cause 1, by its command

1. The patch changes the graph or the generated code, and the change is not accepted.
  PG301 gated_sum.h200 on torch 2.11.0: memory.peak 21,028,864 -> 54,583,296, lowering.ir_nodes 11
        -> 16, lowering.realized 11 -> 16, lowering.realized_by.mark_reuse 3 -> 1 and 4 more in the
        report (none is recorded)
   cost worse: bytes of memory at the peak 21,028,864 -> 54,583,296 (+159.6%) (gated_sum.h200 on
        torch 2.11.0)
  where .patchgate/gate/code/gated_sum.h200.2.11.0.fused_norm.py
     do Compare the generated code below .patchgate/gate/code; if the change is meant: nox -s accept
        -- --reason '...'; if not, correct the patch and type: nox -s gate -- fused_norm --workload
        gated_sum

judged: 1 workload on h200 (simulated), cpu (codegen); torch 2.11.0
not judged: time and memory on a GPU (`--device cuda`); NN workloads that only `--nightly` judges
1. PG301 gated_sum.h200.2.11.0.fused_norm.py kernel facts changed: gated_sum.h200: memory.peak 21,0~
1 cause, 8 red results, 32 green, 4 grey notes; exit code 1""",
    )


def test_a_patch_that_reads_a_missing_attribute_has_one_cause_at_its_line():
    printed = lines_of("broken", "residual_stack")
    assert len(printed) <= 40
    assert_expected_inline(
        "\n".join(printed),
        """\
PG103-missing-attribute Reads a missing attribute
check     item                                 2.11.0
------------------------------------------------------
api       attribute                            PG103 1
gate      plain run                            PG226 1
kernels   residual_stack.cpu                   PG301 1
          residual_stack.h200                  PG301 1
parity    residual_stack.cpu                   PG504 1
reach     calls                                PG809 1
others    machine, api, gate, options, reach   14 ok

1. The patch uses private names that this torch does not have, or that take other arguments.
  PG103 attribute StorageBox.reads_per_user on torch 2.11.0: no such attribute on
        torch._inductor.ir.StorageBox; expected: exists
  where fixtures/verdicts/PG103-missing-attribute.py:9
        return self.reads_per_user() > 4 or original(self, *args, **kwargs)
                    ^^^^^^^^^^^^^^
     do Use the name that this release has, guard the access, or narrow `applies_to`.
   also PG504 residual_stack.cpu: patched: AttributeError: 'StorageBox' object has no attribute
        'reads_per_user', during `run`
        PG301 residual_stack.cpu compiles, residual_stack.h200 compiles: patched: AttributeError:
        'StorageBox' object has no attribute 'reads_per_user', during `inductor`

not judged: PG226 not compared with a user's script: plain run on torch 2.11.0: with the patch
residual_stack does not compile or run: AttributeError: 'StorageBox' object has no attribute
'reads_per_user'
  next: Correct that failure first; then this is compared.
not judged: PG809 reach could not be judged: calls on torch 2.11.0: no workload compiles with the
patch
  next: Read the failure, and run the gate again.
judged: 1 workload on h200 (simulated), cpu (codegen); torch 2.11.0
not judged: time and memory on a GPU (`--device cuda`); NN workloads that only `--nightly` judges
1. PG103 PG103-missing-attribute.py:9 attribute used by the patch is missing: attribute StorageBox.~
1 cause, 4 red results, 14 green, 2 not judged; exit code 1""",
    )


def test_the_problems_are_the_end_of_the_output():
    *last, files, answer = lines_of("vllm-42686", results=("out/report.html",))[-12:]
    listed = [line.split()[1] for line in last[-4:]]
    assert listed == ["PG510", "PG203", "PG701", "PG601"]
    assert (files, answer) == (
        "results: out/report.html",
        "4 causes, 10 red results, 2519 green; exit code 1",
    )


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("name", ["sound", "vllm-42686", "broken", "own-workload"])
def test_no_line_is_wider_than_the_terminal(name, width):
    assert max(map(len, lines_of(name, width=width))) <= width


def test_no_colour_where_the_user_wants_none(monkeypatch):
    assert any("\x1b[1;31m" in line for line in lines_of("vllm-42686", color=True))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not any("31m" in line for line in lines_of("vllm-42686", color=True))
