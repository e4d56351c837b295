"""The view of a run in Markdown, for a job's summary and the comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator

from patchgate.model.policy import Colour
from patchgate.model.text import escape_control
from patchgate.report.causes import CauseGroup
from patchgate.report.last_lines import count_line
from patchgate.report.view import Block, MatrixCell, RunView

# At most this many entries and places of a block are shown. GitHub cuts a summary at a megabyte; a
# reader stops long before.
_ENTRIES, _PLACES = 50, 5
# Longer texts are cut to this many characters.
_LONGEST_TEXT = 300
#: Ends a part that GitHub shows on a click.
FOLD_END = "</details>"
_MARKS = {Colour.GREEN: "ok", Colour.RED: "**RED**", Colour.GREY: "?"}


def as_code(text: str) -> str:
    """A code span: no mention, link, image, reference or HTML works inside it."""
    text = escape_control(" ".join(text.split()))
    if not text:
        return ""
    text = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} ..."
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text.replace('|', chr(92) + '|')} {fence}"


def render_markdown(title: str, view: RunView) -> str:
    """The title, the counts and a row for each cause, with matrix, notes and blocks folded. One
    line if everything is green.
    """
    if view.lines and view.colour is Colour.GREEN and not view.quick_look:
        return f"✓ {as_code(title)} on torch {', '.join(view.torches)}: {count_line(view)}\n"
    mark = "✗ " * (view.colour is Colour.RED)
    lines = [f"### {mark}{as_code(title)} on torch {', '.join(view.torches)}", "", count_line(view)]
    if view.causes:
        lines += ["", table_row(["", "problem", "evidence", "fix"]), table_row(["---"] * 4)]
        lines += [table_row(_cause(number, group)) for number, group in enumerate(view.causes, 1)]
    lines += ["", "<details><summary>All checks and results</summary>", ""]
    lines += [table_row(["check", "item", *(f"torch {torch}" for torch in view.torches)])]
    lines += [table_row(["---"] * (2 + len(view.torches)))]
    for line in view.lines:
        lines.append(table_row([as_code(line.check), as_code(line.item), *map(_cell, line.cells)]))
    for heading, notes in view.notes:
        lines += [
            "",
            f"{heading[0].upper()}{heading[1:]}:",
            "",
            *(f"* {as_code(line)}" for line in notes),
        ]
    for block in view.blocks:
        lines += ["", *_block(block)]
    return "\n".join([*lines, "", FOLD_END]) + "\n"


def _cause(number: int, group: CauseGroup) -> list[str]:
    first = group.evidence
    on = f" on torch {first.torch}" if first.torch else ""
    evidence = f"{first.code} {as_code(first.subject)}{on}: {as_code(first.actual)}"
    costs = "".join(f"<br>{as_code(cost)}" for cost in group.costs)
    return [str(number), f"**{group.cause.sentence}**", f"{evidence}{costs}", as_code(first.advice)]


def table_row(cells: list[str]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def _cell(cell: MatrixCell | None) -> str:
    if cell is None:
        return "-"
    codes = "" if cell.colour is Colour.GREEN else " " + " ".join(cell.codes)
    return f"{_MARKS[cell.colour]} {cell.count}{codes}"


def _block(block: Block) -> Iterator[str]:
    judged = " (not judged)" if block.unjudged else ""
    yield f"### {block.code} {block.title}{judged}"
    yield ""
    yield table_row(["torch", as_code(block.check), "expected", "actual"])
    yield table_row(["---"] * 4)
    for entry in block.entries[:_ENTRIES]:
        texts = (entry.subject, entry.expected, entry.actual)
        yield table_row([", ".join(entry.torches), *map(as_code, texts)])
    if len(block.entries) > _ENTRIES:
        yield table_row(
            ["", f"and {len(block.entries) - _ENTRIES} more, all in verdicts.json", "", ""]
        )
    fields = [*(("Where", place) for place in block.places[:_PLACES]), ("Why", block.why)]
    for name, text in (*fields, *(("Next", step) for step in block.next)):
        yield f"\n{name}: {as_code(text)}"
