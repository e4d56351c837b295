"""A predicate on one fact, as manifests and bisect write it: `> 4`, `== 13`, `contains 6`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

from patchgate.model.records import FactValue, Unmeasured

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
    """Parse a predicate; a fact that was not measured satisfies none.

    Raises ValueError.
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
