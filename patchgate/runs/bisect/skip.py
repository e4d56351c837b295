"""What a search skips: each reason why an item cannot be measured, as a reading that answers neither way.

`algorithm.first_bad` goes on with the items beside it, and names those that were skipped around a turn.
"""

from __future__ import annotations

from pathlib import Path

from patchgate.inputs.manifest import Patch
from patchgate.inputs.patch import load_patch
from patchgate.model.errors import UsageError
from patchgate.model.records import Facts, Failure, Kind, Verdict
from patchgate.model.results import Answer, Reading
from patchgate.runner.torch_environments import Environments, NotInstallable


class Skip(Exception):
    """An item cannot be measured; `str` says why."""


def inconclusive(why: object, facts: Facts | None = None) -> Reading:
    """The reading of an item that is skipped."""
    return Reading(answer=Answer.UNKNOWN, shown=str(why), facts=facts or {})


def python_or_skip(environments: Environments, torch: str) -> str:
    """The interpreter of a torch. Raises Skip for one that cannot be installed."""
    try:
        return environments.python(torch)
    except NotInstallable as error:
        raise Skip(f"torch {torch} cannot be installed: {error}") from None


def patch_or_skip(path: Path) -> Patch:
    """The patch at a path. Raises Skip where none can be loaded there."""
    try:
        return load_patch(path)
    except UsageError as error:
        raise Skip(str(error).replace("\n", ";")) from None


def skip_untrusted(sentinel: Verdict) -> None:
    """Raises Skip where a case with known facts did not give them: no other case counts there."""
    if sentinel.kind is not Kind.PASS:
        raise Skip(f"{sentinel.code} {sentinel.actual}")


def skip_failed(failure: Failure | None, prefix: str = "") -> None:
    """Raises Skip where a side of a comparison did not run."""
    if failure:
        raise Skip(f"{prefix}{failure.signature}")
