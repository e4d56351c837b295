"""Convert records to plain dicts and back, for our own JSON and for tables that people write (TOML,
constants of a workload).

A value is read by the type of its field, and nothing is converted silently: `title = 3` is refused,
and the message names its path. A missing fact is `{"unmeasured": why}`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from patchgate.model.errors import UsageError
from patchgate.model.records import Case, Cause, FactValue, Failure, Observation, Unmeasured
from patchgate.model.text import nearest

Record = TypeVar("Record")
Answer = dict[str, Any]
#: Keys and indices: `("row", 2, "torch")` is a key of the third table `[[row]]`.
KeyPath = tuple[str | int, ...]
#: Turns a value in a file into the value of a field; raises ValueError.
Reader = Callable[[Any], Any]

# Type -> its name for readers, and an example.
_SCALARS = {
    str: ("string", '"..."'),
    bool: ("boolean", "true"),
    int: ("whole number", "1"),
    float: ("number", "1.5"),
}


class Invalid(ValueError):
    """An invalid value at `path`, with the problem (`what`), the bad input (`got`; "" means the
    value itself), and a suggestion (`next`).
    """

    def __init__(self, what: str, *, path: KeyPath = (), got: str = "", next: str = "") -> None:
        self.what, self.path, self.got, self.next = what, path, got, next
        super().__init__(what)


class Key(NamedTuple):
    """The form of a field in files that people write, beyond its name and type."""

    #: the key, if it differs from the name of the field; None if no key sets the field
    name: str | None = ""
    read: Reader | None = None  #: reads the value in place of the reader of the field's type
    example: str = ""  #: a text to write instead of a value that does not fit


def key(default: Any = dataclasses.MISSING, **how: Any) -> Any:
    """Return a dataclass field that people write, with the properties of a `Key`. If `default` is a
    function, it is called for the default value.
    """
    made = {"default_factory" if callable(default) else "default": default}
    return dataclasses.field(**made, metadata={Key: Key(**how)})


def one_of(choices: Iterable[str], noun: str) -> Reader:
    """Return a reader that accepts `choices` only, and otherwise raises "no `noun` `value`"."""
    known = tuple(choices)

    def read(value: Any) -> str:
        if value not in known:
            raise Invalid(f"no {noun} `{value}`", next=nearest(str(value), known))
        return str(value)

    return read


def list_of(read: Reader) -> Reader:
    """Return a reader of lists that reads each item by `read`."""

    def read_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise Invalid("not a list of strings")
        return tuple(map(read, value))

    return read_all


def structure(kind: type[Record], table: object, *, written: bool = True) -> Record:
    """Return the record that a table describes. The keys of the table are those that people write
    if `written`, otherwise the names of the fields.

    Raises Invalid for the first unknown key, or else for the first value that does not fit.
    """
    try:
        record: Record = _reader(kind, written)(table)  # type: ignore[arg-type]
        return record
    except Invalid as fault:
        dotted = ".".join(step for step in fault.path if isinstance(step, str))
        raise Invalid(
            f"`{dotted}`: {fault.what}" if dotted else fault.what,
            path=fault.path,
            got=fault.got,
            next=fault.next,
        ) from None


@cache
def _reader(kind: Any, written: bool) -> Reader:
    """The reader of a type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value: value
    if kind == FactValue:
        return fact_from
    if kind in _SCALARS:
        return partial(_read_scalar, kind)
    if is_dataclass(kind):
        return partial(_read_record, kind, _keys(kind, written))
    if origin is dict:
        return partial(_read_mapping, _reader(arguments[1], written))
    if origin is tuple:
        readers = [_reader(each, written) for each in arguments if each is not ...]
        noun = _SCALARS.get(arguments[0], ("table",))[0]
        return partial(_read_list, noun, readers, arguments[-1] is ...)
    if type(None) in arguments:
        read = _reader(arguments[0], written)
        return lambda value: None if value is None else read(value)
    return partial(_read_enum, kind)


def _read_scalar(kind: Any, value: Any) -> Any:
    fits = isinstance(value, (int, float) if kind is float else kind)
    if not fits or (isinstance(value, bool) and kind is not bool):
        raise Invalid(f"not a {_SCALARS[kind][0]}")
    try:
        return kind(value)
    except OverflowError:
        raise Invalid("too large a number") from None


def read_string(value: Any) -> str:
    """Return a value that is a string. Raises Invalid for any other."""
    return str(_read_scalar(str, value))


def read_version(value: Any) -> str:
    """Return the text of a PEP 440 version. Raises Invalid for any other value."""
    text = read_string(value)
    try:
        _parse_version(text)
    except ValueError:  # also a number that is too long for Python
        raise Invalid("not a version") from None
    return text


_parse_version = cache(Version)


def read_requirement(value: Any) -> str:
    """Return a requirement in pip's syntax. Raises Invalid for any other value, and for torch."""
    # Imported here, because the import takes longer than linting a small file.
    from packaging.requirements import Requirement

    text = read_string(value)
    try:
        name = Requirement(text).name
    except ValueError:
        raise Invalid("not a requirement as pip takes it") from None
    if name.lower() == "torch":
        raise Invalid(
            "torch itself: the gate installs each release of it",
            next='releases = ["2.11.0", "2.12.1"]',
        )
    return text


def read_specifier(value: Any) -> str:
    """Return the text of a PEP 440 specifier. Raises Invalid for any other value."""
    text = read_string(value)
    try:
        SpecifierSet(text).contains("2")  # raises if a number has too many digits
    except ValueError:
        raise Invalid("not a PEP 440 specifier") from None
    return text


def _read_enum(kind: type[Enum], value: Any) -> Enum:
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(f'"{choice.value}"' for choice in kind)
        raise Invalid("not one of its values", next=f"one of {choices}") from None


def _read_list(noun: str, readers: list[Reader], is_long: bool, value: Any) -> tuple[Any, ...]:
    if isinstance(value, (list, tuple)) and (is_long or len(value) == len(readers)):
        some = readers * len(value) if is_long else readers
        try:
            return tuple(
                _read_at(at, *each, "") for at, each in enumerate(zip(some, value, strict=True))
            )
        except Invalid as fault:
            if len(fault.path) > 1:
                raise
    raise Invalid(f"not a list of {noun}s")


def _read_mapping(read: Reader, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Invalid("not a table")
    return {name: _read_at(name, read, each, "") for name, each in value.items()}


class _FieldKey(NamedTuple):
    field: str
    read: Reader
    example: str
    is_required: bool


def _keys(kind: Any, written: bool) -> dict[str, _FieldKey]:
    """Return the fields of a dataclass, each under the key that sets it in a table."""
    types, keys = get_type_hints(kind), {}
    for field in fields(kind):
        how: Key = field.metadata.get(Key, Key()) if written else Key()
        name, read = how.name or field.name, how.read or _reader(types[field.name], written)
        example = how.example or f"{name} = {_example(types[field.name])}"
        is_required = field.default is field.default_factory  # MISSING, both of them
        if how.name is not None:
            keys[name] = _FieldKey(field.name, read, example, is_required)
    return keys


def _example(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return "[...]"
    named = (_SCALARS[each][1] for each in (kind, *get_args(kind)) if each in _SCALARS)
    return next(named, "...")


def _read_record(kind: Any, keys: Mapping[str, _FieldKey], value: Any) -> Any:
    if not isinstance(value, dict):
        raise Invalid("not a table")
    for name in value:
        if name not in keys:
            raise Invalid(
                "unknown key", path=(name,), next=nearest(str(name), sorted(keys), "known keys")
            )
    read = {}
    for name, key in keys.items():
        if name in value:
            read[key.field] = _read_at(name, key.read, value[name], key.example)
        elif key.is_required:
            raise Invalid("missing", path=(name,), got="no such key", next=key.example)
    made = kind(**read)
    _CHECKS.get(kind, lambda record: None)(made)
    return made


def _check_case(case: Case) -> None:
    """Raise Invalid if a part of the case cannot be in the name of a golden or result file."""
    for step, name in (("workload", case.workload), ("device", case.device), ("patch", case.patch)):
        if name and (
            _NO_NAME.search(name)
            or not name.isprintable()
            or not name.strip(".")
            or len(name.encode()) > _LONGEST_NAME
        ):
            raise Invalid("not a name", path=(step,), got=repr(name)[:80])
    if case.torch:
        _read_at("torch", read_version, case.torch, "")


def _check_facts(observation: Observation) -> None:
    """Raise Invalid for a fact whose name is not one word in a line of a golden file."""
    for name in observation.facts:
        if not name.isprintable() or len(name.split()) != 1 or name[0] in "#[":
            raise Invalid("not the name of a fact", path=("facts",), got=repr(name)[:80])


# A separator of folders, of words, or of the sections of a golden file.
_NO_NAME = re.compile(r"[/\\\s\[\]]")
# The most bytes of a name. A file name has several names; file systems allow it 255 bytes.
_LONGEST_NAME = 200
# The JSON escape of half a surrogate pair; only both halves are a character (beyond U+FFFF).
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
# Checks of records beyond the types of fields, because files may have been written by hand.
_CHECKS: dict[Any, Callable[[Any], None]] = {Case: _check_case, Observation: _check_facts}


def _read_at(step: str | int, read: Reader, value: Any, example: str) -> Any:
    """Read a value. Raises Invalid with the step in its path."""
    try:
        return read(value)
    except ValueError as error:
        fault = error if isinstance(error, Invalid) else Invalid(str(error))
        fault.path, fault.next = (step, *fault.path), fault.next or example
        raise fault from None


def fact_from(value: Any) -> FactValue:
    """Read one fact in the form of the probe or a file. Raises ValueError on anything else."""
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


def parse_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises ValueError for invalid JSON, for too deep nesting, and for half a surrogate pair, which
    can neither be written to a file nor be in the name of a file.
    """
    try:
        value = json.loads(text)
        if _HALF.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except RecursionError:
        raise ValueError("nested too deep") from None


def to_dict(record: object) -> dict[str, Any]:
    """A record as plain dicts, lists and scalars."""
    plain: dict[str, Any] = _plain(record)
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, Unmeasured):
        return fact_to(value)
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [*map(_plain, value)]
    return value.value if isinstance(value, Enum) else value


def from_dict(kind: type[Record], data: object, *, where: str) -> Record:
    """Return the record that `data` describes. If it does not fit, raises UsageError with `where`
    and the reason.
    """
    try:
        return structure(kind, data, written=False)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"not a valid {kind.__name__.lower()}", where=where, got=str(error)[:500]
        ) from None


def ran_of(answer: Answer) -> dict[str, Any]:
    """Return four fields of an `Observation` from an answer: the lines that ran, the outcomes of
    conditions, the used stubs, and the callers of originals.
    """
    took = tuple((line, word) for line, word in answer.get("took", ()))
    return {
        "ran": tuple(answer.get("ran", ())),
        "took": took,
        "stubbed": tuple(answer.get("stubbed", ())),
        "callers": dict(answer.get("callers", {})),
    }


def failure_of(answer: Mapping[str, Any]) -> Failure | None:
    """The failure in an answer, if any."""
    if "failure" not in answer:
        return None
    failure = answer["failure"]
    missing = tuple(failure.get("missing", ()))
    return Failure(**{**failure, "cause": Cause(failure["cause"]), "missing": missing})
