"""The policy of the gate: which kinds of result are red, notes, or not judged."""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """The result of a comparison. Results for facts come first, in the order of `compare`; results
    for metrics are OVER to AMBIGUOUS.

    FIRST is a change that is not accepted yet and makes no cost worse beyond its limit. WARNING is
    something unusual, suspected or not exercised that is not known to hurt anyone. ASSUMED cannot
    be run or seen on this machine. STOPPED was not judged because the run ended before.
    """

    INFRA = "infra"
    KNOWN = "known"
    DRIFTED = "drifted"
    REGRESSED = "regressed"
    STALE = "stale"
    NEW = "new"
    CHANGED = "changed"
    FIRST = "first"
    ABSORBED = "absorbed"
    PASS = "pass"
    INERT = "inert"
    UNMEASURED = "unmeasured"
    OVER = "over"
    UNDER = "under"
    AMBIGUOUS = "ambiguous"
    ASSUMED = "assumed"
    STOPPED = "stopped"
    WARNING = "warning"
    NOTE = "note"


class Colour(Enum):
    """The meaning of a verdict for a merge: RED blocks the merge; GREY is for a reader and blocks
    nothing.
    """

    GREEN = "green"
    RED = "red"
    GREY = "grey"


class Meaning(Enum):
    """The meaning of a result: RED hurts anyone who merges the patch; a NOTE may interest a
    reviewer; another run may judge a NOT_JUDGED result; GREEN is fine.
    """

    RED = "red"
    NOTE = "note"
    NOT_JUDGED = "not judged"
    OUT_OF_REACH = "out of reach"  #: cannot be judged here, by any run
    GREEN = "green"


#: The policy of the gate, in one table (docs/concepts.md gives the reasons). `--strict` makes each
#: NOTE red.
POLICY = {
    Kind(kind): meaning
    for meaning, kinds in {
        Meaning.RED: "drifted regressed stale changed absorbed inert over",
        Meaning.NOTE: "new first under warning",
        Meaning.NOT_JUDGED: "infra unmeasured ambiguous stopped",
        Meaning.OUT_OF_REACH: "assumed",
        Meaning.GREEN: "known pass note",
    }.items()
    for kind in kinds.split()
}
