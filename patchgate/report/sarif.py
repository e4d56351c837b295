"""Write findings of lint and verdicts of a gate as SARIF 2.1.0, for code scanning."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from patchgate import __version__
from patchgate.model.policy import Colour
from patchgate.model.records import Code, record
from patchgate.report.github_annotations import block_text, place_of

if TYPE_CHECKING:
    from patchgate.inputs.manifest import Patch
    from patchgate.report.view import RunView

# The environment variable in which a workflow gives the address of the documentation.
_DOCS = "PATCHGATE_DOCS"
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
Result = dict[str, Any]


@record
class Place:
    """A line of a file."""

    path: str  #: relative to the root of the repository
    line: int
    #: the first column, and the column after the last; None for the whole line
    columns: tuple[int, int] | None = None


def render_sarif(codes: Iterable[Code], results: Iterable[Result]) -> str:
    """A SARIF file of one run. Its rules are the texts of the codes, with links if the address of
    the documentation is known.
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
        "results": [*results],
    }
    return json.dumps({"version": "2.1.0", "$schema": _SCHEMA, "runs": [run]}, indent=1) + "\n"


def sarif_result(
    code: str,
    message: str,
    place: Place,
    *,
    is_red: bool,
    subject: str = "",
    also: Iterable[Place] = (),
) -> Result:
    """A result: a message about `place` that also holds at the places in `also`.

    `subject` takes the place of the message in the fingerprint, because it has no figures. The
    fingerprint has no line number, so an alert stays the same when lines are added above it.
    """
    identity = "\0".join((code, place.path, subject or message)).encode("utf-8", "replace")
    return {
        "ruleId": code,
        "level": "error" if is_red else "note",
        "message": {"text": message.replace("](", "] (")},  # `](` begins the address of a link
        "partialFingerprints": {"patchgate/v1": hashlib.sha256(identity).hexdigest()[:32]},
        "locations": [_location(place)],
        "relatedLocations": [*map(_location, also)],
    }


def _location(place: Place) -> dict[str, object]:
    region = {"startLine": place.line}
    # The names of folders and files may have any bytes.
    uri = quote(Path(place.path).as_posix(), errors="surrogateescape")
    if place.columns:
        region |= {"startColumn": place.columns[0], "endColumn": place.columns[1]}
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": uri},
            "region": region,
        }
    }


def verdict_results(view: RunView, patch: Patch, checkout: Path) -> Iterator[Result]:
    """One result for each block that is not green."""
    for block in view.blocks:
        at: dict[str, Any] = place_of(block, view, patch.path, checkout)
        at = at or {"file": Path(patch.path).name, "line": 1}
        yield sarif_result(
            block.code,
            f"{block_text(block)}\n{'; '.join(block.next)}".strip(),
            Place(path=at["file"], line=at["line"]),
            is_red=block.colour is Colour.RED,
            subject=f"{patch.id} {block.entries[0].subject}",
        )


def codes_of(results: Iterable[Result]) -> list[Code]:
    """The codes of the results, each once."""
    from patchgate.checks.framework.find_checks import (
        catalogue,
    )  # every check; lint has codes of its own

    return [catalogue()[name] for name in sorted({result["ruleId"] for result in results})]
