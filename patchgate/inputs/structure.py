"""Tables that people write (TOML, constants of a workload) -> frozen records, checked by the types of their fields.

Nothing is converted silently: `title = 3` is refused. The first key that does not fit is named by its path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar, cast, get_args, get_origin

from cattrs import Converter
from cattrs.errors import AttributeValidationNote, BaseValidationError, ForbiddenExtraKeysError, IterableValidationNote
from cattrs.gen import make_dict_structure_fn, make_mapping_structure_fn, override
from packaging.version import InvalidVersion, Version

from patchgate.model.text import did_you_mean

Record = TypeVar("Record")
KeyPath = tuple[str | int, ...]
Reader = Callable[[Any], Any]

_NAMES: dict[Any, tuple[str, str]] = {
    str: ("a string", "strings"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
}


class Invalid(ValueError):
    """What is wrong at `path`, a sequence of keys and indices, what is there, and what to write instead (`next`)."""

    def __init__(self, what: str, *, path: KeyPath = (), got: str = "", next: str = "") -> None:
        self.what, self.path, self.got, self.next = what, path, got, next
        super().__init__(what)


@dataclass(frozen=True, kw_only=True)
class Key:
    """What the name and the type of a field do not tell of its key."""

    #: The key in the file, where it is not the name of the field.
    name: str = ""
    #: The field's value, from what the file has; raises ValueError. Without it the type of the field decides.
    read: Reader | None = None
    #: What to write instead of a value that does not fit.
    example: str = ""
    #: False for a field that the place of the file decides: no key sets it.
    in_file: bool = True


_keys: dict[type, Mapping[str, Key]] = {}
_converter = Converter()


def declare_keys(kind: type, /, **keys: Key) -> None:
    """Say how fields of the dataclass `kind` are written, by field name."""
    _keys[kind] = keys


def structure(kind: type[Record], table: Mapping[str, Any]) -> Record:
    """The record that `table` describes. Raises Invalid for the first unknown key, else the first that does not fit."""
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
    """A PEP 440 version. Raises Invalid."""
    try:
        Version(read_string(value))
    except InvalidVersion:
        raise Invalid("not a version") from None
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
        return tuple(read(item) for item in value)

    return read_all


def nearest(name: str, known: Iterable[str], label: str = "one of") -> str:
    """What to write instead of a name that is not among the known ones."""
    known = list(known)
    return did_you_mean(name, known) or f"{label}: {', '.join(known)}"


def value_at(table: Any, path: KeyPath) -> Any:
    """The value at a path. Raises LookupError or TypeError when there is none."""
    for step in path:
        table = table[step]
    return table


def _first_fault(error: BaseException, table: Mapping[str, Any]) -> Invalid:
    path: KeyPath = ()
    kind, example = None, ""
    while isinstance(error, BaseValidationError):
        owner = error.cl
        error = min(error.exceptions, key=lambda each: not isinstance(each, ForbiddenExtraKeysError))
        for note in getattr(error, "__notes__", ()):
            if isinstance(note, AttributeValidationNote):
                key = _keys.get(owner, {}).get(note.name, Key())
                path, kind, example = (*path, key.name or note.name), note.type, key.example or example
            elif isinstance(note, IterableValidationNote):
                path = (*path, note.index)
    if isinstance(error, ForbiddenExtraKeysError):
        known = _key_names(error.cl)
        name = next(key for key in value_at(table, path) if key not in known)
        return Invalid(
            f"`{_dotted((*path, name))}`: unknown key", path=(*path, name), next=nearest(name, known, "known keys")
        )
    if isinstance(error, KeyError):
        return Invalid(
            f"`{_dotted(path)}`: missing",
            path=path,
            got="no such key",
            next=example or f"{path[-1]} = {_example(kind)}",
        )
    while path and isinstance(path[-1], int):
        path = path[:-1]  # an item has no line of its own
    if isinstance(error, Invalid):
        path, example = (*path, *error.path), error.next or example
    return Invalid(f"`{_dotted(path)}`: {error}", path=path, next=example or f"{path[-1]} = {_example(kind)}")


def _dotted(path: KeyPath) -> str:
    return ".".join(step for step in path if isinstance(step, str))


def _key_names(kind: type) -> list[str]:
    keys = _keys.get(kind, {})
    declared = {field.name: keys.get(field.name, Key()) for field in fields(kind)}
    return sorted(key.name or name for name, key in declared.items() if key.in_file)


def _example(kind: Any) -> str:
    kinds = (kind, *get_args(kind))
    if get_origin(kind) is tuple:
        return "[...]"
    return '"..."' if str in kinds else "1.5" if float in kinds else "1"


def _read_exactly(value: Any, kind: Any) -> Any:
    allowed = (int, float) if kind is float else (kind,)
    if isinstance(value, bool) or not isinstance(value, allowed):
        raise Invalid(f"not {_NAMES[kind][0]}")
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
            if item not in _NAMES:
                raise
    raise Invalid(f"not a list of {_NAMES[item][1] if item in _NAMES else 'tables'}")


def _table_hook(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    """Structures a dataclass, or a dictionary, from a table and from nothing else."""
    if is_dataclass(kind):
        overrides: dict[str, Any] = {
            name: override(
                omit=not key.in_file, rename=key.name or None, struct_hook=_hook(key.read) if key.read else None
            )
            for name, key in _keys.get(cast("type", kind), {}).items()
        }
        inner: Any = make_dict_structure_fn(cast("type", kind), converter, _cattrs_forbid_extra_keys=True, **overrides)
    else:
        inner = make_mapping_structure_fn(kind, converter)

    def hook(value: Any, kind: Any) -> Any:
        if not isinstance(value, dict):
            raise Invalid("not a table")
        return inner(value, kind)

    return hook


def _hook(read: Reader) -> Callable[[Any, Any], Any]:
    return lambda value, _: read(value)


def _is_table(kind: Any) -> bool:
    return is_dataclass(kind) or get_origin(kind) is dict


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is tuple


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


for _scalar in _NAMES:
    _converter.register_structure_hook(_scalar, _read_exactly)
_converter.register_structure_hook_func(_is_enum, _read_enum)
_converter.register_structure_hook_func(_is_list, _read_list)
_converter.register_structure_hook_factory(_is_table)(_table_hook)
