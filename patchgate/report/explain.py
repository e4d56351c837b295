"""What a verdict code means, in a terminal, and all checks and codes as the page docs/verdicts.md."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from patchgate.checks.codes import every_code
from patchgate.checks.registry import all_checks
from patchgate.model.records import Code
from patchgate.report.commands import next_step
from patchgate.report.terminal import labelled


def show_code(console: Console, code: Code) -> None:
    """Print what a verdict code means, why it matters, how to fix it."""
    console.print(Text(f"{code.code}  {code.title}", style="bold"))
    for label, text in (("what", code.what), ("why", code.why), ("fix", next_step(code.fix, code.commands))):
        console.print(labelled(label, text))


def render_catalogue() -> Iterator[str]:
    """Lines of docs/verdicts.md."""
    yield "# Every check and every verdict code"
    yield ""
    yield "Written by `patchgate explain --markdown`; a test keeps it so. A check is a file in `patchgate/checks`; its"
    yield "codes are explained below; `patchgate explain CODE` says the same."
    yield ""
    yield "| listed as | check | question |"
    yield "| --- | --- | --- |"
    for check in all_checks().values():
        yield f"| {check.family} | {check.name} | {check.question} |"
    for code in every_code().values():
        fix = "; ".join([code.fix, *map(str, code.commands)])
        yield from ("", f"## {code.code} {code.title}", "", code.what, "", f"Why: {code.why}", "", f"Fix: {fix}")
