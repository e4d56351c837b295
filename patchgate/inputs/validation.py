"""Tables that people write (TOML, constants of a workload) -> frozen records, checked by the types
of their fields.

Nothing is converted silently: `title = 3` is refused. The first key that does not fit is named by
its path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar, cast, get_args

from cattrs import Converter
from cattrs.errors import (
    AttributeValidationNote,
    BaseValidationError,
    ForbiddenExtraKeysError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn, make_mapping_structure_fn, override
from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from patchgate.model.text import nearest

Record = TypeVar("Record")
#: Keys and indices: `("row", 2, "torch")` is a key of the third table `[[row]]`.
KeyPath = tuple[str | int, ...]
#: A field's value, from what the file has; raises ValueError.
Reader = Callable[[Any], Any]

_SCALARS = {str: ("string", '"..."'), int: ("whole number", "1"), float: ("number", "1.5")}


class Invalid(ValueError):
    """An invalid value at `path`: the problem, what it `got` ("" for the value itself), and a
    suggestion (`next`).
    """

    def __init__(self, what: str, *, path: KeyPath = (), got: str = "", next: str = "") -> None:
        self.what, self.path, self.got, self.next = what, path, got, next
        super().__init__(what)


@dataclass(frozen=True, kw_only=True)
class Key:
    """The description of a key beyond the name and the type of its field."""

    #: the key, where it is not the name of the field; None when no key sets the field
    name: str | None = ""
    read: Reader | None = None  #: takes the place of the field's type
    example: str = ""  #: what to write instead of a value that does not fit


_keys: dict[Any, Mapping[str, Key]] = {}
_converter = Converter()


def declare_keys(kind: type, /, **keys: Key) -> None:
    """Say how fields of the dataclass `kind` are written, by field name."""
    _keys[kind] = keys


def structure(kind: type[Record], table: Mapping[str, Any]) -> Record:
    """The record that `table` describes.

    Raises Invalid for the first unknown key, else the first that does not fit.
    """
    try:
        return _converter.structure(table, kind)
    except BaseValidationError as error:
        raise _first_fault(error, table) from None


def read_string(value: Any) -> str:
    """A text. Raises Invalid."""
    if not isinstance(value, str):
        raise Invalid("not a string")
    return value


def read_version(value: Any) -> str:
    """The text of a PEP 440 version. Raises Invalid."""
    try:
        Version(read_string(value))
    except InvalidVersion:
        raise Invalid("not a version") from None
    return str(value)


def read_requirement(value: Any) -> str:
    """The text of a requirement as pip takes it, but of torch. Raises Invalid."""
    try:
        name = Requirement(read_string(value)).name
    except InvalidRequirement:
        raise Invalid("not a requirement as pip takes it") from None
    if name.lower() == "torch":
        raise Invalid(
            "torch itself: the gate installs each release of it",
            next='releases = ["2.11.0", "2.12.1"]',
        )
    return str(value)


def one_of(choices: Iterable[str], noun: str) -> Reader:
    """Reads one of `choices`; anything else is "no `noun` `value`"."""
    known = tuple(choices)

    def read(value: Any) -> str:
        if value not in known:
            raise Invalid(f"no {noun} `{value}`", next=nearest(str(value), known))
        return str(value)

    return read


def list_of(read: Reader) -> Reader:
    """Reads a list, each item by `read`."""

    def read_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise Invalid("not a list of strings")
        return tuple(map(read, value))

    return read_all


def value_at(table: Any, path: KeyPath) -> Any:
    """The value at a path. Raises LookupError or TypeError when there is none."""
    for step in path:
        table = table[step]
    return table


def _first_fault(error: BaseException, table: Mapping[str, Any]) -> Invalid:
    path: KeyPath = ()
    example, kind = "", None
    while isinstance(error, BaseValidationError):
        keys = _keys.get(error.cl, {})
        error = min(
            error.exceptions, key=lambda each: not isinstance(each, ForbiddenExtraKeysError)
        )
        for note in getattr(error, "__notes__", ()):
            if isinstance(note, AttributeValidationNote):
                key = keys.get(note.name, Key())
                path, example = (*path, key.name or note.name), key.example or example
                kind = note.type
            elif isinstance(note, IterableValidationNote):
                path = (*path, note.index)
    if isinstance(error, ForbiddenExtraKeysError):
        keys = {field.name: Key() for field in fields(cast("Any", error.cl))} | dict(
            _keys.get(error.cl, {})
        )
        known = sorted(key.name or name for name, key in keys.items() if key.name is not None)
        path = (*path, next(key for key in value_at(table, path) if key not in known))
        return Invalid(
            f"`{_dotted(path)}`: unknown key",
            path=path,
            next=nearest(str(path[-1]), known, "known keys"),
        )
    while path and isinstance(path[-1], int):
        path = path[:-1]  # an item has no line of its own
    example = example or f"{path[-1]} = {_example(kind)}"
    if isinstance(error, KeyError):
        return Invalid(f"`{_dotted(path)}`: missing", path=path, got="no such key", next=example)
    if isinstance(error, Invalid):
        path, example = (*path, *error.path), error.next or example
    return Invalid(f"`{_dotted(path)}`: {error}", path=path, next=example)


def _example(kind: Any) -> str:
    if getattr(kind, "__origin__", None) is tuple:
        return "[...]"
    return next(
        (text for scalar, (_, text) in _SCALARS.items() if scalar in (kind, *get_args(kind))), "..."
    )


def _dotted(path: KeyPath) -> str:
    return ".".join(step for step in path if isinstance(step, str))


def _read_scalar(value: Any, kind: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else kind):
        raise Invalid(f"not a {_SCALARS[kind][0]}")
    return kind(value)


def _read_enum(value: Any, kind: type[Enum]) -> Enum:
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(f'"{choice.value}"' for choice in kind)
        raise Invalid("not one of its values", next=f"one of {choices}") from None


def _read_list(value: Any, kind: Any) -> tuple[Any, ...]:
    item = get_args(kind)[0]
    if isinstance(value, (list, tuple)):
        try:
            return tuple(_converter.structure(value, cast("type", list.__class_getitem__(item))))
        except BaseValidationError:
            if item not in _SCALARS:
                raise
    raise Invalid(f"not a list of {_SCALARS[item][0] if item in _SCALARS else 'table'}s")


def _table_hook(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    """Structures a dataclass, or a dictionary, from a table and from nothing else."""
    inner: Any
    if is_dataclass(kind):
        overrides: Any = {
            name: override(
                omit=key.name is None, rename=key.name or None, struct_hook=_hook(key.read)
            )
            for name, key in _keys.get(kind, {}).items()
        }
        inner = make_dict_structure_fn(
            cast("type", kind), converter, _cattrs_forbid_extra_keys=True, **overrides
        )
    else:
        inner = make_mapping_structure_fn(kind, converter)

    def hook(value: Any, kind: Any) -> Any:
        if not isinstance(value, dict):
            raise Invalid("not a table")
        return inner(value, kind)

    return hook


def _hook(read: Reader | None) -> Callable[[Any, Any], Any] | None:
    return read and (lambda value, _: read(value))


def _has_origin(origin: type) -> Callable[[Any], bool]:
    return lambda kind: getattr(kind, "__origin__", None) is origin


for _scalar in _SCALARS:
    _converter.register_structure_hook(_scalar, _read_scalar)
_converter.register_structure_hook_func(
    lambda kind: isinstance(kind, type) and issubclass(kind, Enum), _read_enum
)
_converter.register_structure_hook_func(_has_origin(tuple), _read_list)
for _is_table in (is_dataclass, _has_origin(dict)):
    _converter.register_structure_hook_factory(_is_table)(_table_hook)
