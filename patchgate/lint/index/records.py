"""What the index tells about one torch release: modules, classes, functions and calls as records.

Decides the words that index and lint share. No I/O, standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Parameter:
    name: str
    kind: str
    default: str | None = None


@dataclass(frozen=True, kw_only=True)
class Function:
    name: str
    parameters: tuple[Parameter, ...] = ()
    form: str = "function"
    is_async: bool = False
    returns: str | None = None
    body: str = ""


@dataclass(frozen=True, kw_only=True)
class Class:
    name: str
    bases: tuple[str, ...] = ()
    functions: dict[str, Function] = field(default_factory=dict)
    attributes: dict[str, str | None] = field(default_factory=dict)
    has_getattr: bool = False
    abstract: bool = False


@dataclass(frozen=True, kw_only=True)
class Module:
    name: str
    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, Class] = field(default_factory=dict)
    attributes: dict[str, str | None] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    lazy_imports: dict[str, str] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    # (who keeps it, origin) of functions that the module hands to registries and tables.
    held: tuple[tuple[str, str], ...] = ()
    has_getattr: bool = False


@dataclass(frozen=True, kw_only=True)
class CallSite:
    module: str
    function: str
    positional: int
    keywords: tuple[str, ...] = ()
    star: bool = False
