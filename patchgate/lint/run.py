"""Lints patches: reads each file for each release, applies every rule, and returns the findings.

A file that cannot be read gets a finding of its own. Diffs are judged hunk by hunk.
"""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from mmap import mmap
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import process_time
from typing import NamedTuple, TypeVar

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from patchgate.inputs.patch_source import (
    DIFFS,
    Unreadable,
    is_idle,
    nodes_in,
    parse,
    read_lossy,
    read_source,
)
from patchgate.lint.find_patches import Place, walk
from patchgate.lint.findings import Finding, Severity, View, When, folded, merged, when
from patchgate.lint.index.release import Question, Release, renamed
from patchgate.lint.index.sources import Sources
from patchgate.lint.interpret.project_files import same_own_values
from patchgate.lint.interpret.references import Usage
from patchgate.lint.interpret.state import SECONDS, OutOfTime, check_time, time_limit
from patchgate.lint.interpret.statements import interpret
from patchgate.lint.interpret.values import OwnFiles, OwnName
from patchgate.lint.rules import RULES
from patchgate.lint.rules.dead_gate import ALWAYS_LEFT, DEAD_GATE
from patchgate.lint.rules.misplaced_hunk import NOT_PLACED, lint_diff
from patchgate.lint.rules.not_judged import (
    NOT_PYTHON,
    OUT_OF_TIME,
    UNUSED,
    not_python,
    out_of_time,
    unused,
)
from patchgate.lint.rules.unused_ignore import apply_ignores
from patchgate.model.records import record
from patchgate.model.versions import in_order, show_releases

# A version check is also tried on these releases, which are older than the index, and on as many
# future minor releases as `_AFTER_THE_INDEX` says.
_BEFORE_THE_INDEX = (
    *("2.5.1", "2.5.0"),
    *("2.4.1", "2.4.0"),
    *("2.3.1", "2.3.0"),
    *("2.2.2", "2.2.0"),
    *("2.1.2", "2.1.0"),
    *("2.0.1", "2.0.0"),
    "1.13.1",
    "1.10.2",
    "1.7.1",
    "1.4.0",
)
_AFTER_THE_INDEX = 4
# The CPU seconds that one process may spend on all its files.
_SECONDS_OF_ALL = 300.0
# An import from torch or Triton. Its names are judged, even if a fork has names of its own there.
_IMPORT = re.compile(r"^\s*(?:from\s+(?:torch|triton)\b|import\s+(?:torch|triton)\.)", re.MULTILINE)
# A number with more bits than this is shortened.
_BITS = 14_000
_LONG_NUMBER = re.compile(r"0[xXoObB][0-9a-fA-F_]{3500}")
Answer = TypeVar("Answer")
# A folder of code for one release: `torch_2_6`, `_inductor_210` (which is 2.1.0), `pt2.10`.
_FOLDER = re.compile(
    r"(?:\w+_)?_?(?:dynamo|inductor|pt|torch)_?v?"
    r"(?:(\d)[._](\d\d?)(?:[._]\d+)?|(\d)(\d)\d?|(\d)(\d\d)\d)"
)
# For this many bytes of files, another process is worth its start.
_WORTH = 200_000
# Python collects garbage after this many new objects: a syntax tree has many objects, no garbage.
_OBJECTS = 300_000


class HowFar(NamedTuple):
    """The number of judged files, the number of all files, and the share of the work done."""

    done: int
    total: int
    share: float


Watched = Callable[[Callable[[], HowFar]], AbstractContextManager[object]]


@record
class Report:
    """The result of lint: the files and releases that it read, and the findings in the order of the
    files.

    `walked` counts the files that were looked at in folders; `ranges` are the ranges of torch that
    the projects state; `ahead` are releases newer than these ranges, which were read too.
    """

    files: tuple[str, ...]
    releases: tuple[str, ...]
    findings: tuple[Finding, ...]
    walked: int = 0
    ranges: tuple[str, ...] = ()
    ahead: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """The exit code: 1 if a finding is red, otherwise 3 if nothing could be judged or a file
        took too long, otherwise 0.
        """
        if any(each.severity is Severity.RED for each in self.findings):
            return 1
        if any(each.code == OUT_OF_TIME.code for each in self.findings):
            return 3
        return 0 if self.has_judged else 3

    @property
    def unread(self) -> tuple[Finding, ...]:
        """One finding for each file that was not judged."""
        codes = (NOT_PLACED.code, OUT_OF_TIME.code, NOT_PYTHON.code, UNUSED.code)
        return tuple(each for each in self.findings if each.code in codes)

    @property
    def has_judged(self) -> bool:
        """True if something was judged, or if the folders have no file to judge."""
        if not self.files:
            return bool(self.walked)
        return bool(self.releases and {*self.files} - {each.path for each in self.unread})


def lint(
    paths: Iterable[Path],
    releases: Sequence[Release],
    sources: Sources | None = None,
    matrix: Collection[str] = (),
    *,
    whole: bool = False,
    jobs: int = 1,
    since: str = "",
    installed: str = "",
    watched: Watched = nullcontext,
) -> Report:
    """Return the findings for every patch at `paths`. `matrix` lists the releases of the matrix,
    which count only for a project without a range.

    A patch is judged on the releases that its project supports and its manifest claims. `whole`
    takes all releases instead; `since` leaves out older releases. Up to `jobs` processes share
    large folders, and `watched` is entered while they work. A fault on the `installed` release
    counts as broken now. Raises UsageError for a path that does not exist.
    """
    found = walk(paths, releases, whole=whole, since=since)
    judge = partial(
        _lint_place,
        sources=sources or Sources(),
        matrix=matrix,
        installed=installed,
        until=process_time() + _SECONDS_OF_ALL,
    )
    with rare_collections():
        by_place = shared_out(judge, found.places, jobs, watched)
        findings = [each for of_place in by_place for each in of_place]
    return Report(
        files=tuple(place.name for place in found.places),
        releases=tuple(found.versions),
        findings=tuple(findings),
        walked=found.files
        if any(place.walked for place in found.places) or not found.places
        else 0,
        ranges=tuple(found.ranges),
        ahead=tuple(in_order(each.version for place in found.places for each in place.ahead)),
    )


def _lint_place(
    place: Place, sources: Sources, matrix: Collection[str], installed: str, until: float
) -> list[Finding]:
    name, known = place.name, [release.version for release in place.releases]
    if not known:
        return []
    if place.file.suffix in DIFFS:
        return lint_diff(read_source(place.file), name, known, sources, place.claimed)
    try:
        source = read_source(place.file)
        rows = () if place.stated else matrix
        with time_limit(min(SECONDS, until - process_time())):
            check_time()
            findings, views = lint_source(
                source, name, place.releases, claimed=place.claimed, matrix=rows, place=place
            )
            is_judged = place.walked or _IMPORT.search(source)
            if views and not is_judged and is_idle(source):
                findings.append(unused(name))
            findings = _left_over_as_notes(findings, place) + _breaking_next(source, place)
    except Unreadable as error:
        findings = [not_python(error.line, error.reason, name, read_lossy(place.file))]
    except OutOfTime:
        findings = [
            out_of_time(SECONDS, name, source)
            if process_time() < until
            else out_of_time(_SECONDS_OF_ALL, name, source, "all files")
        ]
    if place.walked:  # the file may be a template, or an example of invalid code
        findings = [
            replace(each, severity=Severity.NOTE) if each.code == NOT_PYTHON.code else each
            for each in findings
        ]
        findings = _for_its_folder(findings, place)
    return [
        replace(each, when=when(each.releases, known, installed))
        if each.severity is Severity.RED
        else each
        for each in findings
    ]


def _for_its_folder(findings: list[Finding], place: Place) -> list[Finding]:
    """In a folder that is named after a release, turn findings about other releases into notes."""
    named = next(filter(None, map(_FOLDER.fullmatch, _folders_in_project(place.file))), None)
    if named is None:
        return findings
    minor = ".".join(filter(None, named.groups()))
    return [
        each
        if any(f"{release}.".startswith(f"{minor}.") for release in each.releases)
        else replace(
            each,
            severity=Severity.NOTE,
            when=None,
            message=f"{each.message}, in a folder for torch {minor}",
        )
        for each in findings
    ]


def _folders_in_project(file: Path) -> Iterator[str]:
    """The names of the folders above a file, up to the top of its project."""
    for folder in file.parents:
        if any((folder / each).exists() for each in (".git", "pyproject.toml", "setup.py")):
            return
        yield folder.name


def _breaking_next(source: str, place: Place) -> list[Finding]:
    """Notes on faults of the first newer release that breaks anything, except faults that the
    newest supported release has too.
    """
    if not place.ahead or place.claimed is not None:
        return []
    newest, known = place.releases[-1].version, [each.version for each in place.ahead]
    later, _ = lint_source(source, place.name, [place.releases[-1], *place.ahead], place=place)
    breaking = [
        each for each in later if each.severity is Severity.RED and newest not in each.releases
    ]
    first = next(
        (version for version in known if any(version in each.releases for each in breaking)), ""
    )
    return [
        replace(each, severity=Severity.NOTE, when=When.NEXT, shown_releases=f"from {first}")
        for each in breaking
        if first in each.releases
    ]


def _left_over_as_notes(findings: list[Finding], place: Place) -> list[Finding]:
    """Turn a red finding about a version check into a note if the check has another outcome on some
    release that is not judged.
    """
    for code, holds in ((DEAD_GATE.code, False), (ALWAYS_LEFT.code, True)):
        red = [each for each in findings if (each.code, each.severity) == (code, Severity.RED)]
        otherwise = _otherwise({each.span.line for each in red}, place, holds)
        findings = [
            replace(
                each,
                severity=Severity.NOTE,
                message=f"{each.message}; on releases that are not judged it is not so",
            )
            if each in red and each.span.line in otherwise
            else each
            for each in findings
        ]
    return findings


def _otherwise(lines: set[int], place: Place, holds: bool) -> set[int]:
    """Return the `lines` with a version check that may have an outcome other than `holds` on some
    release. Releases older and newer than the index are tried too.
    """
    if not lines:
        return set()
    otherwise: set[int] = set()
    by_age = sorted((*place.releases, *place.others), key=lambda each: Version(each.version))
    oldest, newest = by_age[0], by_age[-1]
    major, minor = Version(newest.version).release[:2]
    newer = [
        renamed(newest, f"{major}.{minor + step}.0") for step in range(1, _AFTER_THE_INDEX + 1)
    ]
    older = [
        renamed(oldest, version)
        for version in _BEFORE_THE_INDEX
        if Version(version) < Version(oldest.version)
    ]
    tree = parse(read_source(place.file))
    for _, usage in _readings(
        tree, [*reversed(place.others), *reversed(place.releases), *newer, *older], place, lines
    ):
        # A condition that depends on more than the version is no gate, and its outcome may differ.
        otherwise |= lines - {gate.span.line for gate in usage.gates if gate.holds is holds}
        if lines <= otherwise:
            break
    return lines & otherwise


def lint_source(
    source: str,
    path: str,
    releases: Sequence[Release],
    claimed: SpecifierSet | None = None,
    matrix: Collection[str] = (),
    place: Place | None = None,
) -> tuple[list[Finding], list[View]]:
    """Return the findings of one Python file, after its ignore comments are applied, and the views
    of the file, one for each release.

    With `place`, names that the file imports from other files of its project are followed.
    """
    try:
        views = views_of(source, releases, claimed, matrix, place)
        by_release: list[Finding] = []
        for rule in RULES:
            for finding in rule(views):
                check_time()
                by_release.append(finding)
    except Unreadable as error:
        return [not_python(error.line, error.reason, path, source)], []
    except (RecursionError, MemoryError):
        return [not_python(1, "nested too deeply", path, source)], []
    known = [release.version for release in releases]
    outside = {view.version for view in views if not view.claimed}
    findings, beyond = (
        merged(
            (each for each in by_release if (each.releases[0] in outside) is is_outside),
            path,
            known,
            source,
        )
        for is_outside in (False, True)
    )
    red = [each for each in beyond if each.severity is Severity.RED]
    findings += _beyond_the_claims(red, known)
    return folded(apply_ignores(findings, source, path), source), views


def _beyond_the_claims(red: Sequence[Finding], known: Sequence[str]) -> list[Finding]:
    """One note for all faults that concern only releases that the manifest does not claim."""
    if not red:
        return []
    versions = [version for version in known if any(version in each.releases for each in red)]
    more = f", and {len(red) - 1} more like it" if len(red) > 1 else ""
    message = f"{red[0].message}{more}, on releases that the manifest does not claim"
    text = show_releases(versions, known)
    return [
        replace(
            red[0],
            severity=Severity.NOTE,
            message=message,
            releases=tuple(versions),
            shown_releases=text,
        )
    ]


def views_of(
    source: str,
    releases: Sequence[Release],
    claimed: SpecifierSet | None = None,
    matrix: Collection[str] = (),
    place: Place | None = None,
) -> list[View]:
    """The views of a Python file, one for each release. Raises Unreadable."""
    tree = parse(source)
    if place is None and "torch" not in source and "triton" not in source:
        return []
    if _LONG_NUMBER.search(source):
        _shorten_numbers(tree)
    usages = dict(_readings(tree, releases, place))
    return [
        View(
            release=release,
            usage=usages[release.version],
            claimed=claimed is None or claimed.contains(release.version, prereleases=True),
            in_matrix=release.version in matrix,
            asked=place is not None and place.asked,
        )
        for release in releases
    ]


def _shorten_numbers(tree: ast.Module) -> None:
    """Shorten long numbers: Python reads any number of hexadecimal digits, but refuses to write
    as many decimal digits.
    """
    for node in nodes_in(tree, ast.Constant):
        if isinstance(node.value, int) and node.value.bit_length() > _BITS:
            node.value = 1 << _BITS


def _readings(
    tree: ast.Module,
    releases: Sequence[Release],
    place: Place | None,
    lines: Collection[int] | None = None,
) -> Iterator[tuple[str, Usage]]:
    """Yield the version of each release and the file's usage of torch in that release.

    A release with the same answers to all questions of an earlier reading shares its usage.
    """
    file, own = (place.file.resolve(), place.own) if place is not None else (None, OwnFiles())
    read: list[tuple[Release, set[Question], set[OwnName], Usage]] = []
    for release in releases:
        for first, questions, names, usage in reversed(read):
            if first.answers_as(release, questions) and same_own_values(names, own, first, release):
                yield release.version, usage
                break
        else:
            own.followed = set()
            with release.recorded() as questions:
                usage = interpret(tree, release, file, own, lines=lines)
            read.append((release, questions, own.followed, usage))
            own.followed = set()
            yield release.version, usage


# -- many files in less time


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let Python collect garbage rarely. Otherwise collections take half of the reading time."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS, 5, 10)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def shared_out(
    judge: Callable[[Place], Answer],
    places: Sequence[Place],
    jobs: int,
    watched: Watched = nullcontext,
) -> list[Answer]:
    """Return `judge(place)` for each place, in order. Up to `jobs` processes share the work, if it
    is worth starting them. `watched` is entered while they work.
    """
    weights = [each.file.stat().st_size + _WORTH // 20 for each in places]
    shares = _shares(weights, jobs)
    judged = mmap(-1, len(places) + 1)  # which places are judged; shared with the other processes

    def judge_at(at: int) -> Answer:
        answer = _judged_tidily(judge, places[at])
        judged[at] = 1
        return answer

    def how_far() -> HowFar:
        done = [at for at in range(len(places)) if judged[at]]
        return HowFar(len(done), len(places), sum(weights[at] for at in done) / sum(weights))

    # This process judges the first share, and also the share of a process that died.
    fork = get_context("fork" if len(shares) > 1 else None)
    answers: dict[int, Answer] = {}

    def work(share: list[int], into: Connection) -> None:
        into.send([judge_at(at) for at in share])

    ends = [fork.Pipe(duplex=False) for _ in shares[1:]]
    workers = [
        fork.Process(target=work, args=(share, into), daemon=True)
        for share, (_, into) in zip(shares[1:], ends, strict=True)
    ]
    try:
        for worker, (_, into) in zip(workers, ends, strict=True):
            worker.start()
            into.close()
        with watched(how_far):  # after all forks, as it may start a thread
            answers.update((at, judge_at(at)) for at in shares[0])
            for share, (out_of, _) in zip(shares[1:], ends, strict=True):
                told: list[Answer] = []
                with suppress(EOFError):
                    told = out_of.recv()
                answers.update(zip(share, told or map(judge_at, share), strict=True))
    finally:
        for worker in workers:
            worker.kill()
            worker.join()
    return [answers[at] for at in range(len(places))]


def _shares(weights: Sequence[int], jobs: int) -> list[list[int]]:
    """The numbers of each process's places, heaviest first. All shares weigh about the same."""
    if "fork" not in get_all_start_methods():
        jobs = 1
    jobs = min(jobs, 1 + sum(weights) // _WORTH, len(weights))
    shares: list[list[int]] = [[] for _ in range(max(jobs, 1))]
    loads = [0] * len(shares)
    for at in sorted(range(len(weights)), key=lambda each: -weights[each]):
        least = loads.index(min(loads))
        shares[least].append(at)
        loads[least] += weights[at]
    return shares


def _judged_tidily(judge: Callable[[Place], Answer], place: Place) -> Answer:
    """Judge a place. After a large file, collect its garbage at once, without an examination of the
    objects that existed before.
    """
    if place.file.stat().st_size <= _WORTH:
        return judge(place)
    gc.freeze()
    answer = judge(place)
    gc.collect()
    gc.unfreeze()
    return answer
