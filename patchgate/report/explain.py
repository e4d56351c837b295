"""Explain a code, with an example from the corpus; render docs/verdicts.md, the page of all checks
and codes.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rich.console import Console
from rich.text import Text

from patchgate.checks.framework.find_checks import all_checks, every_code
from patchgate.inputs.toml import read_toml
from patchgate.model.files import read_text
from patchgate.model.paths import EXAMPLES, ROOT, display_path
from patchgate.model.records import Code
from patchgate.model.results import Example
from patchgate.model.serialization import from_dict, parse_json
from patchgate.report.next_commands import next_step
from patchgate.report.terminal import labelled

# The lines shown on each side of the place in the patch, and the most lines of a correction.
_AROUND, _CORRECTION = 2, 12


def show_code(console: Console, code: Code) -> None:
    """Print what a verdict code means, why it matters and how to fix it, with an example from the
    corpus if there is one.
    """
    console.print(Text(f"{code.code}  {code.title}", style="bold"))
    for label, text in (
        ("what", code.what),
        ("why", code.why),
        ("fix", next_step(code.fix, code.commands)),
        ("paste", code.paste),
    ):
        if text:
            console.print(labelled(label, text))
    example = example_of(code.code)
    if example:
        for label, text in _example_fields(example):
            console.print(labelled(label, text))


def example_of(code: str) -> Example | None:
    """The example with the shortest correction; without corrections, the shortest patch."""

    def length(example: Example) -> tuple[bool, int, str]:
        source, fixed = _source(_patch(example)), _corrected(example)
        lines = len(list(_changed_lines(source, _source(fixed)))) if fixed else len(source)
        return fixed is None, lines, example.case

    return min(
        (example for example in _examples() if example.code == code), key=length, default=None
    )


@cache
def _examples() -> tuple[Example, ...]:
    if not EXAMPLES.is_file():
        return ()
    data = parse_json(read_text(EXAMPLES, "install patchgate again"))
    return tuple(from_dict(Example, one, where=EXAMPLES.name) for one in data)


def _patch(example: Example) -> Path:
    """The file of the patch."""
    python = ROOT / example.case / "patch.py"
    return python if python.is_file() else python.with_suffix(".diff")


def _corrected(example: Example) -> Path | None:
    """The file of the patch in the corrected case, a folder whose name ends in `-fixed`; None if
    there is no such file.
    """
    path = _patch(example)
    fixed = path.parent.with_name(f"{path.parent.name}-fixed") / path.name
    return fixed if fixed.is_file() else None


def _source(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _example_fields(example: Example) -> Iterator[tuple[str, str]]:
    claims = read_toml(ROOT / example.case / "patch.toml")
    yield (
        "example",
        f"{claims.get('title', Path(example.case).name)} ({claims.get('source', example.case)})",
    )
    file, _, line = example.where.rpartition(":")
    if line.isdecimal() and (ROOT / file).is_file():
        place = f"{display_path(ROOT / file)}:{line}"
        yield "at", "\n".join([place, *_lines_around(_source(ROOT / file), int(line))])
    yield (
        "result",
        f"{example.text}" + (f"\nexpected: {example.expected}" if example.expected else ""),
    )
    fixed = _corrected(example)
    if fixed:
        changes = list(_changed_lines(_source(_patch(example)), _source(fixed)))
        more = [f"and {len(changes) - _CORRECTION} more"] * (len(changes) > _CORRECTION)
        yield "correct", "\n".join([display_path(fixed), *changes[:_CORRECTION], *more])


def _lines_around(lines: list[str], number: int) -> Iterator[str]:
    for at in range(max(1, number - _AROUND), min(len(lines), number + _AROUND) + 1):
        yield f"{'>' if at == number else ' '} {at:3} {lines[at - 1]}".rstrip()


def _changed_lines(before: list[str], after: list[str]) -> Iterator[str]:
    """Yield the removed and added lines, without blank lines and comments."""
    for line in difflib.ndiff(before, after):
        text = line[2:].strip()
        if line[0] in "+-" and text and not text.startswith(("#", '"""')):
            yield f"{line[0]} {line[2:]}".rstrip()


def render_catalogue() -> Iterator[str]:
    """Lines of the page of all checks and codes."""
    yield "# Every check and every code"
    yield ""
    yield (
        "Written by `patchgate explain --markdown`; a test compares it. A check is a file in "
        "`patchgate/checks`; its"
    )
    yield (
        "codes are explained below. `patchgate explain CODE` prints the same, with the lines of "
        "the example and its"
    )
    yield "correction."
    yield ""
    yield "| listed as | check | question | codes of its own |"
    yield "| --- | --- | --- | --- |"
    for check in all_checks().values():
        own = getattr(sys.modules[check.ask.__module__], "CODES", ())
        codes = " ".join(f"[{name}](#{name.lower()})" for name in sorted(each.code for each in own))
        yield f"| {check.family} | {check.name} | {check.question} | {codes} |"
    for code in every_code().values():
        fix = "; ".join(
            [code.fix.removesuffix(".") if code.commands else code.fix, *map(str, code.commands)]
        )
        yield from (
            "",
            f"## {code.code}",
            "",
            f"**{code.title[:1].upper()}{code.title[1:]}.** {code.what}",
            "",
            f"Why: {code.why}",
            "",
            f"Fix: {fix}",
        )
        if code.paste:
            yield from ("", "```python", *code.paste.splitlines(), "```")
        example = example_of(code.code)
        if example:
            place = f" at {example.where}" if example.where else ""
            yield from (
                "",
                f"Example: [{Path(example.case).name}](../{example.case}){place}: {example.text}",
            )
