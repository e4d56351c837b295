"""One search of each sort: releases, commits, hunks and targets, from what was asked to the lines of the answer.

Decides which items there are and what is shown around the answer.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from patchgate.bisect_api import changes_around, known_releases, read_index
from patchgate.bisect_measure import Instrument
from patchgate.bisect_question import Question, Reading, untold
from patchgate.bisect_search import Search, recorded
from patchgate.bisect_sequences import (
    commits_in,
    diff_of,
    hunks_of,
    patch_at,
    releases_in,
    title_of,
    top_of,
    with_hunks,
    with_targets,
)
from patchgate.errors import UsageError
from patchgate.matrix import load_matrix
from patchgate.model import Patch
from patchgate.patches import load_patch
from patchgate.project import shown
from patchgate.report.bisect import render_minimal, render_turn


@dataclass(frozen=True, kw_only=True)
class Asking:
    """The options that `bisect` and `ask` share, read."""

    question: Question
    patch: Path | None
    side: Path | None
    instrument: Instrument

    @property
    def loaded(self) -> Patch:
        """Raises UsageError when no patch was given."""
        if self.patch is None:
            raise UsageError("a patch is wanted", where="PATCH", got="none", next="patchgate bisect ... PATCH")
        return load_patch(self.patch)

    def close(self) -> None:
        self.instrument.close()
        self.instrument.environments.close()

    def read(self, torch: str, patch: Path | None) -> Reading:
        if self.question.kind == "has":
            return read_index(self.question, torch)
        return self.instrument.read(self.question, torch, patch)

    def again(self, torch: str, patch: Path | str | None) -> str:
        """The one-line command that asks this of one torch and one patch."""
        rows = self.instrument.environments.rows
        row = f"--row {torch}={rows[torch]}" if torch in rows else f"--torch {torch}"
        workloads = "".join(f" --workload {name}" for name in self.instrument.workloads)
        return f"patchgate ask {self.question.option}{workloads} {row}" + (f" {patch}" if patch else "")


def over_releases(
    asking: Asking, text: str, votes: tuple[int, int], about: Sequence[str], measure_all: bool
) -> list[str]:
    rows = [row.torch for row in load_matrix()]
    items = releases_in(text, [*known_releases(), *rows, *asking.instrument.environments.rows])
    patch = load_patch(asking.side).id if asking.side else None
    known = {} if measure_all else recorded(asking.question, patch, [torch for torch in items if torch in rows])
    search = Search(lambda torch: asking.read(torch, asking.side), click.echo, votes)
    outcome = search.turn(items, known)
    environments = asking.instrument.environments
    notes = [f"{len(environments.made)} environments made"] + ([f"{len(known)} known from golden"] if known else [])
    notes += [f"torch {torch} left out: {why}" for torch, why in environments.failed.items()]
    targets = (load_patch(asking.patch).claims.targets or ()) if asking.patch else ()
    names = [*targets, *about, *([asking.question.name] if asking.question.kind == "has" else [])]
    return list(
        render_turn(
            outcome,
            what="release",
            question=asking.question.text,
            of=len(items),
            label=str,
            api=changes_around(names, outcome.last, outcome.first),
            again=lambda torch: asking.again(torch, shown(asking.side) if asking.side else None),
            notes=notes,
        )
    )


def over_commits(asking: Asking, text: str, votes: tuple[int, int], torch: str) -> list[str]:
    patch = asking.loaded.path if asking.patch and asking.patch.is_file() else asking.patch
    repository = top_of(Path(patch or "."))
    items = commits_in(text, repository)
    folder = asking.instrument.folder / "commits"

    def read(commit: str) -> Reading:
        there = patch_at(commit, Path(patch or "."), repository, folder)
        return asking.read(torch, there) if there else untold("the patch was not there yet")

    outcome = Search(read, click.echo, votes).turn(items, {})
    inside = shown(Path(patch or "."))
    return list(
        render_turn(
            outcome,
            what="commit",
            question=asking.question.text,
            of=len(items),
            label=lambda commit: title_of(commit, repository),
            api=(),
            again=lambda commit: f"git checkout -q {commit[:12]} && {asking.again(torch, inside)}",
            notes=(),
        )
    )


def over_parts(asking: Asking, what: str, votes: tuple[int, int], torch: str) -> list[str]:
    patch, folder = asking.loaded, asking.instrument.folder
    if what == "hunks":
        diff = diff_of(asking.patch or Path())
        items, write = hunks_of(diff), partial(with_hunks, patch, diff)
    else:
        items, write = asking.instrument.replaced(torch, patch), partial(with_targets, patch)

    def read(subset: Sequence[str]) -> Reading:
        return asking.read(torch, write(subset, folder / what))

    found = Search(read, click.echo, votes).culprits(items, read)
    sides = {"found": found.items, "without": [item for item in items if item not in found.items]}
    paths = [write(names, folder / f"{what}-{side}") for side, names in sides.items()]
    again = [asking.again(torch, shlex.quote(shown(path))) for path in paths]
    return list(render_minimal(found, what=what, question=asking.question.text, of=len(items), again=again))
