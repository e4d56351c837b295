"""Rules on facts: their text, their default in a histogram, the check that owns a fact, the facts
that a run may leave out, the facts that are costs, and predicates.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterable
from typing import Any

from patchgate.model.records import Cause, Facts, FactValue, Observation, Unmeasured, record

#: The section of a golden file that holds torch's own facts; the other sections have a patch's id.
UNPATCHED = "unpatched"
#: The entry that a failing case has in place of all facts: the signature of the failure.
FAILURE = "failure"
#: 1 if a case compiles, 0 if it raises; derived from the outcome, never recorded.
COMPILES = "compiles"
#: The prefix of `fact` in verdicts on results with another dtype, shape or layout.
OTHER_FORM = "form of results"
#: Prefixes of counts by name. A name that a case does not list counts zero, if any fact of the
#: case is known.
HISTOGRAMS = (
    "aten.op.",
    "dynamo.break.",
    "dynamo.guard.",
    "fx.op.",
    "kernels.grid.",
    "kernels.hint.",
    "kernels.kind.",
    "lowering.realized_by.",
    "options.",
    "passes.hits.",
    "scheduler.refused.",
    "shapes.break.",
    "shapes.guard.",
    "shapes.reason.",
)
#: Prefix of the facts that only a nightly run takes: they need every kernel compiled, which takes
#: longer than all other facts together.
ON_REQUEST = "resources."


def check_of(fact: str) -> str:
    """The check that owns a fact: `shapes`, `options`, `graph` (up to the captured graph) or
    `kernels` (below it).
    """
    stage = fact.partition(".")[0]
    if stage in ("shapes", "options"):
        return stage
    return "graph" if fact.startswith(("dynamo.", "fx.")) else "kernels"


def format_value(value: FactValue | None, missing: str = "absent") -> str:
    """The text of a value in golden files and reports: `13`, `[2 1 3]`, `"text"`, `unmeasured
    (why)`, or `missing`.
    """
    if value is None:
        return missing
    if isinstance(value, Unmeasured):
        return f"unmeasured ({value.reason})"
    if isinstance(value, tuple):
        return "[" + " ".join(map(str, value)) + "]"
    return json.dumps(value)  # escapes the quotes and line ends of a text


def parse_value(text: str) -> FactValue:
    """Inverse of `format_value`, except for `unmeasured`, which is never recorded. Raises
    ValueError.
    """
    if text.startswith("[") and text.endswith("]"):
        return tuple(int(item) for item in text[1:-1].split())
    return str(json.loads(text)) if text.startswith('"') else int(text)


def value_in(facts: Facts, fact: str) -> FactValue | None:
    """A fact's value; zero for a name that a histogram does not list; None if there is no such
    fact.
    """
    if fact in facts:
        return facts[fact]
    return 0 if facts and fact.startswith(HISTOGRAMS) else None


def facts_with_compiles(observation: Observation) -> Facts:
    """The facts of an observation, and `compiles`; without `compiles` if the case hung or crashed,
    which may be the machine's fault.
    """
    failure = observation.failure
    if failure and failure.cause is not Cause.RAISED:
        return dict(observation.facts)
    return {COMPILES: int(failure is None)} | observation.facts


# At most this many facts are named.
_DIFFERING = 4


def changed_facts(before: Facts, after: Facts) -> str:
    """The first facts with different values on both sides, as
    `loads.max 6 -> 4; loads [2 6] -> [2 4]`; empty if no facts differ.

    A fact that is unmeasured on both sides does not count as different.
    """
    values = {
        name: (value_in(before, name), value_in(after, name)) for name in sorted(before | after)
    }
    changed = [
        f"{name} {format_value(old)} -> {format_value(new)}"
        for name, (old, new) in values.items()
        if None not in (old, new)
        and old != new
        and not (isinstance(old, Unmeasured) and isinstance(new, Unmeasured))
    ]
    return "; ".join(changed[:_DIFFERING])


def not_requested(names: Iterable[str], facts: Facts) -> set[str]:
    """The facts among `names` that need a request, if the run of `facts` requested none."""
    if any(name.startswith(ON_REQUEST) for name in facts):
        return set()
    return {name for name in names if name.startswith(ON_REQUEST)}


@record
class Cost:
    """A figure for which less is better, with the facts that state it and its allowed growth."""

    facts: tuple[str, ...]  #: names, or prefixes that end with a dot; a list counts by its sum
    noun: str  #: its name for readers
    #: the largest growth that is no finding, as a share; a manifest or a project may state another
    limit: float
    slack: int = 0  #: without a stated limit, growth by this number in one case is no finding


#: Costs by the names of their budgets, the most important first. Other facts describe code and are
#: no costs.
COSTS = {
    "kernels": Cost(facts=("kernels.called",), noun="kernels called", limit=0.3),
    "bytes": Cost(facts=("bytes.total",), noun="bytes moved", limit=0.1),
    "peak_memory": Cost(facts=("memory.peak",), noun="bytes of memory at the peak", limit=0.02),
    "loads": Cost(facts=("loads",), noun="loads in kernels", limit=0.1, slack=1),
    "spills": Cost(facts=("resources.spilled",), noun="bytes of spilled registers", limit=0.0),
    "options_left": Cost(
        facts=("left.",), noun="options of torch that a compile leaves changed", limit=0.0
    ),
    "graph_breaks": Cost(
        facts=("dynamo.graph_breaks", "shapes.breaks."), noun="graph breaks", limit=0.0
    ),
    "recompiles": Cost(
        facts=("shapes.compiled.", "shapes.eager.", "shapes.limit."), noun="compiles", limit=0.0
    ),
}


def cost_of(fact: str) -> str:
    """The name of the cost that a fact measures; empty if it measures none."""
    for cost in COSTS:
        for name in COSTS[cost].facts:
            if fact == name or (name.endswith(".") and fact.startswith(name)):
                return cost
    return ""


def increase(before: FactValue | None, after: FactValue | None) -> int:
    """The growth of a cost as a number: 1 for 2 -> 3, negative if it shrinks."""
    return _amount(after) - _amount(before)


def growth(before: FactValue | None, after: FactValue | None) -> float:
    """The growth of a cost as a share: 0.5 for 2 -> 3, infinite for 0 -> 1, 0 if it does
    not grow.
    """
    old, new = _amount(before), _amount(after)
    if new <= old:
        return 0.0
    return new / old - 1 if old else math.inf


def _amount(value: FactValue | None) -> int:
    if isinstance(value, tuple):
        return sum(value)
    return value if isinstance(value, int) else int(isinstance(value, str))


#: Comparisons by their operators.
ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_OPERATORS = ORDER | {"contains": operator.contains}
_FORM = re.compile(r"\s*(<=|>=|==|!=|<|>|contains)\s*(-?\d+(?:\.\d+)?)\s*")


def parse_predicate(text: str) -> Callable[[FactValue | float], bool]:
    """Parse a predicate in the form of manifests and bisect: `> 4`, `== 13`, `contains 6`.

    A fact that was not measured satisfies no predicate. Raises ValueError.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(
            f"not a predicate: {text!r}; write one of {' '.join(_OPERATORS)} and a number"
        )
    compare, number = _OPERATORS[match.group(1)], match.group(2)
    bound = float(number) if "." in number else int(number)

    def holds(value: FactValue | float) -> bool:
        if isinstance(value, (Unmeasured, str)):
            return False
        if isinstance(value, tuple) != (match.group(1) == "contains"):
            return False
        return compare(value, bound)

    return holds
