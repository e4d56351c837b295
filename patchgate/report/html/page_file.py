"""A page as one HTML file that needs no network: it contains template, style, script and data.

The template escapes foreign text. The data is JSON without `<`, so that no `</script>` in it can
end its element. The page's policy allows only this style and this script, and no request. Jinja is
imported only when a page is written, because that takes as long as the rest of the command.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cache, partial
from importlib import resources
from typing import TYPE_CHECKING
from urllib.parse import quote

from patchgate.checks.framework.find_checks import title_of
from patchgate.checks.latency import budget_of
from patchgate.checks.symptom import recorded_symptom
from patchgate.inputs.manifest import Patch
from patchgate.model.paths import GOLDEN
from patchgate.model.results import Regressions, RunVerdicts, VerdictKey
from patchgate.model.statistics import Interval
from patchgate.report.html.latency_plot import draw_flips, draw_latency
from patchgate.report.html.page_data import COLOURS, Address, Page
from patchgate.report.last_lines import count_line
from patchgate.report.next_commands import typed
from patchgate.report.source_lines import lines_at
from patchgate.report.view import step_text, verdict_text

if TYPE_CHECKING:
    from jinja2 import Environment

_FILES = resources.files("patchgate.report.html") / "assets"
# In the order of their dependencies.
_STYLES = ("report.css", "matrix.css")
_SCRIPTS = ("elements.js", "records.js", "plots.js", "matrix.js", "evidence.js", "start.js")
# Lines of the patch's source that are shown before and after a place.
_AROUND = 2
# The letter for the colour of a cell in one run; "-" if the run did not have the cell.
_LETTERS = {"green": "g", "grey": "?", "red": "r"}
_WORST_LAST = "-g?r"

# Escape sequences, and characters that reverse the direction of a text, which a patch may print.
_INVISIBLE = {
    code: chr(code).encode("unicode_escape").decode()
    for code in (*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    if chr(code) not in "\n\t\r"
}


def render_html(
    title: str, page: Page, *, at: str, code: int, regressions: Regressions | None = None
) -> str:
    """The whole file. `at` is the time of the judgement, `code` the exit code; `regressions` are
    given for a sweep only.
    """
    views = page.views
    colours = colours_over_runs(regressions.runs) if regressions else {}
    return render_page(
        "report.html",
        title=title,
        at=at,
        code=code,
        views=views,
        colours=COLOURS,
        marks={shown.colour: shown.mark for shown in COLOURS},
        regressions=regressions,
        note=page.note,
        made_by=page.made_by,
        releases=_releases(views[0][0]) if len(views) == 1 else [],
        figures=list(_figures(page, with_patch=len(views) > 1)),
        # The keys are the parts of an address, not escaped.
        data=embedded(
            {**page.data, "turns": {"\n".join(cell): marks for cell, marks in colours.items()}}
        ),
    )


def _releases(patch: Patch) -> list[tuple[str, str, bool]]:
    """(release, "present", "absent" or "unknown", True if the patch claims to apply), for a patch
    with a recorded symptom.
    """
    symptom = patch.claims.symptom
    words = {True: "present", False: "absent", None: "unknown"}
    recorded = recorded_symptom(symptom, GOLDEN) if symptom else {}
    return [(torch, words[there], patch.is_claimed(torch)) for torch, there in recorded.items()]


def render_page(template: str, **contents: object) -> str:
    """One of the `templates` with its contents, style and script."""
    page = _templates().get_template(template).render(contents)
    return page.translate(_INVISIBLE)


@cache
def _templates() -> Environment:
    """The environment that renders the templates.

    Text is escaped unless the template marks it as our own (`safe`).
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    files = PackageLoader("patchgate.report.html")
    environment = Environment(
        loader=files,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "address": address,
        "cell_address": cell_address,
        "counts": count_line,
        "flips": draw_flips,
        "lines_at": partial(lines_at, around=_AROUND),
        "sentence": verdict_text,
        "step": step_text,
        "title_of": title_of,
        "typed": typed,
    }
    style, script = "\n".join(map(_file, _STYLES)), _script()
    environment.globals |= {"style": style, "script": script, "policy": _policy(style, script)}
    return environment


def _figures(page: Page, with_patch: bool) -> Iterator[str]:
    """Draw latency against tokens for each patch, workload and torch, except for workloads timed
    at one size.
    """
    found: dict[tuple[str, str, str], dict[int, Interval]] = {}
    for patch, timed in page.times:
        if timed.size.isdecimal():
            found.setdefault((patch.id, timed.name, timed.torch), {})[int(timed.size)] = (
                timed.interval
            )
    patches = {patch.id: patch for patch, _ in page.times}
    for (patch_id, name, torch), ratios in found.items():
        title = f"{patch_id}: {name} on torch {torch}" if with_patch else f"{name} on torch {torch}"
        yield draw_latency(ratios, title, budget_of(patches[patch_id], "latency"))


def cell_address(key: VerdictKey) -> Address:
    """The cell of the matrix that holds a verdict."""
    return Address(key.patch, key.check, key.item, key.torch)


def colours_over_runs(runs: Sequence[RunVerdicts]) -> dict[Address, str]:
    """The colour of each cell run by run: "g", "r", "?" not judged, "-" not there.

    Cells that never change are left out.
    """
    colours: dict[Address, list[str]] = {}
    for number, verdicts in enumerate(runs):
        for key, verdict in verdicts.items():
            marks = colours.setdefault(cell_address(key), ["-"] * len(runs))
            marks[number] = max(marks[number], _LETTERS[verdict.colour], key=_WORST_LAST.index)
    return {cell: "".join(marks) for cell, marks in colours.items() if len({*marks}) > 1}


def address(cell: Address) -> str:
    """The part of a link after `#` that opens a cell, as the page's script reads it."""
    *path, torch = (quote(part, safe="", errors="replace") for part in cell)
    return f"{'/'.join(path)}@{torch}"


def embedded(data: object) -> str:
    """JSON that cannot end its HTML element nor begin another one: it is ASCII without `<`."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _file(name: str) -> str:
    return (_FILES / name).read_text(encoding="utf-8")


def _script() -> str:
    inner = "\n".join(_file(name) for name in _SCRIPTS)
    return f'"use strict";\n(() => {{\n{inner}}})();\n'


def _policy(style: str, script: str) -> str:
    """Allow only this style and this script; no request to anywhere, and no text that becomes
    markup.
    """
    sums = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (style, script)
    ]
    return (
        f"default-src 'none'; style-src 'sha256-{sums[0]}'; script-src 'sha256-{sums[1]}'; "
        "base-uri 'none';"
        " form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
