"""The codes that every family of golden facts shares: one for each kind of the comparison.

Decides the last digit (PG301 and PG401 are both REGRESSED) and their
texts. Refuses to know which fact belongs to which family.
"""

from __future__ import annotations

from patchgate.model.records import Code, Kind

_ACCEPT = "nox -s accept -- --reason '...'"

# kind -> (last digit, title, what, why, fix)
_TEXTS: dict[Kind, tuple[int, str, str, str, str]] = {
    Kind.PASS: (
        0,
        "{noun} facts as recorded",
        "The patched {noun} facts equal golden.",
        "Nothing moved.",
        "Nothing to do.",
    ),
    Kind.REGRESSED: (
        1,
        "{noun} facts changed",
        "With the patch, a {noun} fact is neither what golden records nor what torch does without it; or the"
        " patch alone fails to compile.",
        "A change that nobody has read is how worse kernels are merged.",
        f"Read the facts. If the change is meant, record it: {_ACCEPT}. If not, mend the patch.",
    ),
    Kind.DRIFTED: (
        2,
        "torch changed underneath",
        "Without any patch, a {noun} fact no longer equals its own record; or both sides fail.",
        "The patch cannot be judged against a record that torch itself has left.",
        f"Find the release that moved it, then record the new baseline: {_ACCEPT}.",
    ),
    Kind.NEW: (
        3,
        "nothing recorded",
        "Golden has no value of this {noun} fact for this torch release.",
        "The first value is a decision, not a test result.",
        f"Read it, then record it: {_ACCEPT}.",
    ),
    Kind.ABSORBED: (
        4,
        "torch does it by itself",
        "Golden records a difference, but unpatched torch now gives the patched value.",
        "The patch has become dead weight on this release.",
        "Narrow `applies_to`, or drop the patch.",
    ),
    Kind.INERT: (
        5,
        "the patch does nothing",
        "Golden records a difference, but patched and unpatched are the same.",
        "The patch no longer reaches the code that it is meant to change.",
        "Check the gate and whether the target is still called.",
    ),
    Kind.STALE: (
        6,
        "known failure no longer fails",
        "Golden lists this case as failing, and it runs.",
        "A stale entry would hide the next real failure.",
        f"Remove the entry: {_ACCEPT}.",
    ),
    Kind.KNOWN: (
        7,
        "fails as recorded",
        "Golden lists this case as failing, and it fails.",
        "A known failure is not news.",
        "Nothing to do.",
    ),
    Kind.UNMEASURED: (
        8,
        "{noun} fact could not be taken",
        "The probe could not measure this {noun} fact.",
        "A missing figure is neither zero nor equal to another missing one.",
        "Read the reason; run on a machine that can measure it.",
    ),
    Kind.INFRA: (
        9,
        "the machine failed, not the patch",
        "A side of this comparison failed through the machine, also when tried again.",
        "It is never held against the patch.",
        "Run again; if it stays, look at disk, memory and limits.",
    ),
}


def code_of(family: int, kind: Kind) -> str:
    """The stable code of a kind in a family: `code_of(30, Kind.REGRESSED)` is PG301."""
    return f"PG{family}{_TEXTS[kind][0]}"


def codes_of(family: int, noun: str) -> tuple[Code, ...]:
    """One code for each kind of the comparison table."""
    return tuple(
        Code(
            code=code_of(family, kind),
            title=title.format(noun=noun),
            what=what.format(noun=noun),
            why=why.format(noun=noun),
            fix=fix.format(noun=noun),
        )
        for kind, (_, title, what, why, fix) in _TEXTS.items()
    )
