"""Three real runs in a terminal of 100 columns, word for word: a sound patch, vLLM #42686, a workload of one's own.

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
from patchgate.model.records import Workload, exit_code
from patchgate.report.coverage import answer_lines
from patchgate.report.terminal import show_run
from patchgate.report.view import view
from patchgate.runner.run import Run


def lines_of(name: str, *workloads: str, width: int = 100, color: bool = False) -> list[str]:
    """The lines that the run prints at its end."""
    stored = load_run(name)
    verdicts = stored.verdicts
    run = Run(folder="out", patch=name, rows=dict.fromkeys(stored.torches, "python"), workloads=workloads)
    seen, code = view(verdicts, run.torches), exit_code(verdicts)
    file = io.StringIO()
    known = load_workloads() | {one: Workload(name=one, path="", dtype="bfloat16") for one in workloads}
    console = Console(file=file, width=width, color_system="standard" if color else None, force_terminal=color)
    show_run(console, title_of(name), seen, answer_lines(run, verdicts, seen, known, code))
    # An expectation is ASCII: the rule of the table is dashes, and a line that was cut ends in a tilde.
    text = file.getvalue().replace("\N{BOX DRAWINGS LIGHT HORIZONTAL}", "-").replace("\N{HORIZONTAL ELLIPSIS}", "~")
    # How many workloads there are changes with every new one.
    return [re.sub(r"\b\d\d (other workloads|workloads that)", r"NN \1", line.rstrip()) for line in text.splitlines()]


def test_a_sound_patch():
    told = lines_of("sound", "pointwise", "prenorm_mlp")
    assert len(told) <= 25
    assert_expected_inline(
        "\n".join(told),
        """\
harmless Counts calls and changes nothing: what a patch must look like to pass
check   item                                                          2.11.0   2.12.1
-------------------------------------------------------------------------------------
all     machine, api, gate, kernels, graph, recompile, options, ...   197 ok   196 ok
replaces: torch._inductor.ir.StorageBox.should_realize_on_reuse (on torch 2.11.0, 2.12.1)

judged: 2 workloads on h200 (simulated), cpu (codegen); torch 2.11.0, 2.12.1
not judged: time and memory on a GPU (`--device cuda`); NN other workloads (this run has
`--workload`)
nothing red, 393 green; exit code 0""",
    )


def test_vllm_42686():
    told = lines_of("vllm-42686")
    assert len(told) <= 60
    assert_expected_inline(
        "\n".join(told),
        """\
vllm-42686 Cost model in StorageBox.should_realize_on_reuse https://github.com/vllm-project/vllm/pu~
check     item                                                         2.11.0            2.12.1
------------------------------------------------------------------------------------------------
gate      symptom                                                      ok 1              PG203 1
parity    decoder.cpu                                                  PG510 2           ok 2
          moe_routing.cpu                                              PG501 1           ok 3
          residual_chain.cpu                                           PG501 PG507 3     ok 7
compile   residual_chain.h200                                          PG601 1           ok 1
cache     residual_chain.cpu                                           PG701 2           ok 1
others    machine, api, gate, kernels, graph, recompile, shapes, ...   1268 ok, 2 grey   1264 ok
replaces: torch._inductor.ir.StorageBox.should_realize_on_reuse (on torch 2.11.0)
          nothing: the patch does not apply (on torch 2.12.1)
changes, as recorded: moe_routing.cpu on torch 2.11.0: bytes.total 42,614,880 -> 42,647,648
                      moe_routing.h200 on torch 2.11.0: loads [1 7 0 1] -> [1 3 7 0 1], kernels.cal~
                      residual_stack.h200 on torch 2.11.0: loads [2 1 3 4 5 6 4] -> [2 1 3 4 4 4], ~
PG621 slower by the model of the device: moe_routing.h200 modelled time on torch 2.11.0: +11.53%: m~
PG622 faster by the model of the device: residual_stack.h200 modelled time on torch 2.11.0: -0.83%:~

1. The version check is too narrow: the defect is present where the patch does not apply.
  PG203 gate symptom residual_stack.h200 loads.max > 4 on torch 2.12.1: loads.max 6, loads [2 1 3 4
        5 6 4] with and without the patch; recorded without the patch: present on 2.10.0 to 2.13.0,
        absent on 2.14.1 to 2.15.0
        expected: absent where the patch does not apply (applies_to = "==2.11.0", fixed_in = "2.12")
  where fixtures/patches/vllm-42686/patch.toml:3
     do Widen applies_to and the version check to cover 2.10.0 to 2.13.0, or correct the claim;
        then: nox -s gate -- fixtures/patches/vllm-42686

2. The patch changes the numbers by more than its manifest claims.
  PG510 parity decoder.cpu sampled tokens on torch 2.11.0: 1.6% of 4096 tokens change, 2 of 64
        sequences (0.9% to 10.7%); an exact-text test over 64 tokens would fail with probability
        3.2% (0.9% to 11.1%); an exact-text test over 1000 tokens ...
        expected: numerics = "bit-identical"
  where fixtures/patches/vllm-42686/patch.toml
     do If the change is acceptable, claim `numerics = "rounding"` in patch.toml and warn users who
        compare sampled text exactly. If not, correct the patch.
   also PG510 parity decoder.cpu greedy tokens on torch 2.11.0: 0.1% of 4096 tokens change, 3 of 64~
   also PG501 (2 times) parity residual_chain.cpu bits on torch 2.11.0: 34.6% of 49152 elements dif~
   also PG507 (2 times) parity residual_chain.cpu whole graph and pieces on torch 2.11.0: unpatched~

3. A compile cache does not distinguish patched from unpatched processes that share it.
  PG701 cache residual_chain.cpu patched after unpatched on torch 2.11.0: the unpatched code ran (FX
        graphs: 1 hit, 0 miss, 0 bypass; AOTAutograd: 1 hit, 0 miss, 0 bypass)
        expected: patched code, in a cache that was warmed unpatched
  where fixtures/patches/vllm-42686/patch.py
     do Add a digest of the patch's text to the cache key, as fixtures/patches/vllm-42686-corrected
        does (more: patchgate explain PG701)
   also PG701 cache residual_chain.cpu unpatched after patched on torch 2.11.0: the patched code ra~

4. With the patch, compiling costs more than its budget allows.
  PG601 compile residual_chain.h200 on torch 2.11.0: +16.490%: 482,929 unpatched, 562,563 patched;
        torch.utils._ordered_set +14,357, sympy.core.basic +9,474, sympy.core.numbers +6,972
        expected: Python calls of one compile within compile_calls = "0.1 %"
  where fixtures/patches/vllm-42686/patch.toml
     do Look at the modules whose calls grew. If you accept the cost, say so in patch.toml:
        [budgets] compile_calls = "0 % .. 2 %".

judged: 12 workloads on h200 (simulated), cpu (codegen); torch 2.11.0, 2.12.1
not judged: time and memory on a GPU (`--device cuda`); NN workloads that only `--nightly` judges
4 causes, 10 red verdicts, 2553 green, 2 grey notes; exit code 1""",
    )


def test_a_patch_on_a_workload_of_ones_own_is_judged_on_the_first_run():
    told = lines_of("own-workload", "gated_sum")
    assert len(told) <= 30
    assert_expected_inline(
        "\n".join(told),
        """\
fused_norm Realise what many blocks read
check     item                                                       2.11.0
----------------------------------------------------------------------------------
kernels   gated_sum.h200                                             PG301 8
others    machine, api, gate, kernels, graph, options, parity, ...   32 ok, 3 grey
replaces: torch._inductor.ir.StorageBox.should_realize_on_reuse (on torch 2.11.0)
new: 86 facts of gated_sum.cpu, gated_sum.h200 are the same with and without the patch and not
recorded yet; to record them: nox -s accept -- --reason '...'

1. The patch changes the graph or the generated code, and the change is not accepted.
  PG301 kernels gated_sum.h200 memory.peak on torch 2.11.0: 54583296
        expected: 21028864, as without the patch (nothing is recorded)
   cost worse: bytes of memory at the peak 21,028,864 -> 54,583,296 (+159.6%) (gated_sum.h200 on
        torch 2.11.0)
  where .patchgate/gate/code/gated_sum.h200.2.11.0.fused_norm.py
     do Compare the generated code below .patchgate/gate/code; if the change is meant: nox -s accept
        -- --reason '...'; if not, correct the patch and type: nox -s gate -- fused_norm --workload
        gated_sum
   also PG301 (7 times) kernels gated_sum.h200 lowering.ir_nodes on torch 2.11.0: 16

judged: 1 workload on h200 (simulated), cpu (codegen); torch 2.11.0
not judged: time and memory on a GPU (`--device cuda`); NN other workloads (this run has
`--workload`)
1 cause, 8 red verdicts, 32 green, 4 grey notes; exit code 1""",
    )


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("name", ["sound", "vllm-42686", "own-workload"])
def test_no_line_is_wider_than_the_terminal(name, width):
    assert max(map(len, lines_of(name, width=width))) <= width


def test_no_colour_where_the_user_wants_none(monkeypatch):
    assert any("\x1b[1;31m" in line for line in lines_of("vllm-42686", color=True))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not any("31m" in line for line in lines_of("vllm-42686", color=True))
