"""Writes the HTML report of a gate or of a sweep, from what they left and from the history when there is one.

Decides which history, and when the page says that it was judged. What is on the page is decided in `report.page`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, closing
from datetime import datetime, timezone
from functools import cache
from pathlib import Path

from patchgate.model.errors import UsageError
from patchgate.model.files import write_atomically
from patchgate.model.results import RunResults
from patchgate.report.html.changes import News
from patchgate.report.html.page import Page
from patchgate.report.html.render import render_html
from patchgate.runs.history.store import History

NAME = "report.html"
# Where a sweep keeps its history; a gate beside it shows it too.
HISTORY = Path("build/sweep/history.sqlite")
# As many as a sparkline can show.
_RUNS = 30


def write_page(
    path: Path,
    title: str,
    judged: Iterable[RunResults],
    *,
    since: Path,
    code: int,
    history: Path,
    news: News | None = None,
) -> None:
    """One file with everything. `since` is the file whose age is that of the verdicts; a sweep has news."""
    at = datetime.fromtimestamp(since.stat().st_mtime, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    write_atomically(path, render_html(title, _page(judged, history), at=at, code=code, news=news))


def _page(judged: Iterable[RunResults], history: Path) -> Page:
    page = Page()
    with ExitStack() as opened:
        try:
            known = opened.enter_context(closing(History(history))) if history.is_file() else None
        except UsageError as error:
            known = None
            page.note = f"No history is shown. {error}"  # what was judged does not depend on it
        if known:
            page.past = cache(lambda workload, device: known.past(workload, device, _RUNS))
        for one in judged:
            page.add(one)
    return page
