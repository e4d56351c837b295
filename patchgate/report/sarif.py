"""SARIF 2.1.0, for code scanning: findings of lint and verdicts of a gate have one writer."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from patchgate import __version__
from patchgate.model.records import Code, Colour, record
from patchgate.report.github import block_text, place_of

if TYPE_CHECKING:
    from patchgate.inputs.manifest import Patch
    from patchgate.report.view import RunView

# The address of these pages, as the workflow that runs patchgate knows it.
_DOCS = "PATCHGATE_DOCS"
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


@record
class Place:
    """A line of a file."""

    path: str  #: relative to the root of the repository
    line: int
    #: the first, and the one behind the last; None for the whole line
    columns: tuple[int, int] | None = None


@record
class SarifResult:
    """A message about a place."""

    code: str
    is_red: bool
    message: str
    place: Place
    subject: str = ""  #: what it is about, whatever the figures; empty: the message says it
    also: tuple[Place, ...] = ()  #: where the same holds


def render_sarif(codes: Iterable[Code], results: Iterable[SarifResult]) -> str:
    """One run. Its rules are the texts of the codes, with links if the address of the pages is
    known.
    """
    docs = os.environ.get(_DOCS, "").rstrip("/")
    rules = [
        {
            "id": code.code,
            "shortDescription": {"text": code.title},
            "fullDescription": {"text": f"{code.what} {code.why}"},
            "help": {
                "text": code.fix,
                "markdown": f"{code.what}\n\n**Why:** {code.why}\n\n**Fix:** {code.fix}",
            },
            **({"helpUri": f"{docs}/verdicts.md#{code.code.lower()}"} if docs else {}),
        }
        for code in codes
    ]
    driver = {"name": "patchgate", "version": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver | ({"informationUri": docs} if docs else {})},
        "results": [*map(_result, results)],
    }
    return json.dumps({"version": "2.1.0", "$schema": _SCHEMA, "runs": [run]}, indent=1) + "\n"


def _result(result: SarifResult) -> dict[str, object]:
    return {
        "ruleId": result.code,
        "level": "error" if result.is_red else "note",
        "message": {
            "text": result.message.replace("](", "] (")
        },  # not a link: SARIF has those in text
        "partialFingerprints": {"patchgate/v1": _fingerprint(result)},
        "locations": [_location(result.place)],
        "relatedLocations": [*map(_location, result.also)],
    }


def _fingerprint(result: SarifResult) -> str:
    """A fingerprint without the line number: an alert stays the same when the file above
    it grows.
    """
    what = result.subject or result.message
    return hashlib.sha256(
        "\0".join((result.code, result.place.path, what)).encode("utf-8", "replace")
    ).hexdigest()[:32]


def _location(place: Place) -> dict[str, object]:
    region = {"startLine": place.line}
    # Whatever bytes its names have.
    uri = quote(Path(place.path).as_posix(), errors="surrogateescape")
    if place.columns:
        region |= {"startColumn": place.columns[0], "endColumn": place.columns[1]}
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": uri},
            "region": region,
        }
    }


def verdict_results(view: RunView, patch: Patch, checkout: Path) -> Iterator[SarifResult]:
    """One result for each block that is not green."""
    for block in view.blocks:
        at: dict[str, Any] = place_of(block, view, patch.path, checkout)
        at = at or {"file": Path(patch.path).name, "line": 1}
        yield SarifResult(
            code=block.code,
            is_red=block.colour is Colour.RED,
            message=f"{block_text(block)}\n{'; '.join(block.next)}".strip(),
            subject=f"{patch.id} {block.entries[0].subject}",
            place=Place(path=at["file"], line=at["line"]),
        )


def codes_of(results: Iterable[SarifResult]) -> list[Code]:
    """The texts of the codes that the results have."""
    from patchgate.checks.framework.find_checks import (
        catalogue,
    )  # every check; lint has codes of its own

    return [catalogue()[name] for name in sorted({result.code for result in results})]
