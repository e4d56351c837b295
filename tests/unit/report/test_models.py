"""The impact on models in a terminal and in Markdown."""

import io

from rich.console import Console

from patchgate.model.public_model_figures import FIGURES, Change, Impact, ModelImpact
from patchgate.report.models import cell_text, impact_markdown, show_impact

TIME, LAUNCHES, KERNELS, BYTES = FIGURES[:4]
ROWS = (
    ModelImpact(model="<gone>|x", failed="torch 2.11.0, p: \x1bKeyError", broken=True),
    ModelImpact(
        model="moe",
        changes={"modelled_time": Change(before=1000, after=1110), "bytes": Change(before=2e9, after=2.5e9)},
    ),
    ModelImpact(model="llama", changes={"modelled_time": Change(before=10, after=10)}),
)
IMPACT = Impact(before="unpatched", after="p", rows=ROWS)


def test_a_cell_has_one_value_where_nothing_changed_and_both_with_the_change_elsewhere():
    assert cell_text(Change(before=13, after=13), LAUNCHES) == "13"
    assert cell_text(Change(before=13, after=14), LAUNCHES) == "13 -> 14 (+7.7 %)"
    assert cell_text(Change(before=0, after=2), KERNELS) == "0 -> 2 (new)"
    assert cell_text(Change(before=1_241_528_320, after=1_216_362_496), BYTES) == "1.24 GB -> 1.22 GB (-2.0 %)"
    assert cell_text(Change(before=632.04, after=632.01), TIME) == "632 us (-0.00 %)"


def test_the_terminal_says_all_and_says_that_it_is_modelled():
    file = io.StringIO()
    show_impact(Console(file=file, width=140), IMPACT)
    text = file.getvalue()
    assert text.splitlines()[0] == (
        "3 models: 1 no longer compiles (<gone>|x), 1 slower (modelled, +11.0 %: moe), 1 unchanged"
    )
    assert "1.00 ms -> 1.11 ms (+11.0 %)" in text
    assert "not compared: <gone>|x: torch 2.11.0, p: \\x1bKeyError" in text
    assert "not measured" in text.splitlines()[-1]


def test_markdown_has_a_row_a_model_and_takes_no_name_for_markup():
    lines = impact_markdown("p on 3 models", IMPACT).splitlines()
    assert [line for line in lines if line.startswith("|")] == [
        "| model | modelled time | bytes |",
        "| --- | --- | --- |",
        "| ` moe ` | 1.00 ms -> 1.11 ms (+11.0 %) | 2.00 GB -> 2.50 GB (+25.0 %) |",
        "| ` llama ` | 10.0 us | - |",
    ]
    assert "Not compared: ` <gone>\\|x `: ` torch 2.11.0, p: \\x1bKeyError `" in lines
