"""The verdicts on settings that an import, a call or a compile leaves changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from patchgate.checks.framework.find_checks import verdict_of
from patchgate.inputs.manifest import Patch
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Verdict

# Kinds of settings that a patch may set on purpose, as it replaces names of torch. A manifest lists
# them.
_CLAIMABLE = frozenset(("config", "environment", "python", "state"))


def could_be_claimed(patch: Patch, kind: str, name: str) -> bool:
    """True for an effect that a manifest could claim, if the patch has no manifest."""
    return patch.manifest is None and kind in _CLAIMABLE and name != "random_seed"


def settings_left(
    case: Case,
    patch: Patch,
    work: str,
    settings: Iterable[str],
    place: str,
    *,
    noted: Collection[str] = _CLAIMABLE,
) -> Iterator[Verdict]:
    """PG208 for each of the `settings`, such as "process umask", that `work` leaves changed only
    with the patch. Without a manifest, settings of the kinds in `noted` are notes.
    """
    claimed = {*patch.claims.effects, *patch.claims.targets_on(case.torch)}
    for setting in settings:
        kind, _, name = setting.partition(" ")
        if claimed.isdisjoint((setting, kind, name)):
            is_noted = kind in noted and could_be_claimed(patch, kind, name)
            yield verdict_of(
                "gate",
                "PG208",
                Kind.WARNING if is_noted else Kind.REGRESSED,
                case,
                f"{work}, on {setting}",
                "unchanged",
                "changed afterwards",
                place,
                item="effects",
            )
