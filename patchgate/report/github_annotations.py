"""Annotations on GitHub at the lines of a pull request. An annotation is a workflow command; each
block that is not green gets one annotation.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from patchgate.model.policy import Colour
from patchgate.model.text import escape_control

if TYPE_CHECKING:
    from patchgate.report.view import Block, RunView

# The output of a patch may look like a workflow command. Commands are switched off while it is
# printed, and only this word switches them on again.
_WORD = os.urandom(16).hex()
_PLACE = re.compile(r"(.+?)(?::(\d+))?")


def is_github() -> bool:
    """True in a job on GitHub, where the runner reads the printed lines."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def commands_end(end: bool) -> str:
    """The line that switches GitHub's commands off or, at the end, on again."""
    return f"::stop-commands::{_WORD}" if end else f"::{_WORD}::"


def among_commands(lines: Iterable[str]) -> str:
    """Join lines that are commands. On GitHub, commands are switched on before the lines and off
    after them.
    """
    return "\n".join([commands_end(False), *lines, commands_end(True)] if is_github() else lines)


def annotation(kind: str, text: str, **properties: str | int) -> str:
    """`::error file=...,line=...::text`; `kind` is error, warning or notice."""
    escaped = {name: _escape_data(str(value)) for name, value in properties.items()}
    pairs = (
        f"{name}={value.replace(':', '%3A').replace(',', '%2C')}" for name, value in escaped.items()
    )
    return f"::{kind} {','.join(pairs)}::{_escape_data(text)}"


def render_annotations(view: RunView, patch: str, checkout: Path) -> Iterator[str]:
    """One annotation for each block that is not green."""
    for block in view.blocks:
        kind = "error" if block.colour is Colour.RED else "warning"
        place = place_of(block, view, patch, checkout)
        text = "\n".join((block_text(block), *(f"fix: {step}" for step in block.next[:1])))
        yield annotation(kind, text, **place, title=f"{block.code} {block.title}")


def place_of(block: Block, view: RunView, patch: str, checkout: Path) -> dict[str, str | int]:
    """The block's first place, if it has a line; otherwise the first place in the file `patch` that
    any block names, or the first line of `patch`. Empty if all of these lie outside the checkout.
    """
    lines = [place for each in view.blocks for place in each.places if place_in(checkout, place)]
    own = Path(patch).resolve()
    of_patch = [place for place in lines if Path(place.rpartition(":")[0]).resolve() == own]
    first = [place for place in block.places[:1] if re.search(r":\d+$", place)]
    places = (place_in(checkout, place) for place in (*first, *of_patch, patch))
    return next(filter(None, places), {})


def block_text(block: Block) -> str:
    """The first entry of a block on one line, and the number of further entries."""
    first, more = block.entries[0], len(block.entries) - 1
    on = f" on torch {', '.join(first.torches)}" if first.torches else ""
    text = f"{first.subject}{on}: {first.actual} (expected: {first.expected})"
    return f"{text}\nand {more} more like it" if more else text


def place_in(checkout: Path, text: str) -> dict[str, str | int]:
    """The file, relative to the checkout, and the line of `file:line`; empty if the checkout does
    not contain the file.
    """
    place = _PLACE.fullmatch(text)
    if place is None:
        return {}
    try:
        path = Path(place[1]).resolve()
    except ValueError:  # no file has such a name
        return {}
    if not path.is_file() or not path.is_relative_to(checkout):
        return {}
    return {"file": path.relative_to(checkout).as_posix(), "line": int(place[2] or 1)}


def _escape_data(text: str) -> str:
    return escape_control(text).replace("%", "%25").replace("\n", "%0A")
