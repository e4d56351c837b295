"""The table of modelled against measured changes: what counts as right, and what as no sign."""

import json
import re

import pytest

from benchmarks.modelled_time.table import Pair, load_lines, rank_correlation, render
from patchgate.model.budgets import MODEL_TELLS
from patchgate.model.paths import ROOT
from patchgate.probe.protocol import Launch


def pair(modelled, measured, *, fitted=False, steady=True, change="combo kernels"):
    return Pair(block="llama", change=change, fitted=fitted, modelled=modelled, measured=measured, steady=steady)


def launch(size):
    return [{"bytes": size, "dtype": ""}.get(name, 0) for name in Launch.__annotations__]


def line(**more):
    launches = {"unpatched": [launch(10**9)], "no pattern matcher": [launch(2 * 10**9)]}
    changes = {"no pattern matcher": {"us": [1, 2], "ratios": [1.5, 0.9, 0.8]}, "same": {"us": [1, 1], "ratios": [1.0]}}
    block = {"block": "llama", "fitted": True, "changes": changes | {"combo kernels": None}, "launches": launches}
    return json.dumps(block | more)


def test_a_line_gives_a_pair_for_each_change_that_was_measured():
    other = json.dumps({"block": "bert", "failed": "out of memory", "fitted": True})
    (made,) = load_lines(f"some warning\n{line()}\n{other}\n")
    assert (made.change, made.fitted, made.steady) == ("no pattern matcher", True, False)
    assert made.modelled == pytest.approx(1, abs=0.01)
    assert made.measured == pytest.approx(-0.1)


@pytest.mark.parametrize(("other", "rank"), [([1, 2, 3], 1), ([3, 2, 1], -1), ([2, 2, 2], 0)])
def test_the_rank_correlation_is_spearmans(other, rank):
    pairs = [pair(one, two) for one, two in zip([10, 20, 90], other, strict=True)]
    assert rank_correlation(pairs) == pytest.approx(rank)


def test_the_table_counts_each_half_by_itself_and_names_the_misses():
    pairs = [
        pair(0.04, 0.02, fitted=True),
        pair(0.0, 0.02, fitted=True, change="none"),
        pair(0.04, -0.02, change="wrong"),
        pair(0.04, 0.002, change="little"),
        pair(0.04, 0.02, steady=False, change="unsteady"),
    ]
    lines = render(pairs).splitlines()
    assert lines[2].startswith("| the model was made on | 2 | 2 | 1 | 1 | 0 |")
    assert lines[3].startswith("| it had not seen | 3 | 1 | 0 | 0 | 1 |")
    assert "| 2 % | 1 of 1 | 2 of 3 |" in lines
    notes = {row.split(" | ")[1]: row.split(" | ")[-1].strip(" |") for row in lines if row.startswith("| llama")}
    assert notes == {
        "combo kernels": "",
        "none": "no sign",
        "wrong": "wrong",
        "little": "",
        "unsteady": "repeats disagree",
    }


def test_the_page_has_the_table_of_the_stored_run_by_the_model_as_it_is():
    pairs = load_lines((ROOT / "benchmarks" / "modelled_time" / "h200.jsonl").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "modelled-time.md").read_text(encoding="utf-8")
    assert all(part in page for part in re.split(r"\n\n", render(pairs).strip()))
    beyond = [pair for pair in pairs if abs(pair.modelled) > MODEL_TELLS]
    assert len(beyond) >= 10
    assert sum(pair.right for pair in beyond) >= 0.9 * len(beyond)
