"""The text files of the index -> records, of one module and one class at a time.

Decides when a line is read: not before it is asked for. Refuses to follow names from one module to another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from patchgate.lint.index.records import CallSite, Class, Function, Module, Parameter
from patchgate.lint.index.release_set import Spans

Value = TypeVar("Value")
_FORMS = {"static": "static", "classmethod": "class", "property": "property", "cached": "cached-property"}


class Lazy(dict[str, Value]):
    """A dict whose values are made when they are first looked at."""

    def __init__(self, names: list[str], make: Callable[[str], Value]) -> None:
        unmade: Any = dict.fromkeys(names)
        super().__init__(unmade)
        self._make = make

    def __getitem__(self, name: str) -> Value:
        value = super().__getitem__(name)
        if value is None:
            value = self._make(name)
            self[name] = value
        return value

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def values(self) -> Any:
        return dict(self.items()).values()

    def items(self) -> Any:
        return {name: self[name] for name in self}.items()

    def __eq__(self, other: object) -> bool:
        return dict(self.items()) == other

    __hash__ = None

    def __repr__(self) -> str:
        return repr(dict(self.items()))


@dataclass
class _Body:
    """What a module or class has, each with its releases as a mask."""

    head: list[tuple[int, str]]
    attributes: list[tuple[int, str, str | None]]
    options: list[tuple[int, str, str]]
    functions: list[tuple[int, str, str, str]]  # releases, name, line, fingerprint
    made: dict[int, Class]


class Stored:
    """One file of `api/`: everything a module ever was."""

    def __init__(self, text: str, spans: Spans) -> None:
        self.spans = spans
        first, *blocks = text.removesuffix("\n").split("\nclass ")
        self._own, self.name, self.life = self._opened(first.removeprefix("module "), spans.all)
        self._classes: dict[str, tuple[int, str]] = {}
        for block in blocks:
            rest, name, life = self._opened(block, self.life)
            self._classes[name] = (life, rest)
        self._bodies: dict[str, _Body] = {}

    def _opened(self, block: str, life: int) -> tuple[str, str, int]:
        header, _, rest = block.partition("\n")
        name, tab, span = header.partition("\t")
        return rest, name, self.spans.mask(span) if tab else life

    def module(
        self, version: str, imports: dict[str, str], lazy: dict[str, str], held: tuple[tuple[str, str], ...] = ()
    ) -> Module | None:
        bit = self.spans.bits[version]
        if not self.life & bit:
            return None
        body = self._body("")
        functions = self._functions(body, bit, in_class=False)
        names = [name for name, (life, _) in self._classes.items() if life & bit]
        return Module(
            name=self.name,
            functions=functions,
            classes=Lazy(names, lambda name: self._class(name, bit)),
            attributes={name: note for mask, name, note in body.attributes if mask & bit},
            imports=imports,
            lazy_imports=lazy,
            held=held,
            config={name: value for mask, name, value in body.options if mask & bit},
            has_getattr="__getattr__" in functions or any(mask & bit for mask, _ in body.head),
        )

    def _class(self, name: str, bit: int) -> Class:
        body = self._body(name)
        if bit not in body.made:
            head = next((text for mask, text in body.head if mask & bit), "")
            bases, _, flags = head.partition(" | ") if " | " in head else (head, "", "")
            body.made[bit] = Class(
                name=name,
                bases=tuple(base for base in bases.split(", ") if base),
                functions=self._functions(body, bit, in_class=True),
                attributes={each: note for mask, each, note in body.attributes if mask & bit},
                has_getattr="getattr" in flags,
                abstract="abstract" in flags,
            )
        return body.made[bit]

    def _functions(self, body: _Body, bit: int, *, in_class: bool) -> dict[str, Function]:
        lines = {name: (line, print_) for mask, name, line, print_ in body.functions if mask & bit}
        return Lazy(list(lines), lambda name: function(*lines[name], in_class))

    def _body(self, name: str) -> _Body:
        if name not in self._bodies:
            life, text = self._classes[name] if name else (self.life, self._own)
            self._bodies[name] = _parsed(text, life, self.spans)
        return self._bodies[name]


def _parsed(text: str, life: int, spans: Spans) -> _Body:
    body = _Body([], [], [], [], {})
    for line in text.split("\n"):
        words, tab, span = line.partition("\t")
        mark, _, rest = words.partition(" ")
        if words.startswith((". ", "? ", ": ")):
            mask = spans.mask(span) if tab else life
            if mark == ":":
                body.head.append((mask, rest))
            elif mark == "?":
                option, _, value = rest.partition(" = ")
                body.options.append((mask, option, value))
            else:
                attribute, colon, note = rest.partition(": ")
                if colon:
                    body.attributes.append((mask, attribute, note))
                else:
                    body.attributes.extend((mask, each, None) for each in rest.split(" "))
        elif words:
            name = words[words.index("def ") + 4 : words.index("(")]
            body.functions += [(mask, name, words, print_) for mask, print_ in spans.stepped(span, life)]
    return body


@cache
def function(line: str, body: str, in_class: bool) -> Function:
    """The record behind one `def` line."""
    before, _, rest = line.partition("def ")
    signature, arrow, returns = rest.rpartition(") -> ")
    name, _, parameters = (signature if arrow else rest.removesuffix(")")).partition("(")
    words = before.split()
    form = next((_FORMS[word] for word in words if word in _FORMS), "method" if in_class else "function")
    return Function(
        name=name,
        parameters=parse_parameters(parameters),
        form=form,
        is_async="async" in words,
        returns=returns if arrow else None,
        body=body,
    )


@cache
def parse_parameters(text: str) -> tuple[Parameter, ...]:
    if not re.fullmatch(r"[\w ,=*/.\-]*", text) or "lambda" in text:
        from patchgate.lint.index.read_function import read_parameters

        return read_parameters(text)
    found: list[Parameter] = []
    kind = "positional"
    for each in text.split(", ") if text else ():
        name, equals, default = each.partition("=")
        if name == "/":
            found = [Parameter(name=old.name, kind="positional-only", default=old.default) for old in found]
        elif name.startswith("**"):
            found.append(Parameter(name=name[2:], kind="var-keyword"))
        elif name.startswith("*"):
            kind = "keyword"
            if name != "*":
                found.append(Parameter(name=name[1:], kind="var-positional"))
        else:
            found.append(Parameter(name=name, kind=kind, default=default if equals else None))
    return tuple(found)


def lines_with(text: str, needle: str) -> Iterator[tuple[int, int]]:
    """(start, stop) of each line in which `needle` stands."""
    at = text.find(needle)
    while at >= 0:
        start, stop = text.rfind("\n", 0, at) + 1, text.find("\n", at)
        yield start, stop
        at = text.find(needle, stop)


def heading(text: str, kind: str, at: int, since: int = 0) -> tuple[str, int]:
    """(name, place) of the last `module: NAME` or `class: NAME` between `since` and the line at `at`."""
    opened = text.rfind(f"\n{kind}: ", since, at)
    if opened < 0 and not text.startswith(f"{kind}: ", since):
        return "", since
    start = (opened + 1 if opened >= 0 else since) + len(kind) + 2
    return text[start : text.index("\n", start)], start


def block_of(text: str, module: str) -> list[str]:
    """The lines below `module: NAME`."""
    head = f"module: {module}\n"
    at = 0 if text.startswith(head) else text.find(f"\n{head}") + 1
    if not text.startswith(head, at):
        return []
    stop = text.find("\nmodule: ", at)
    return text[at + len(head) : stop if stop >= 0 else len(text)].splitlines()


def caller(text: str, start: int) -> tuple[str, str]:
    """(module, function) of the line of calls that starts there; lines of one function follow one another."""
    first = start
    while text.startswith(" ", first):
        first = text.rfind("\n", 0, first - 1) + 1
    module, since = heading(text, "module", start)
    owner, _ = heading(text, "class", start, since)
    return module, qualified(owner, text[first : text.index(" ", first)])


def qualified(owner: str, function: str) -> str:
    """`-`, the module itself, has no name."""
    return f"{owner}.{function}" if owner else function if function != "-" else ""


def call_site(module: str, function: str, words: str) -> CallSite:
    """The call behind `name/2*,key`."""
    count, *keywords = words.partition("/")[2].split(",")
    return CallSite(
        module=module,
        function=function,
        positional=int(count.rstrip("*")),
        keywords=tuple(keywords),
        star=count.endswith("*"),
    )
