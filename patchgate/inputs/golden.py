"""Golden files: the recorded facts of one workload on one device, as text (docs/golden.md).

The text is canonical: sorted, one fact a line with its range of releases, a blank line between
blocks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.version import Version

from patchgate.model.errors import UsageError
from patchgate.model.facts import (
    FAILURE,
    HISTOGRAMS,
    UNPATCHED,
    format_value,
    not_requested,
    parse_value,
    value_in,
)
from patchgate.model.files import read_text
from patchgate.model.paths import GOLDEN, display_path
from patchgate.model.records import Case, Expectation, Facts, FactValue, Observation, Unmeasured
from patchgate.model.versions import ReleaseRange, Value, in_order, parse_range

SCHEMA = 1
# The name of a fact in the file of accepted patches; a workload and a device may follow.
_ACCEPTED = "accepted"
# An error shows at most this many characters of a line.
_SHOWN = 200

Ranges = dict[ReleaseRange, FactValue]
Section = dict[str, Ranges]


@dataclass
class GoldenFile:
    """The records of one file."""

    workload: str
    device: str  #: the name of a profile
    #: "unpatched", or a patch's id -> fact -> range of releases -> value. The section of a patch
    #: has only the differences from "unpatched".
    sections: dict[str, Section] = field(default_factory=dict)
    #: True if a project's folder has facts of torch itself: facts of the project's own workloads,
    #: or facts that differ from the shipped facts.
    states_torch: bool = False


def golden_path(workload: str, device: str, folder: Path = GOLDEN) -> Path:
    return folder / f"{workload}.{device}.txt"


def read_golden(path: Path, workload: str, device: str) -> GoldenFile:
    """The file's records; empty if there is no file. Raises UsageError with file:line."""
    golden = GoldenFile(workload=workload, device=device)
    if not path.exists():
        return golden
    section: Section | None = None
    for number, line in enumerate(
        read_text(path, f"git checkout -- {display_path(path)}").splitlines(), 1
    ):
        if not line or line.startswith("#"):
            continue
        try:
            if line.startswith("schema "):
                if line != f"schema {SCHEMA}":
                    raise ValueError(f"this patchgate reads schema {SCHEMA}")
            elif line.startswith("[") and line.endswith("]") and " " not in line:
                section = golden.sections.setdefault(line[1:-1], {})
            elif section is None:
                raise ValueError("a fact before the first [section]")
            else:
                fact, span, value = line.split(maxsplit=2)
                _add(section.setdefault(fact, {}), parse_range(span), parse_value(value))
        except (ValueError, RecursionError) as error:
            raise UsageError(
                "not a golden line",
                where=f"{display_path(path)}:{number}",
                got=f"{line[:_SHOWN]!r} ({str(error)[:_SHOWN]})",
                next="fact  2.11.0..2.13.0  value   (or restore the file: git checkout -- "
                + display_path(path)
                + ")",
            ) from None
    return golden


def load_golden(workload: str, device: str, folder: Path) -> GoldenFile:
    """The recorded facts. Facts of torch itself come with patchgate; facts in `folder` override
    them.
    """
    golden = read_golden(golden_path(workload, device, folder), workload, device)
    shipped = _shipped(workload, device, folder)
    own = golden.sections.get(UNPATCHED, {})
    # If two ranges contain the same release, the later range counts.
    both = {fact: shipped.get(fact, {}) | own.get(fact, {}) for fact in {**shipped, **own}}
    sections = {**golden.sections, **({UNPATCHED: both} if both else {})}
    return GoldenFile(workload, device, sections, states_torch=bool(own and folder != GOLDEN))


def own_part(golden: GoldenFile, folder: Path, releases: Sequence[str]) -> GoldenFile:
    """The part of `golden` for a file of `folder`: everything that does not come with patchgate."""
    section: Section = {}
    shipped = _shipped(golden.workload, golden.device, folder)
    known = golden.sections.get(UNPATCHED, {})
    for fact in {**shipped, **known}:
        before, after = (
            values_by_release(ranges.get(fact, {}), releases) for ranges in (shipped, known)
        )
        own = {torch: value for torch, value in after.items() if before.get(torch) != value}
        if fact.startswith(HISTOGRAMS):
            own |= dict.fromkeys(before.keys() - after.keys(), 0)  # a name that is no longer listed
        if own:
            section[fact] = values_by_range(own, releases)
    return GoldenFile(golden.workload, golden.device, {**golden.sections, UNPATCHED: section})


def _shipped(workload: str, device: str, folder: Path) -> Section:
    """The facts of torch that come with patchgate; empty if `folder` itself is the folder of these
    facts.
    """
    if folder.resolve() == GOLDEN:
        return {}
    return read_golden(golden_path(workload, device, GOLDEN), workload, device).sections.get(
        UNPATCHED, {}
    )


def _add(ranges: Ranges, span: ReleaseRange, value: FactValue) -> None:
    """Add a range. Raises ValueError if it shares a release with another range, because the value
    would be ambiguous.
    """
    for other in ranges:
        if span.first in other or span.last in other or other.first in span:
            raise ValueError(f"the fact already has a value for {other}")
    ranges[span] = value


def format_golden(golden: GoldenFile) -> str:
    """The canonical text."""
    lines = [f"# {golden.workload} on {golden.device}", f"schema {SCHEMA}"]
    names = sorted(golden.sections, key=lambda name: (name != UNPATCHED, name))
    for name in names:
        section = golden.sections[name]
        if not section:
            continue
        lines += ["", f"[{name}]"]
        stage = None
        for fact in sorted(section):
            if stage not in (None, fact.split(".")[0]):
                lines.append("")
            stage = fact.split(".")[0]
            ordered = sorted(section[fact].items(), key=lambda item: Version(item[0].first))
            lines += [f"{fact}  {span}  {format_value(value)}" for span, value in ordered]
    return "\n".join(lines) + "\n"


def _at(section: Section, torch: str) -> Facts:
    return {
        fact: v for fact, ranges in section.items() for span, v in ranges.items() if torch in span
    }


def release_for(golden: GoldenFile, torch: str) -> str:
    """Return the release whose record `torch` is compared with. It is `torch` itself, or the
    newest recorded release if `torch` is a pre-release that is newer than all recorded releases.
    """
    version = Version(torch)
    ends = [
        Version(span.last)
        for ranges in golden.sections.get(UNPATCHED, {}).values()
        for span in ranges
    ]
    newest = max(ends, default=version)
    return str(newest) if version.is_prerelease and newest < version else torch


def accepted_path(folder: Path) -> Path:
    """The file that names the patches whose facts were accepted, including patches that change no
    facts.
    """
    return folder / "accepted.txt"


def load_accepted(folder: Path) -> GoldenFile:
    """The patches whose facts were accepted. A patch has one fact, whose ranges are the releases;
    if only some workloads were accepted, it has such a fact for each workload on a device.
    """
    return read_golden(accepted_path(folder), "accepted patches", "each release")


def is_accepted(
    accepted: GoldenFile, patch: str, release: str, workload: str = "", device: str = ""
) -> bool:
    """True if facts of a patch were accepted on a release: the facts of all workloads, or the facts
    of this workload on this device.
    """
    section = accepted.sections.get(patch, {})
    names = (_ACCEPTED, _accepted_name(workload, device))
    return any(release in span for name in names for span in section.get(name, {}))


def _accepted_name(workload: str, device: str) -> str:
    return f"{_ACCEPTED}.{workload}.{device}"


def recorded_as(observations: Iterable[Observation], patch: str, folder: Path) -> str | None:
    """Return the id of another patch whose record equals the observations of `patch`; None if there
    is no such patch, or if facts of `patch` are accepted.
    """
    accepted = load_accepted(folder).sections
    others, same = {*accepted} - {patch}, set[str]()
    for one in observations if others and patch not in accepted else ():
        if one.case.patch != patch or one.failure:
            continue
        golden = load_golden(one.case.workload, one.case.device, folder)
        for other in sorted(others & {*golden.sections}):
            own = _at(golden.sections[other], one.case.torch)
            if any(one.facts.get(fact, value) != value for fact, value in own.items()):
                others.discard(other)
            elif own:
                same.add(other)
    return min(same & others, default=None)


def with_accepted(
    accepted: GoldenFile,
    observations: Iterable[Observation],
    releases: Sequence[str],
    narrow: Collection[str] = (),
) -> GoldenFile:
    """`accepted`, with the observed patches added on their releases. For `narrow` patches, only the
    observed workloads are added.
    """
    sections = {name: dict(section) for name, section in accepted.sections.items()}
    found = GoldenFile(accepted.workload, accepted.device, sections)
    observed: dict[tuple[str, str], Facts] = {}
    for case in (one.case for one in observations):
        if case.patch:
            name = _accepted_name(case.workload, case.device)
            observed.setdefault((case.patch, case.torch), {})[name] = 1
    for (patch, torch), own in sorted(observed.items()):
        is_narrow = patch in narrow
        if is_narrow and is_accepted(found, patch, torch):
            continue
        keep = {*found.sections.get(patch, {})} - {*own} if is_narrow else set[str]()
        _put(found, patch, torch, own if is_narrow else {_ACCEPTED: 1}, releases, keep=keep)
    return found


def expectation(golden: GoldenFile, case: Case) -> Expectation:
    """The recorded facts of a case: the unpatched facts, updated by the patch's differences."""
    facts = _at(golden.sections.get(UNPATCHED, {}), case.torch)
    recorded = bool(facts)
    own = _at(golden.sections.get(case.patch, {}), case.torch) if case.patch else {}
    if own:
        facts.pop(FAILURE, None)  # a patch with its own facts does not fail where torch fails
    facts |= own
    failure = facts.pop(FAILURE, None)
    known = failure if isinstance(failure, str) else None
    return Expectation(facts=facts, known_failure=known, recorded=recorded or known is not None)


def fold(
    golden: GoldenFile, observations: Iterable[Observation], releases: Sequence[str]
) -> GoldenFile:
    """Return `golden`, updated by the observations. Cases without observations do not change."""
    observed = list(observations)
    folded = GoldenFile(
        golden.workload, golden.device, {k: dict(v) for k, v in golden.sections.items()}
    )
    unpatched = {o.case.torch: o for o in observed if o.case.patch is None}
    for torch, observation in unpatched.items():
        _put(
            folded,
            UNPATCHED,
            torch,
            _recordable(observation),
            releases,
            keep=_untaken(observation, folded.sections.get(UNPATCHED, {})),
        )
    for observation in observed:
        case = observation.case
        if case.patch is not None:
            base = _at(folded.sections.get(UNPATCHED, {}), case.torch)
            own = _recordable(observation)
            names = {FAILURE} if FAILURE in own else own.keys() | base.keys()
            new = {name: value_in(own, name) for name in names}
            difference = {n: v for n, v in new.items() if v is not None and v != value_in(base, n)}
            keep = _untaken(observation, folded.sections.get(case.patch, {}))
            _put(folded, case.patch, case.torch, difference, releases, keep=keep)
    return folded


def _untaken(observation: Observation, section: Section) -> set[str]:
    facts = observation.facts
    missing = {name for name, value in facts.items() if isinstance(value, Unmeasured)}
    return missing | not_requested(section, facts)


def _recordable(observation: Observation) -> Facts:
    if observation.failure:
        return {FAILURE: observation.failure.signature}
    return {name: v for name, v in observation.facts.items() if not isinstance(v, Unmeasured)}


def _put(
    golden: GoldenFile,
    name: str,
    torch: str,
    facts: Facts,
    releases: Sequence[str],
    keep: Collection[str],
) -> None:
    """Replace the content of section `name` for `torch` by `facts`. The facts named in `keep` do
    not change.
    """
    section = golden.sections.setdefault(name, {})
    for fact in dict.fromkeys([*section, *facts]):
        if fact in keep:
            continue
        values = values_by_release(section.get(fact, {}), releases)
        values.pop(torch, None)
        if fact in facts:
            values[torch] = facts[fact]
        ranges = values_by_range(values, [*releases, torch])
        if ranges:
            section[fact] = ranges
        else:
            section.pop(fact, None)


def values_by_release(
    ranges: Mapping[ReleaseRange, Value], releases: Sequence[str]
) -> dict[str, Value]:
    """Release -> value for each known release that a range covers."""
    known = in_order([*releases, *(end for span in ranges for end in (span.first, span.last))])
    return {torch: value for torch in known for span, value in ranges.items() if torch in span}


def values_by_range(
    values: Mapping[str, Value], releases: Sequence[str]
) -> dict[ReleaseRange, Value]:
    """The fewest ranges that give each release of `values` its value.

    Two releases with the same value are joined unless a release of `releases` between them has
    another value or none.
    """
    found: list[tuple[list[str], Value]] = []
    for torch in in_order([*releases, *values]):
        if torch not in values:
            found.append(([], None))  # type: ignore[arg-type]
        elif found and found[-1][0] and found[-1][1] == values[torch]:
            found[-1][0].append(torch)
        else:
            found.append(([torch], values[torch]))
    return {ReleaseRange(first=span[0], last=span[-1]): value for span, value in found if span}
