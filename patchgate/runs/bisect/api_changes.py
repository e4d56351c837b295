"""The API index for a search: does a release have a name, and what changed around some names?

It is the index that `patchgate lint` judges by; of torches that it lacks, installed sources are
read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from patchgate.inputs.manifest import Patch
from patchgate.inputs.patch_source import Unreadable, parse
from patchgate.lint.index.build import SourceRelease
from patchgate.lint.index.changes import diff
from patchgate.lint.index.records import Function
from patchgate.lint.index.release import load, releases
from patchgate.lint.index.resolve import Modules
from patchgate.lint.infer_claims import infer_claims
from patchgate.model.results import Answer, Reading
from patchgate.runs.bisect.question import Question, inconclusive


def read_index(question: Question, torch: str) -> Reading:
    """The reading of the index: does a release have a name, or a function a parameter?"""
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
    """The same for two installed torches that no index has; each path is a site-packages."""
    return _changes(names, SourceRelease("before", old), SourceRelease("after", new))


def _changes(names: Sequence[str], before: Modules, after: Modules) -> list[str]:
    owners = dict.fromkeys(name.partition("(")[0].rpartition(".")[0] for name in names)
    return [line for owner in owners for line in diff(before, after, owner)]
