"""What the API index says to a search: has a release this name, and what changed around some names.

Decides nothing of its own; it asks the index that `patchgate lint` judges by.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from patchgate.inputs.source import Unreadable, parse
from patchgate.lint.index.changes import diff
from patchgate.lint.index.records import Function
from patchgate.lint.index.release import load, releases
from patchgate.lint.index.resolve import Modules
from patchgate.lint.index.source_release import SourceRelease
from patchgate.lint.infer import guesses_in
from patchgate.model.records import Patch
from patchgate.runs.bisect.question import Question, Reading, untold
from patchgate.runs.bisect.search import Answer


def known_releases() -> tuple[str, ...]:
    return releases()


def read_index(question: Question, torch: str) -> Reading:
    """Whether a release has a name, or a function a parameter."""
    if torch not in releases():
        return untold(f"torch {torch} is not indexed: patchgate index add {torch}")
    dotted, _, parameter = question.name.rstrip(")").partition("(")
    found = load(torch).resolve(dotted)
    if found is not None and parameter:
        symbol = found.symbol
        if not isinstance(symbol, Function):
            return untold(f"{dotted} is no function in torch {torch}")
        names = [each.name for each in symbol.parameters]
        told, there = f"{symbol.name}({', '.join(names)})", parameter in names
    else:
        told, there = (found.kind if found else "absent"), found is not None
    if found is not None and found.kind == "maybe":
        return untold(f"{dotted} may be answered by __getattr__")
    return Reading(answer=Answer.BAD if there else Answer.GOOD, shown=told)


def targets_of(patch: Patch, versions: Sequence[str]) -> tuple[str, ...]:
    """What a patch claims to replace, or what its text suggests."""
    if patch.claims.targets is not None:
        return patch.claims.targets
    try:
        tree = parse(patch.source)
    except (Unreadable, RecursionError):
        return ()
    indexed = [load(version) for version in versions if version in releases()]
    return tuple(guess.value for guess in guesses_in(patch.source, tree, indexed).targets)


def changes_around(names: Sequence[str], old: str, new: str) -> list[str]:
    """The lines of `patchgate index diff` about the modules and classes that hold `names`."""
    return _changes(names, load(old), load(new)) if {old, new} <= set(releases()) else []


def changes_in_sources(names: Sequence[str], old: Path, new: Path) -> list[str]:
    """The same of two installed torches that no index has; each path is a site-packages."""
    return _changes(names, SourceRelease("before", old), SourceRelease("after", new))


def _changes(names: Sequence[str], before: Modules, after: Modules) -> list[str]:
    owners = dict.fromkeys(name.partition("(")[0].rpartition(".")[0] for name in names)
    return [line for owner in owners for line in diff(before, after, owner)]
