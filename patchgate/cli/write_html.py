"""Writes the HTML report of a gate or of a sweep, with the history of its facts where there is
one.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, closing
from datetime import datetime, timezone
from functools import cache
from pathlib import Path

from patchgate.model.errors import UsageError
from patchgate.model.files import write_atomically
from patchgate.model.results import Regressions
from patchgate.report.html.page_data import Page
from patchgate.report.html.page_file import render_html
from patchgate.runner.run_results import RunResults
from patchgate.runs.history.store import History

REPORT = "report.html"
# Where a sweep keeps its history; a gate in the same checkout shows it too.
SWEEP_HISTORY = Path(".patchgate/sweep/history.sqlite")
# Values of a fact that a sparkline shows.
_RUNS = 30


def write_html(
    path: Path,
    title: str,
    results: Iterable[RunResults],
    *,
    since: Path,
    code: int,
    history: Path,
    regressions: Regressions | None = None,
) -> None:
    """One file with everything.

    `since` is the file whose age is that of the verdicts; a sweep has regressions.
    """
    page = Page()
    with ExitStack() as stack:
        try:
            past = stack.enter_context(closing(History(history))) if history.is_file() else None
        except UsageError as error:
            past = None
            page.note = f"No history is shown. {error}"  # what was judged does not depend on it
        if past:
            page.past = cache(lambda workload, device: past.past(workload, device, _RUNS))
        for result in results:
            page.add(result)
    at = datetime.fromtimestamp(since.stat().st_mtime, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    write_atomically(path, render_html(title, page, at=at, code=code, regressions=regressions))
