"""The view as Markdown, for a pull request or a job's summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from patchgate.model.records import Colour
from patchgate.model.text import escape_control
from patchgate.report.view import Block, MatrixCell, RunView

# Entries and places of a block. GitHub cuts a summary off at a megabyte; a reader long before.
_ENTRIES, _PLACES = 50, 5
_MARKS = {Colour.GREEN: "ok", Colour.RED: "**RED**", Colour.GREY: "?"}


def escape(text: str) -> str:
    """Text that neither a table nor HTML takes for markup."""
    return escape_control(" ".join(text.splitlines())).replace("|", "\\|").replace("<", "&lt;")


def render_markdown(title: str, view: RunView, quote: Callable[[str], str] = escape) -> str:
    """Title, summary, matrix and blocks; `quote` makes plain text of what a patch or torch has said."""
    lines = [f"## {quote(title)}", "", view.summary, ""]
    for number, group in enumerate(view.causes, 1):
        first = group.evidence
        on = f" on torch {first.torch}" if first.torch else ""
        evidence = f"{first.code} {quote(first.subject)}{on}: {quote(first.actual)}"
        lines += [
            f"{number}. **{group.cause.sentence}**",
            f"   {evidence}",
            *(f"   {quote(cost)}" for cost in group.costs),
        ]
    lines += [""] if view.causes else []
    lines += [table_row(["check", "item", *(f"torch {torch}" for torch in view.torches)])]
    lines += [table_row(["---"] * (2 + len(view.torches)))]
    lines += [
        table_row([quote(line.check), quote(line.item), *(_cell(cell) for cell in line.cells)]) for line in view.lines
    ]
    for heading, notes in view.notes:
        lines += ["", f"{heading[0].upper()}{heading[1:]}:", "", *(f"* {quote(line)}" for line in notes)]
    for block in view.blocks:
        lines += ["", *_block(block, quote)]
    return "\n".join(lines) + "\n"


def table_row(cells: list[str]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def _cell(cell: MatrixCell | None) -> str:
    if cell is None:
        return "-"
    codes = "" if cell.colour is Colour.GREEN else " " + " ".join(cell.codes)
    return f"{_MARKS[cell.colour]} {cell.count}{codes}"


def _block(block: Block, quote: Callable[[str], str]) -> Iterator[str]:
    judged = " (not judged)" if block.unjudged else ""
    yield f"### {block.code} {block.title}{judged}"
    yield ""
    yield table_row(["torch", quote(block.check), "expected", "actual"])
    yield table_row(["---"] * 4)
    for entry in block.entries[:_ENTRIES]:
        yield table_row([", ".join(entry.torches), quote(entry.subject), quote(entry.expected), quote(entry.actual)])
    if len(block.entries) > _ENTRIES:
        yield table_row(["", f"and {len(block.entries) - _ENTRIES} more, all in verdicts.json", "", ""])
    fields = [*(("Where", place) for place in block.places[:_PLACES]), ("Why", block.why)]
    for name, text in (*fields, *(("Next", step) for step in block.next)):
        yield f"\n{name}: {quote(text)}"
