"""One search of each sort, from what was asked to the lines of the answer: releases, commits, hunks and targets.

Decides which items there are and what is shown around the answer.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from patchgate.inputs.matrix import load_matrix
from patchgate.inputs.patch import load_patch
from patchgate.model.errors import UsageError
from patchgate.model.paths import shown
from patchgate.model.records import Patch
from patchgate.report.bisect import render_minimal, render_turn
from patchgate.runner.environments import NIGHTLY_INDEX, commit_on, nightlies, release_of
from patchgate.runner.overlay import SOURCES, commit_of
from patchgate.runs.bisect.api import changes_around, changes_in_sources, known_releases, read_index, targets_of
from patchgate.runs.bisect.measure import Instrument
from patchgate.runs.bisect.question import Question, Reading, untold
from patchgate.runs.bisect.sequences import (
    commits_in,
    diff_of,
    files_changed,
    hunks_of,
    patch_at,
    releases_in,
    title_of,
    top_of,
    with_hunks,
    with_targets,
)
from patchgate.runs.bisect.told import Outcome, Search, recorded

_API = "torch's API around it"


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

    def names(self, about: Sequence[str], versions: Sequence[str]) -> list[str]:
        """What changes are shown around: what the patch replaces, what was named, what the index was asked for."""
        targets = targets_of(self.loaded, versions) if self.patch else ()
        return [*targets, *about, *([self.question.name] if self.question.kind == "has" else [])]

    def homes(self, outcome: Outcome) -> tuple[Path, Path]:
        """Where both sides of a turn are installed."""
        home = self.instrument.environments.home
        return home(outcome.last), home(outcome.first)

    def again(self, torch: str, patch: Path | str | None) -> str:
        """The one-line command that asks this of one torch and one patch."""
        environments, release = self.instrument.environments, release_of(torch)
        there, is_commit = release in environments.rows, torch != release
        words = [f"patchgate ask {self.question.option}"]
        words += [f"--workload {name}" for name in self.instrument.workloads]
        words += [f"--checkout {shlex.quote(str(environments.checkout))}"] if is_commit else []
        words += [f"--row {release}={shlex.quote(environments.rows[release])}"] if there else []
        words += [f"--torch {torch}"] if is_commit or not there else []
        return " ".join([*words, *([str(patch)] if patch else [])])


def over_releases(
    asking: Asking, text: str, votes: tuple[int, int], about: Sequence[str], measure_all: bool
) -> list[str]:
    """The release; the nightly build too, where an index has some between; the commit too, with a checkout of torch."""
    rows = [row.torch for row in load_matrix()]
    items = releases_in(text, [*known_releases(), *rows, *asking.instrument.environments.rows])
    patch = load_patch(asking.side).id if asking.side else None
    known = {} if measure_all else recorded(asking.question, patch, [torch for torch in items if torch in rows])
    search = Search(lambda torch: asking.read(torch, asking.side), click.echo, votes)
    outcome = search.turn(items, known)
    of, ends, measured = len(items), (outcome.last, outcome.first), asking.question.kind != "has"
    inside = nightlies(*ends) if measured and not outcome.between else []
    if inside:
        click.echo(f"  {len(inside)} nightly builds between {' and '.join(ends)}")
        of, outcome = of + len(inside), search.turn([ends[0], *inside, ends[1]], {})
    environments = asking.instrument.environments
    notes = [f"{len(environments.made)} environments made"] + ([f"{len(known)} known from golden"] if known else [])
    notes += [f"torch {torch} left out: {why}" for torch, why in environments.failed.items()]
    if measured and os.environ.get(NIGHTLY_INDEX) and not inside:
        notes.append(f"no nightly build between in ${NIGHTLY_INDEX}")
    names = asking.names(about, ends)
    lines = render_turn(
        outcome,
        what="nightly build" if inside else "release",
        question=asking.question.text,
        of=of,
        label=str,
        around={_API: changes_in_sources(names, *asking.homes(outcome)) if inside else changes_around(names, *ends)},
        again=lambda torch: asking.again(torch, shlex.quote(shown(asking.side)) if asking.side else None),
        notes=notes,
    )
    return [*lines, *(_commits_between(asking, outcome, votes, about) if measured and environments.checkout else ())]


def _commits_between(asking: Asking, outcome: Outcome, votes: tuple[int, int], about: Sequence[str]) -> list[str]:
    """What a search of torch's commits between both sides of a turn says, or why there is none."""
    click.echo(f"commits of torch between {outcome.last} and {outcome.first}, as sources over {outcome.last}:")
    try:
        built = [commit_of(home) for home in asking.homes(outcome)]
        return over_upstream(asking, "..".join(str(commit) for commit in built), votes, about, outcome.last)
    except UsageError as error:
        return [f"no commit of torch can be named; {line}" for line in str(error).splitlines()[:1]]


def over_upstream(asking: Asking, text: str, votes: tuple[int, int], about: Sequence[str], release: str) -> list[str]:
    """The commit of torch, of those that change its Python sources, each laid over an installed release."""
    checkout = asking.instrument.environments.checkout
    if checkout is None:
        raise UsageError("no checkout of torch", where="--upstream", got=text, next="... --checkout path/to/pytorch")
    commits = {commit_on(release, commit): commit for commit in commits_in(text, checkout, SOURCES)}
    search = Search(lambda torch: asking.read(torch, asking.side), click.echo, votes)
    outcome = search.turn(list(commits), {})
    return list(
        render_turn(
            outcome,
            what="commit of torch",
            question=asking.question.text,
            of=len(commits),
            label=lambda torch: title_of(commits[torch], checkout),
            around={
                _API: changes_in_sources(asking.names(about, (release,)), *asking.homes(outcome)),
                "sources that changed": files_changed(commits[outcome.last], commits[outcome.first], checkout, SOURCES),
            },
            again=lambda torch: asking.again(torch, shlex.quote(shown(asking.side)) if asking.side else None),
            notes=[f"their sources over torch {release}"],
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
    inside = shlex.quote(shown(Path(patch or ".")))
    return list(
        render_turn(
            outcome,
            what="commit",
            question=asking.question.text,
            of=len(items),
            label=lambda commit: title_of(commit, repository),
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
