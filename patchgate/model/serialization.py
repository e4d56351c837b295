"""Records to JSON-ready dicts and back.

A missing fact is `{"unmeasured": why}`. What does not fit is refused with its dotted path.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from cattrs import Converter, transform_error
from cattrs.errors import ClassValidationError, IterableValidationError

from patchgate.model.errors import UsageError
from patchgate.model.records import Cause, FactValue, Failure, Unmeasured

Record = TypeVar("Record")
Answer = dict[str, Any]

_converter = Converter(forbid_extra_keys=True)


def fact_from(value: Any) -> FactValue:
    """One fact as the probe or a file wrote it. Raises ValueError on anything else."""
    if isinstance(value, dict) and set(value) == {"unmeasured"}:
        return Unmeasured(reason=str(value["unmeasured"]))
    if isinstance(value, (list, tuple)) and all(type(item) is int for item in value):
        return tuple(value)
    if type(value) in (int, str):
        return value  # type: ignore[no-any-return]
    raise ValueError(f"not a fact: {value!r}")


def fact_to(value: FactValue) -> Any:
    if isinstance(value, Unmeasured):
        return {"unmeasured": value.reason}
    return list(value) if isinstance(value, tuple) else value


_converter.register_structure_hook_func(
    lambda kind: kind == FactValue, lambda value, _: fact_from(value)
)
_converter.register_unstructure_hook_func(lambda kind: kind == FactValue, fact_to)
_converter.register_unstructure_hook(
    tuple, lambda value: [_converter.unstructure(item) for item in value]
)
_converter.register_unstructure_hook(Unmeasured, fact_to)


def parse_json(text: str) -> Any:
    """The value of a JSON text. Raises ValueError also for one that is nested too deep."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def to_dict(record: object) -> dict[str, Any]:
    """A record as plain dicts, lists and scalars."""
    plain: dict[str, Any] = _converter.unstructure(record)
    return plain


def from_dict(kind: type[Record], data: object, *, where: str) -> Record:
    """The record that `data` describes.

    Raises UsageError naming `where` and each path that does not fit.
    """
    what = f"not a valid {kind.__name__.lower()}"
    if not isinstance(data, dict):
        raise UsageError(what, where=where, got=repr(data))
    try:
        return _converter.structure(data, kind)
    except (ClassValidationError, IterableValidationError) as error:
        faults = transform_error(error, path=kind.__name__.lower())
        raise UsageError(what, where=where, got="; ".join(faults)[:500]) from None
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise UsageError(what, where=where, got=repr(error)[:500]) from None


def ran_of(answer: Answer) -> dict[str, Any]:
    """The lines that ran, the outcomes that were taken and the stubs that were used, as an
    `Observation` has them.
    """
    took = tuple((line, word) for line, word in answer.get("took", ()))
    return {
        "ran": tuple(answer.get("ran", ())),
        "took": took,
        "stubbed": tuple(answer.get("stubbed", ())),
    }


def failure_of(answer: Mapping[str, Any]) -> Failure | None:
    """The failure that an answer tells of, if any."""
    if "failure" not in answer:
        return None
    failure = answer["failure"]
    missing = tuple(failure.get("missing", ()))
    return Failure(**{**failure, "cause": Cause(failure["cause"]), "missing": missing})
