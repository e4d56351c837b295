"""Figures of outputs that are not all finite: what is so on both sides is equal, and hides no other
element.
"""

from __future__ import annotations

import json
import subprocess
from math import inf
from pathlib import Path

from patchgate.inputs.devices import load_profile
from patchgate.inputs.workloads import load_workloads
from patchgate.model.serialization import Answer
from patchgate.runner.client import Runner, request_for
from patchgate.runner.run_settings import Run
from tests.torch.conftest import printed_by


def test_of_results_of_another_form_or_in_shared_memory_only_those_are_shown(
    torch: str, run: Run
) -> None:
    found = printed_by(run.rows[torch], "other_forms.py")
    assert found["alone"] == "output: float16[2], not float32[2]"
    assert found["one of three"] == "output 2 of 3: float16[2], not float32[2]"
    assert found["fewer"] == "output: 1 in place of 2 tensors"
    assert found["outputs of a graph"] == 0
    assert found["digits"] == "output: 1.0000001, not 1"
    assert found["order"][:6] == ["short", "long", "no program", "rounded", "integers", "NaN"]
    assert found["order"][6:] == ["garbage", "new_empty", "large"]
    # If torch breaks the graph, one compile for the first other size is no growth, nor is a break
    # that torch counts once.
    assert found["grown"][:4] == [""] + [
        f"with {each} size" for each in ("another", "a third", "another")
    ]
    assert found["grown"][4:] == ["with another size"] * 4
    assert found["grown for fewer"] == ["", "", "with two elements", "with three elements"]
    assert found["grown elsewhere"] == ["", "graphs", "breaks", "", "raises"]
    assert found["numbers"] == "with a third number"
    assert found["folded"] == [True, False, False, False]
    assert found["near"] == [True, False, False]
    assert found["small"] == [True, False, False, False]
    assert found["gross"] == [True, False, False, False]
    pairs = ("output 1 shares its memory with output 2", "output 2 shares its memory with input 2")
    assert [each.partition(":")[0] for each in found["shared"]] == [*pairs, ""]
    lost = "output 1 is stored in rows, not with channels last"
    assert found["layouts"] == [lost, "", "", "", ""]
    start = "def program(a):\n    x = a.exp()\n    return (x.sin(), torch.relu((m0 := (x + a))), "
    assert found["middle"] == [f"{start}x, m0)\n", f"{start}-x, -m0)\n"]
    assert found["without"] == []
    assert found["needs a device"] == [True, False, False]  # nothing is missing here
    assert found["of a compiler"] == "CppCompileError: C++ compile error: no x here"
    assert found["follows"] == [True, True, False]  # none kept, all kept, some kept
    assert found["drawn"]
    assert found["length"] < 250 < 2500 < found["values"]


def test_every_pair_of_functions_that_share_a_cache_sees_a_constant_key(
    torch: str, run: Run
) -> None:
    # A pass without a key keeps its functions out of the caches; files that threads write have
    # keys of their own.
    seen = [True] * 5 + [False] + [True] * 7 + [False]
    assert printed_by(run.rows[torch], "constant_keys.py") == {"seen": seen}


def test_programs_draw_the_same_numbers_in_each_process(torch: str, run: Run) -> None:
    """Kept results are those of another process: a sound patch was red for a number of numpy's."""
    found = printed_by(run.rows[torch], "drawn_apart.py")
    assert found["drawn"][0] == found["drawn"][1]
    assert found["kept"] == [True, True]


def test_samples_before_and_after_a_break_are_compiled(torch: str, run: Run) -> None:
    """On each Python: before, a loop around the calls was run in eager mode, and so were they."""
    found = printed_by(run.rows[torch], "broken_graph.py")
    assert found["next to a break"] == [["exp"], ["sum_1"], ["mul"], ["sin"]]
    assert found["without one"] == [["exp", "sin"]]
    assert found["attention"] == [2]
    assert found["counts"] == [[[2, 2], [0, 0]], [[1, 0]]]
    assert found["gradients"] == [True, True]  # the error has not left them off


def test_nothing_divides_the_smallest_integer_by_minus_one(torch: str, run: Run) -> None:
    """That ends the process, with torch's own code too."""
    found = printed_by(run.rows[torch], "smallest_integers.py")
    assert found["argmin"]
    assert found["abs"]
    assert {text for calls in found.values() for call in calls for text in call}.isdisjoint(
        {"tensor", "-1"}
    )


def test_many_random_calls_are_valid_and_all_are_the_same_each_time(torch: str, run: Run) -> None:
    found = printed_by(run.rows[torch], "random_calls.py")
    assert {key for key, holds in found.items() if holds} == {*found}


def test_comparisons_are_numbers_in_the_interpreter(torch: str, run: Run) -> None:
    """Triton's interpreter calls the result of a comparison by the type that was compared, so that
    its bytes were taken for such numbers.
    """
    profile = json.dumps(load_profile("h200"))
    found = printed_by(run.rows[torch], "comparisons_interpreted.py", profile)
    assert [name for name, equal in found["compared"].items() if not equal] == []
    assert found["dropout"] == [0.0, 1.3333]
    assert found["share"]
    assert found["counted"]


def test_what_is_not_finite_on_both_sides_is_equal(torch: str, run: Run) -> None:
    """If only one side is not finite, difference, ulps, error and worst element are infinite."""
    figures = printed_by(run.rows[torch], "not_finite.py")
    assert figures["words"] == [
        "1 of 3 elements differ; the first is finite, not NaN",
        "2 of 3 elements differ; the first is infinite, not finite",
        "",
    ]
    assert figures["equal"] == [0, 0, 0, 0]
    assert figures["one ulp"] == figures["one ulp alone"]
    assert figures["one ulp"][1] == 1
    # An element that eager mode loses is no leave to be wrong elsewhere.
    assert (figures["NaN in eager"]["error_eager"], figures["NaN in eager"]["worst_eager"]) == (
        0,
        0,
    )
    assert figures["NaN in eager"]["error_patched"] > 0.5
    assert [figures[name] for name in ("new NaN", "lost NaN", "other infinity")] == [[inf] * 4] * 3


# Outputs of more elements than any memory holds, which are one element.
ENDLESS = """
import sys
import torch
written = torch.load(sys.argv[1])
written["outputs"]["compiled"] = [torch.ones(1).expand(1 << 50)]
torch.save(written, sys.argv[2])
"""


def test_only_a_file_of_the_patched_side_that_cannot_be_compared_is_that_sides_fault(
    torch: str, run: Run, runner: Runner, tmp_path: Path
) -> None:
    files = {side: str(tmp_path / side) for side in ("unpatched", "patched")}
    cpu = load_profile("cpu")
    request = request_for(load_workloads()["residual_chain"], cpu, None)
    for path in files.values():
        runner.ask(torch, "run", seeds=[0], small=False, outputs=path, **request)

    def differ() -> Answer:
        return runner.ask(torch, "differ", profile=cpu, **files)

    assert (differ()["unreadable"], differ()["metrics"]["differing"]) == ("", 0)
    (tmp_path / "patched").write_bytes(b"none")
    assert differ()["unreadable"].startswith("UnpicklingError")
    subprocess.run([run.rows[torch], "-c", ENDLESS, *files.values()], check=True)
    assert "memory" in differ()["unreadable"]
    (tmp_path / "unpatched").write_bytes(b"none")
    assert differ()["failure"]["cause"] == "machine"
