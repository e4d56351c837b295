"""The impact on models in a terminal and in Markdown."""

import io

from rich.console import Console

from patchgate.model.public_model_figures import BYTES, FIGURES, Change, Impact, ModelImpact
from patchgate.report.models import cell_text, impact_markdown, show_impact

LAUNCHES, KERNELS = FIGURES[:2]
ROWS = (
    ModelImpact(model="<gone>|x", failed="torch 2.11.0, p: \x1bKeyError", broken=True),
    ModelImpact(
        model="moe",
        changes={
            "launches": Change(before=100, after=111),
            "bytes": Change(before=2e9, after=2.5e9),
        },
    ),
    ModelImpact(model="llama", changes={"launches": Change(before=10, after=10)}),
)
IMPACT = Impact(before="unpatched", after="p", rows=ROWS)


def test_a_cell_has_one_value_where_nothing_changed_and_both_with_the_change_elsewhere():
    assert cell_text(Change(before=13, after=13), LAUNCHES) == "13"
    assert cell_text(Change(before=13, after=14), LAUNCHES) == "13 -> 14 (+7.7 %)"
    assert cell_text(Change(before=0, after=2), KERNELS) == "0 -> 2 (new)"
    assert (
        cell_text(Change(before=1_241_528_320, after=1_216_362_496), BYTES)
        == "1.24 GB -> 1.22 GB (-2.0 %)"
    )
    assert cell_text(Change(before=632_040_000, after=632_010_000), BYTES) == "632 MB (-0.00 %)"


def test_the_terminal_says_all():
    file = io.StringIO()
    show_impact(Console(file=file, width=140), IMPACT)
    text = file.getvalue()
    assert text.splitlines()[0] == (
        "3 models: 1 no longer compiles (<gone>|x), 1 with more bytes moved (+25.0 %: moe), 1 "
        "unchanged"
    )
    assert "100 -> 111 (+11.0 %)" in text
    assert "not compared: <gone>|x: torch 2.11.0, p: \\x1bKeyError" in text
    assert text.splitlines()[-1] == "unpatched -> p"


def test_markdown_has_a_row_a_model_and_takes_no_name_for_markup():
    lines = impact_markdown("p on 3 models", IMPACT).splitlines()
    assert [line for line in lines if line.startswith("|")] == [
        "| model | launches | bytes |",
        "| --- | --- | --- |",
        "| ` moe ` | 100 -> 111 (+11.0 %) | 2.00 GB -> 2.50 GB (+25.0 %) |",
        "| ` llama ` | 10 | - |",
    ]
    assert "Not compared: ` <gone>\\|x `: ` torch 2.11.0, p: \\x1bKeyError `" in lines
