"""Searches for the place where the answer to a question changes: over releases, commits, hunks or
targets.

Facts in golden narrow a search. If a search cannot succeed, the error says what to ask instead. A
search prints nothing: `progress` gets a line for each item that was measured.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from patchgate.inputs.golden import expectation, load_golden
from patchgate.inputs.manifest import Patch
from patchgate.inputs.matrix import load_matrix
from patchgate.inputs.patch import load_patch
from patchgate.inputs.patch_source import Unreadable, parse
from patchgate.inputs.project import project_around
from patchgate.lint.index.build import SourceRelease
from patchgate.lint.index.changes import diff
from patchgate.lint.index.records import Function
from patchgate.lint.index.release import load, releases
from patchgate.lint.index.resolve import Modules, refuse_unknown
from patchgate.lint.infer_manifest import infer_claims
from patchgate.model.errors import UsageError
from patchgate.model.paths import display_path
from patchgate.model.records import record
from patchgate.model.results import Answer, CulpritsFound, MinimalSet, Outcome, Reading, TurnFound
from patchgate.runner.torch_environments import (
    NIGHTLY_INDEX,
    SOURCES,
    built_commit,
    commit_version,
    installed_release,
    nightlies,
)
from patchgate.runs.bisect import searched_items
from patchgate.runs.bisect.algorithm import (
    Unbracketed,
    bracket,
    first_bad,
    majority,
    minimise,
    turns_in,
)
from patchgate.runs.bisect.measure import Instrument
from patchgate.runs.bisect.question import Question, QuestionKind, inconclusive, negated, read_facts

Progress = Callable[[str], None]
_API = "torch's API around it"
_WORDS = {Answer.BAD: "holds", Answer.GOOD: "does not", Answer.UNKNOWN: "cannot tell"}


@dataclass
class Search:
    """One question about many items."""

    read: Callable[[str], Reading]
    progress: Progress
    #: (needed, times): a flaky question is asked up to `times` times until `needed` answers agree.
    votes: tuple[int, int] = (1, 1)
    readings: dict[str, Reading] = field(default_factory=dict)  #: what was measured, by item

    def turn(self, items: Sequence[str], known: Mapping[str, Reading]) -> Outcome:
        """Find the first change of the answer along `items`. The `known` answers narrow the search
        only as long as measurements confirm them.

        Raises UsageError if both ends give the same answer, or if one end gives none.
        """
        first = known[items[0]] if items[0] in known else self._recall(items[0])
        holds_first = first.answer is Answer.BAD

        def oriented(reading: Reading) -> Answer:
            return (negated(reading) if holds_first else reading).answer

        answers = {item: oriented(reading) for item, reading in known.items()}

        def ask(item: str) -> Answer:
            return oriented(self._recall(item))

        try:
            turn = first_bad(bracket(items, answers), majority(ask, *self.votes))
        except Unbracketed as error:
            item = str(error.item)
            measured, recorded = self.readings.get(item), known.get(item)
            if measured and recorded and measured.answer not in (recorded.answer, Answer.UNKNOWN):
                self.progress(
                    f"  golden does not agree, {item} is recorded with {recorded.shown}: searching "
                    "without it"
                )
                return self.turn(items, {})
            raise self._no_turn(error, items, known) from None
        return Outcome(
            holds=not holds_first,
            last=turn.last_good,
            first=turn.first_bad,
            between=turn.between,
            readings=self.readings,
            turns=max(1, len(turns_in(items, answers))),
        )

    def culprits(
        self, items: Sequence[str], read: Callable[[Sequence[str]], Reading]
    ) -> MinimalSet[str]:
        """Find the smallest set of `items` whose answer differs from that of the empty set."""
        nothing = read(())
        self._log("none of them", nothing)
        readings: dict[tuple[str, ...], Reading] = {(): nothing}

        def ask(subset: Sequence[str]) -> Answer:
            key = tuple(subset)
            if key not in readings:
                readings[key] = read(subset)
                self._log(f"{len(key)} of {len(items)}: {', '.join(key)}", readings[key])
            return (
                negated(readings[key]) if nothing.answer is Answer.BAD else readings[key]
            ).answer

        try:
            return minimise(items, ask)
        except Unbracketed as error:
            end = readings[() if error.item == "none of them" else tuple(items)]
            raise UsageError(
                "nothing to search: the answer is the same with all of them and with none",
                where="bisect",
                got=f"{error.item}: {end.shown}",
                next="choose a question whose answer the patch changes",
            ) from None

    def _recall(self, item: str) -> Reading:
        """The reading of an item; only a flaky question is measured again."""
        if self.votes != (1, 1) or item not in self.readings:
            self.readings[item] = self.read(item)
            self._log(item, self.readings[item])
        return self.readings[item]

    def _log(self, label: str, reading: Reading) -> None:
        self.progress(f"  {label}  {_WORDS[reading.answer]}  {reading.shown}")

    def _no_turn(
        self, error: Unbracketed, items: Sequence[str], known: Mapping[str, Reading]
    ) -> UsageError:
        item = str(error.item)
        reading = self.readings.get(item)
        got = f"{item}: {reading.shown}" if reading else str(error)
        if error.got is Answer.UNKNOWN:
            return UsageError(
                "one end of the range gives no answer",
                where="bisect",
                got=got,
                next="choose another end",
            )
        ends = {end: self.readings.get(end) or known[end] for end in (items[0], items[-1])}
        which = "at both ends" if ends[items[-1]].answer is Answer.BAD else "at neither end"
        return UsageError(
            f"it holds {which}, so nothing changes between them",
            where="bisect",
            got=", ".join(f"{end}: {reading.shown}" for end, reading in ends.items()),
            next="widen the range, or ask another question",
        )


def recorded_readings(
    question: Question, patch: str | None, releases: Sequence[str]
) -> dict[str, Reading]:
    """The recorded values of a fact, for each recorded release."""
    if question.kind is not QuestionKind.FACT:
        return {}
    project = project_around(Path.cwd())
    golden = load_golden(question.workload, question.device, project.golden_folder)
    if patch is not None and patch not in golden.sections:
        return {}
    known = {}
    for torch in releases:
        reading = read_facts(question, expectation(golden, question.case(torch, patch)).facts)
        if reading.answer is not Answer.UNKNOWN:
            known[torch] = reading
    return known


@record
class Bisection:
    """A question, a patch, and an instrument: everything that a search of any sort needs."""

    question: Question
    patch: (
        Path | None
    )  #: the given PATCH: its parts are searched, and changes of torch around it are shown
    applied: Path | None  #: the patch that the question is asked with; None for unpatched torch
    instrument: Instrument
    progress: Progress
    votes: tuple[int, int] = (1, 1)
    about: tuple[str, ...] = ()  #: more names around which changes of torch are shown

    def close(self) -> None:
        """Stop the server, and delete the environments that were made."""
        self.instrument.close()
        self.instrument.environments.close()

    def read(self, torch: str, patch: Path | None) -> Reading:
        """The answer on one torch with one patch."""
        if self.question.kind is QuestionKind.API:
            return read_index(self.question, torch)
        return self.instrument.read(self.question, torch, patch)

    def over_releases(self, text: str) -> TurnFound:
        """Find the release at which the answer turns. If an index has nightly builds between this
        release and the one before, find the build. With a checkout of torch, find the commit too.

        `text` is a range, `2.10.0..2.15.0`.
        """
        in_matrix, environments = [row.torch for row in load_matrix()], self.instrument.environments
        items = searched_items.releases_in(text, [*releases(), *in_matrix, *environments.rows])
        patch = load_patch(self.applied).id if self.applied else None
        known = recorded_readings(
            self.question, patch, [torch for torch in items if torch in in_matrix]
        )
        search = self._search(lambda torch: self.read(torch, self.applied))
        outcome = search.turn(items, known)
        size = len(items)
        ends = (outcome.last, outcome.first)
        measured = self.question.kind is not QuestionKind.API
        inside = nightlies(*ends) if measured and not outcome.between else []
        if inside:
            self.progress(f"  {len(inside)} nightly builds between {' and '.join(ends)}")
            size, outcome = size + len(inside), search.turn([ends[0], *inside, ends[1]], {})
        notes = [f"{len(environments.made)} environments made"]
        notes += [f"{len(known)} known from golden"] if known else []
        notes += [f"torch {torch} left out: {why}" for torch, why in environments.failed.items()]
        if measured and os.environ.get(NIGHTLY_INDEX) and not inside:
            notes.append(f"no nightly build between in ${NIGHTLY_INDEX}")
        names = self._names(ends)
        api = (
            changes_in_sources(names, *self._homes(outcome))
            if inside
            else changes_around(names, *ends)
        )
        return self._turn_found(
            outcome,
            "nightly build" if inside else "release",
            size,
            notes=tuple(notes),
            changes={_API: tuple(api)},
            commits=self._commits_between(outcome) if measured and environments.checkout else None,
        )

    def _commits_between(self, outcome: Outcome) -> TurnFound | str:
        """Find the commit of torch at which the answer turns, between both sides of a turn; or
        return the reason why there is none.
        """
        last, first = outcome.last, outcome.first
        self.progress(f"commits of torch between {last} and {first}, as sources over {last}:")
        try:
            commits = [built_commit(home) for home in self._homes(outcome)]
            return self.over_upstream("..".join(map(str, commits)), last)
        except UsageError as error:
            return str(error).splitlines()[0]

    def over_upstream(self, text: str, release: str) -> TurnFound:
        """Find the commit of torch at which the answer turns, among the commits that change its
        Python sources. The sources of each are laid over an installed release.
        """
        checkout = self.instrument.environments.checkout
        if checkout is None:
            raise UsageError(
                "no checkout of torch",
                where="--upstream",
                got=text,
                next="... --checkout path/to/pytorch",
            )
        commits = {
            commit_version(release, each): each
            for each in searched_items.commits_in(text, checkout, SOURCES)
        }
        outcome = self._search(lambda torch: self.read(torch, self.applied)).turn(list(commits), {})
        sources = searched_items.files_changed(
            commits[outcome.last], commits[outcome.first], checkout, SOURCES
        )
        return self._turn_found(
            outcome,
            "commit of torch",
            len(commits),
            label=lambda torch: searched_items.title_of(commits[torch], checkout),
            notes=(f"their sources over torch {release}",),
            changes={
                _API: tuple(changes_in_sources(self._names((release,)), *self._homes(outcome))),
                "sources that changed": tuple(sources),
            },
        )

    def over_commits(self, text: str, torch: str) -> TurnFound:
        """Find the commit at which the answer turns, in the repository that holds the patch."""
        path = self.patch or Path(".")
        if path.is_file():
            path = Path(self._loaded.path)
        repository = searched_items.repository_of(path)
        items = searched_items.commits_in(text, repository)

        def read(commit: str) -> Reading:
            patch = searched_items.patch_at(
                commit, path, repository, self.instrument.folder / "commits"
            )
            return self.read(torch, patch) if patch else inconclusive("the patch was not there yet")

        outcome = self._search(read).turn(items, {})
        ask = self._ask_command(torch, path)
        return self._turn_found(
            outcome,
            "commit",
            len(items),
            label=lambda commit: searched_items.title_of(commit, repository),
            command=lambda commit: f"git checkout -q {commit[:12]} && {ask}",
        )

    def over_parts(self, what: str, torch: str) -> CulpritsFound:
        """Find the smallest set of "hunks" or "targets" of the patch that changes the answer."""
        patch, folder = self._loaded, self.instrument.folder
        if what == "hunks":
            diff = searched_items.diff_of(self.patch or Path())
            items = searched_items.hunks_of(diff)
            write = partial(searched_items.write_hunks, patch, diff)
        else:
            items = self.instrument.replaced(torch, patch)
            write = partial(searched_items.write_targets, patch)

        def read(subset: Sequence[str]) -> Reading:
            return self.read(torch, write(subset, folder / what))

        minimal = self._search(read).culprits(items, read)
        others = [item for item in items if item not in minimal.items]
        paths = (
            write(minimal.items, folder / f"{what}-found"),
            write(others, folder / f"{what}-without"),
        )
        return CulpritsFound(
            minimal=minimal,
            what=what,
            question=self.question.text,
            size=len(items),
            commands=tuple(self._ask_command(torch, path) for path in paths),
        )

    @property
    def _loaded(self) -> Patch:
        if self.patch is None:
            raise UsageError(
                "no patch given", where="PATCH", got="none", next="patchgate bisect ... PATCH"
            )
        return load_patch(self.patch)

    def _search(self, read: Callable[[str], Reading]) -> Search:
        return Search(read, self.progress, self.votes)

    def _names(self, versions: Sequence[str]) -> list[str]:
        """The names around which changes are shown: the patch's targets, the given names, and the
        name of a question about the index.
        """
        targets = targets_of(self._loaded, versions) if self.patch else ()
        asked = [self.question.name] if self.question.kind is QuestionKind.API else []
        return [*targets, *self.about, *asked]

    def _homes(self, outcome: Outcome) -> tuple[Path, Path]:
        """The folders in which the releases of both sides of a turn are installed."""
        home = self.instrument.environments.home
        return home(outcome.last), home(outcome.first)

    def _turn_found(
        self,
        outcome: Outcome,
        what: str,
        size: int,
        *,
        label: Callable[[str], str] = str,
        command: Callable[[str], str] | None = None,
        **rest: Any,
    ) -> TurnFound:
        command = command or partial(self._ask_command, patch=self.applied)
        return TurnFound(
            outcome=outcome,
            what=what,
            question=self.question.text,
            size=size,
            labels={item: label(item) for item in (outcome.last, *outcome.between, outcome.first)},
            commands={item: command(item) for item in (outcome.last, outcome.first)},
            **rest,
        )

    def _ask_command(self, torch: str, patch: Path | None) -> str:
        """The one-line command that asks the question about one torch and one patch."""
        environments, release = self.instrument.environments, installed_release(torch)
        has_row, is_commit = release in environments.rows, torch != release
        words = [f"patchgate ask {self.question.option}"]
        words += [f"--workload {name}" for name in self.instrument.workloads]
        words += [f"--checkout {shlex.quote(str(environments.checkout))}"] if is_commit else []
        words += [f"--row {release}={shlex.quote(environments.rows[release])}"] if has_row else []
        words += [f"--torch {torch}"] if is_commit or not has_row else []
        words += [shlex.quote(display_path(patch))] if patch else []
        return " ".join(words)


def refuse_unindexed(question: Question, about: Sequence[str]) -> None:
    """Raises UsageError if no indexed release has the name or parameter of the question, or one of
    the names in `about`.
    """
    known = [load(torch) for torch in releases()]
    asked = [question.name] if question.kind is QuestionKind.API else []
    for name, option in (
        *((each, "--has") for each in asked),
        *((each, "--about") for each in about),
    ):
        refuse_unknown(name.partition("(")[0], known, option)
    readings = [read_index(question, torch) for torch in releases() if asked]
    if asked and all(each.answer is Answer.GOOD for each in readings):
        raise UsageError(
            "no indexed release has that parameter",
            where="--has",
            got=question.text,
            next=f"a parameter of {readings[-1].shown}",
        )


def read_index(question: Question, torch: str) -> Reading:
    """Ask the index if a release has a name, or if a function of it has a parameter."""
    if torch not in releases():
        return inconclusive(f"torch {torch} is not indexed: patchgate index add {torch}")
    dotted, _, parameter = question.name.rstrip(")").partition("(")
    resolved = load(torch).resolve(dotted)
    if resolved is None:
        return Reading(answer=Answer.GOOD, shown="absent")
    shown, present = str(resolved.kind), True
    if parameter:
        function = resolved.symbol
        if not isinstance(function, Function):
            return inconclusive(f"{dotted} is no function in torch {torch}")
        names = [each.name for each in function.parameters]
        shown, present = f"{function.name}({', '.join(names)})", parameter in names
    if resolved.kind == "maybe":
        return inconclusive(f"{dotted} may be answered by __getattr__")
    return Reading(answer=Answer.BAD if present else Answer.GOOD, shown=shown)


def targets_of(patch: Patch, versions: Sequence[str]) -> tuple[str, ...]:
    """The targets that a patch claims, or that its text suggests."""
    if patch.claims.targets is not None:
        return patch.claims.targets
    try:
        tree = parse(patch.source)
    except (Unreadable, RecursionError):
        return ()
    indexed = [load(version) for version in versions if version in releases()]
    return tuple(claim.value for claim in infer_claims(patch.source, tree, indexed).targets)


def changes_around(names: Sequence[str], old: str, new: str) -> list[str]:
    """The lines of `patchgate index diff` about the modules and classes that hold `names`."""
    return _changes(names, load(old), load(new)) if {old, new} <= set(releases()) else []


def changes_in_sources(names: Sequence[str], old: Path, new: Path) -> list[str]:
    """The lines of `changes_around` for two installed torches that are not indexed. Each path is a
    site-packages folder.
    """
    return _changes(names, SourceRelease("before", old), SourceRelease("after", new))


def _changes(names: Sequence[str], before: Modules, after: Modules) -> list[str]:
    owners = dict.fromkeys(name.partition("(")[0].rpartition(".")[0] for name in names)
    return [line for owner in owners for line in diff(before, after, owner)]
