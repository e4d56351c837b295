"""Parameters of a command. They are declared once, in the annotations and defaults of the function
that carries out the command.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import click

#: Makes a parameter of click from the name and the type of a function's parameter.
Parameter = Callable[[str, Any], Callable[[Any], Any]]


def options(
    function: Callable[..., Any], of: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Add click parameters to `function` as it, or the function `of`, declares them: by a default,
    `strict: bool = option()`, or by an `Annotated` type, `rows: Rows`.
    """
    said = of or function
    for name, hint in reversed(get_type_hints(said, include_extras=True).items()):
        kind, by_type = get_args(hint) if get_origin(hint) is Annotated else (hint, None)
        parameter = (said.__kwdefaults__ or {}).get(name, by_type)
        if parameter:
            function = parameter(name, kind)(function)
    return function


def option(*names: str, **how: Any) -> Any:
    """An option. Without `names` it is named after its parameter: `--time-limit` for `time_limit`.
    Every option except a flag takes a value. An option whose type is a tuple may be repeated.
    """

    def of(name: str, kind: Any) -> Callable[[Any], Any]:
        flags = names or (f"--{name.replace('_', '-')}",)
        shown = {"show_default": "default" in how, "multiple": get_origin(kind) is tuple}
        if kind is bool:  # `False` would let other options lack their values
            shown["is_flag"] = True
        return click.option(*flags, name, **{**shown, **_typed(kind, how)})

    return of


def argument(**how: Any) -> Any:
    """An argument. An argument whose type is a tuple takes all given values."""

    def of(name: str, kind: Any) -> Callable[[Any], Any]:
        count = {"nargs": -1 if get_origin(kind) is tuple else 1}
        required = {"required": False} if type(None) in get_args(kind) else {}
        return click.argument(name, **{**count, **required, **_typed(kind, how)})

    return of


def _typed(kind: Any, how: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a click parameter, completed by its type. For a path, conditions such as
    `exists` go into the type.
    """
    if Path not in (kind, *get_args(kind)):
        return how
    of_path = {name: how[name] for name in ("exists", "file_okay", "dir_okay") if name in how}
    rest = {name: how[name] for name in how if name not in of_path}
    return {**rest, "type": click.Path(path_type=Path, **of_path)}
