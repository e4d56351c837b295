"""The comment on a pull request: the results of all jobs in one text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from packaging.version import Version

from patchgate.checks.framework.find_checks import refuse_unknown_codes
from patchgate.model.errors import UsageError
from patchgate.model.records import Verdict
from patchgate.report.last_lines import quick_look_of
from patchgate.report.markdown import FOLD_END, render_markdown
from patchgate.report.view import view
from patchgate.runner.run_settings import NAME, Run, load_run, load_verdicts

# The workflow finds its comment again by this marker.
MARKER = "<!-- patchgate -->"
# The most characters of a comment; GitHub allows 65,536.
_LONGEST = 60_000


def render_comment(folders: Sequence[Path]) -> str:
    """One section for each patch, with the torches of all folders side by side.

    Raises UsageError for folders without results.
    """
    verdicts: dict[str, list[Verdict]] = {}
    torches: dict[str, list[str]] = {}
    runs: dict[str, Run] = {}
    for folder in folders:
        run, judged = load_run(folder / NAME), load_verdicts(folder)
        _refuse_foreign(
            folder, [*run.torches, *(v.torch or "0" for v in judged)], [v.code for v in judged]
        )
        name = Path(run.patch).name
        verdicts.setdefault(name, []).extend(judged)
        torches.setdefault(name, []).extend(run.torches)
        rows = {**runs[name].rows, **run.rows} if name in runs else run.rows
        runs[name] = replace(run, rows=rows)
    sections = [
        render_markdown(
            name,
            view(
                list(dict.fromkeys(judged)),
                sorted({*torches[name]}),
                quick_look_of(runs[name], judged),
            ),
        )
        for name, judged in sorted(verdicts.items())
    ]
    text = "\n".join([MARKER, *sections]) if sections else f"{MARKER}\nNothing was judged.\n"
    cut = f"\n\nThe rest is in the artifacts of the run.\n\n{FOLD_END}\n"
    return text if len(text) <= _LONGEST else text[:_LONGEST].rpartition("\n")[0] + cut


def _refuse_foreign(folder: Path, torches: Sequence[str], codes: Sequence[str]) -> None:
    """Raise UsageError for a release or a code that no run can have written."""
    for torch in torches:
        try:
            Version(torch)
        except ValueError:
            raise UsageError(
                "not a torch release", where=str(folder), got=torch[:80], next="run the gate"
            ) from None
    refuse_unknown_codes(str(folder), codes)
