"""The formats in which a judged patch is shown: the files that every run leaves, and the output of
`--format`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

from patchgate.inputs.golden import recorded_as
from patchgate.inputs.manifest import Patch
from patchgate.inputs.workloads import workloads_with
from patchgate.model.exit_code import exit_code
from patchgate.model.files import write_atomically
from patchgate.model.paths import display_path
from patchgate.model.records import Verdict, record
from patchgate.model.results import JudgedCell
from patchgate.report.github_annotations import among_commands, is_github, render_annotations
from patchgate.report.junit import render_junit
from patchgate.report.last_lines import answer_lines, quick_look_of
from patchgate.report.markdown import render_markdown
from patchgate.report.sarif import codes_of, render_sarif, verdict_results
from patchgate.report.terminal import show_run, to_stdout
from patchgate.report.view import RunView, view
from patchgate.runner.journal import Journal
from patchgate.runner.request_costs import KEPT, load_costs
from patchgate.runner.run_results import QuickLook
from patchgate.runner.run_settings import Run


@record
class JudgedPatch:
    """A run of the gate and its results."""

    run: Run
    patch: Patch
    verdicts: Sequence[Verdict]

    @cached_property
    def view(self) -> RunView:
        seen = view(self.verdicts, self.run.torches, self.quick_look)
        return replace(seen, done=len(self.cells))

    @cached_property
    def cells(self) -> list[JudgedCell]:
        """The cells that were judged."""
        return Journal(Path(self.run.folder)).cells()

    @property
    def quick_look(self) -> QuickLook | None:
        return quick_look_of(self.run, self.verdicts)

    @property
    def seconds(self) -> dict[Verdict, float]:
        """Map each verdict to its equal share of the time that its cell took."""
        shares: dict[Verdict, float] = {}
        for cell in self.cells:
            shares |= dict.fromkeys(cell.verdicts, cell.seconds / max(len(cell.verdicts), 1))
        return {verdict: shares.get(verdict, 0.0) for verdict in self.verdicts}

    @property
    def notes(self) -> list[str]:
        """A line that names another patch with the same facts in golden, if there is one."""
        same = recorded_as(self.run.store, self.patch.id, self.run.project.golden_folder)
        where = display_path(self.patch.manifest or "its patch.toml")
        return (
            [f'golden has these facts as `{same}`: id = "{same}" in {where} uses them']
            if same
            else []
        )

    @property
    def title(self) -> str:
        claims, name = self.patch.claims, self.patch.id
        own = "" if claims.title.startswith(name) else name  # a title without manifest has the name
        return " ".join(filter(None, (own, claims.title, claims.source)))

    @property
    def checkout(self) -> Path:
        """The folder to which paths in SARIF and in annotations are relative."""
        return Path(os.environ.get("GITHUB_WORKSPACE") or self.run.project.root).resolve()


def _print_text(judged: Sequence[JudgedPatch], page: Path) -> None:
    for each in judged:
        known = workloads_with(Path(each.run.patch), each.run.project)
        files = (
            f"{display_path(Path(each.run.folder))}/{', '.join(('verdicts.json', *FILES))}",
            display_path(page),
        )
        notes = load_costs(Path(each.run.folder))
        kept = sum(note.get("unasked") == KEPT and bool(note.get("patch")) for note in notes)
        answer = answer_lines(
            each.run, each.verdicts, each.view, known, exit_code(each.verdicts), files, kept
        )
        answer.scope.extend(each.notes)
        to_stdout(partial(show_run, title=each.title, view=each.view, ending=answer))
        if is_github():
            print(among_commands(render_annotations(each.view, each.patch.path, each.checkout)))


def _print_sarif(judged: Sequence[JudgedPatch], _: Path) -> None:
    results = [
        result
        for each in judged
        for result in verdict_results(each.view, each.patch, each.checkout)
    ]
    print(render_sarif(codes_of(results), results), end="")


# File -> its text. Two files are missing here: the run itself writes verdicts.json, and the HTML
# page needs the history too.
FILES: Mapping[str, Callable[[JudgedPatch], str]] = {
    "junit.xml": lambda judged: render_junit(judged.seconds, judged.view, judged.patch.id),
    "summary.md": lambda judged: render_markdown(judged.title, judged.view),
}
# `--format` -> the function that prints all patches; its path is the path of the HTML page.
FORMATS: Mapping[str, Callable[[Sequence[JudgedPatch], Path], None]] = {
    "text": _print_text,
    "sarif": _print_sarif,
}


def write_files(judged: JudgedPatch) -> None:
    """Write the files of one patch into the folder of its run. On GitHub, also append the Markdown
    summary to the summary of the job's step.
    """
    for name, render in FILES.items():
        write_atomically(Path(judged.run.folder, name), render(judged))
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(summary, "a", encoding="utf-8") as file:
            file.write(FILES["summary.md"](judged))
