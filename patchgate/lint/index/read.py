"""The text files of an index (docs/index-format.md) -> records. A file, and a line of it, is read when it is needed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TypeVar

from patchgate.lint.index.digests import CheckedFiles
from patchgate.lint.index.read_module import read_parameters
from patchgate.lint.index.records import CallSite, Class, Function, Module, Parameter
from patchgate.lint.index.resolve import module_of
from patchgate.model.versions import ReleaseSets

Value = TypeVar("Value")
_FORMS = {"static": "static", "classmethod": "class", "property": "property", "cached": "cached-property"}


class IndexFiles:
    """The files below one folder, each read at most once. Sets of releases are masks of `sets`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = CheckedFiles(folder)
        lines = [line.split(" ") for line in self._text("releases.txt").splitlines()]
        #: Release -> the triton that it requires, or nothing; oldest first.
        self.triton = {version: (rest or [""])[0] for version, *rest in lines}
        self.sets = ReleaseSets(list(self.triton))
        self.module_file = cache(self._module_file)
        self._api = cache(lambda module: self._text(f"api/{module}.txt"))
        self.definers = cache(self._definers)
        self.imports_of = cache(self._imports_of)
        self.modules_imported_by = cache(self._modules_imported_by)
        self.bindings = cache(self._bindings)
        self.calls_of = cache(self._calls_of)
        self.derived_from = cache(self._derived_from)
        self.calls_in = cache(lambda module: list(self._calls_in(module)))

    def _text(self, path: str) -> str:
        return self._files.text(path)

    def _blocks(self, files: list[str]) -> dict[str, str]:
        """Module -> its lines, of the files that hold several modules."""
        blocks = {}
        for file in files:
            for block in self._text(file).removeprefix("module: ").split("\nmodule: "):
                name, _, blocks[name] = block.partition("\n")
        return blocks

    @cached_property
    def modules(self) -> dict[str, int]:
        """Module -> its releases."""
        return dict(_ended(line, self.sets.all, self.sets) for line in self._text("modules.txt").splitlines())

    def modules_in(self, bit: int) -> frozenset[str]:
        """The modules of the release of that bit."""
        return frozenset().union(*(names for mask, names in self._modules_alike if mask & bit))

    @cached_property
    def _modules_alike(self) -> list[tuple[int, frozenset[str]]]:
        """(releases, modules) of the modules that are in the same releases, and the packages around them."""
        alike: dict[int, set[str]] = defaultdict(set)
        for name, mask in self.modules.items():
            alike[mask].update((name, name.partition(".")[0]))
        return [(mask, frozenset(names)) for mask, names in alike.items()]

    def _module_file(self, name: str) -> ModuleFile:
        return ModuleFile(self._api(name), self.sets)

    def _definers(self, name: str) -> list[str]:
        """Modules that had a function, a method or a class of that name in some release."""
        defined = re.compile(rf"^(?:class |(?:\w+ )*def ){re.escape(name)}(?!\w)", re.M)
        return [module for module in self.modules if name in self._api(module) and defined.search(self._api(module))]

    @cached_property
    def _imports(self) -> dict[str, str]:
        return self._blocks(self._files.below("imports"))

    @cached_property
    def _calls(self) -> dict[str, str]:
        return self._blocks(self._files.below("calls"))

    @cached_property
    def _classes(self) -> dict[str, str]:
        return self._blocks(["classes.txt"])

    def _imports_of(self, module: str) -> list[tuple[int, str, str, str]]:
        """(releases, `from`, `lazy` or `held`, local name or registry, origin) for each import of a module."""
        return [each for line in self._imports.get(module, "").splitlines() for each in self._imported(module, line)]

    def _modules_imported_by(self, module: str) -> dict[str, int]:
        """Module -> the releases in which loading this one loads it."""
        modules: dict[str, int] = defaultdict(int)
        for mask, kind, _, origin in self.imports_of(module):
            if kind == "from":
                modules[module_of(f"{origin}.", self.modules)] |= mask
        return modules

    def _imported(self, module: str, line: str) -> Iterator[tuple[int, str, str, str]]:
        words, mask = _ended(line, self.modules[module], self.sets)
        kind, owner, *names = words.split(" ")
        before = "" if owner == "." else f"{owner}."
        for each in names:
            local, _, name = each.partition("=")
            yield mask, kind, before + local if local == "*" else local, before + (name or local)

    def _bindings(self, name: str, kind: str) -> list[tuple[int, str, str]]:
        """(releases, MODULE.LOCAL, origin) wherever something of that last name is imported (`from`) or `held`."""
        return [
            (mask, f"{module}.{local}", origin)
            for module, block in self._imports.items()
            if f" {name}" in block or f"={name}" in block
            for line in block.splitlines()
            if line.startswith(f"{kind} ") and name in line
            for mask, _, local, origin in self._imported(module, line)
            if origin.endswith(f".{name}")
        ]

    def _calls_in(self, module: str, name: str = "") -> Iterator[tuple[int, str, CallSite]]:
        """(releases, last name of the callee, call) for each call in a module, or for each of `name`."""
        owner = function = ""
        needle = f" {name}/" if name else " "
        for line in self._calls.get(module, "").splitlines():
            if line.startswith("class: "):
                owner = line[7:]
                continue
            if not line.startswith(" "):
                function = line[: line.index(" ")]
            if needle in line:
                words, mask = _ended(line, self.modules[module], self.sets)
                where = f"{owner}.{function}" if owner else function if function != "-" else ""
                for each in words.split(" ")[1:]:
                    callee, _, arguments = each.partition("/")
                    if callee == (name or callee):
                        yield mask, callee, _call_site(module, where, arguments)

    def _calls_of(self, name: str) -> list[tuple[int, CallSite]]:
        """(releases, call) for each call by that last name."""
        modules = [module for module, block in self._calls.items() if f" {name}/" in block]
        return [(mask, site) for module in modules for mask, _, site in self._calls_in(module, name)]

    def _derived_from(self, base_name: str) -> list[tuple[int, str, str]]:
        """(releases, class, base) of the classes with a base of that last name."""
        found = []
        for module, block in self._classes.items():
            for line in block.splitlines() if base_name in block else ():
                words, mask = _ended(line, self.sets.all, self.sets)
                name, *bases = words.split(" ")
                found += [(mask, f"{module}.{name}", base) for base in bases if base.rpartition(".")[2] == base_name]
        return found


def _ended(line: str, life: int, sets: ReleaseSets) -> tuple[str, int]:
    """The words of a line, and its releases: `life` where it names none."""
    words, tab, span = line.partition("\t")
    return words, sets.mask(span) if tab else life


def _call_site(module: str, function: str, arguments: str) -> CallSite:
    """The call behind `2*,key`."""
    count, *keywords = arguments.split(",")
    return CallSite(
        module=module,
        function=function,
        positional=int(count.rstrip("*.:=")),
        keywords=tuple(keywords),
        star="*" in count,
        receiver=count.rstrip("*")[-1] if count.rstrip("*")[-1] in ".:=" else "",
    )


class Lazy(Mapping[str, Value]):
    """Values that are made when they are first looked at."""

    def __init__(self, names: Iterable[str], make: Callable[[str], Value]) -> None:
        self._values: dict[str, Value | None] = dict.fromkeys(names)
        self._make = make

    def __getitem__(self, name: str) -> Value:
        value = self._values[name]
        if value is None:
            value = self._values[name] = self._make(name)
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass
class _Body:
    """The members of a module or class, each with its releases."""

    heads: list[tuple[int, str]] = field(default_factory=list)
    attributes: list[tuple[int, str, str | None]] = field(default_factory=list)
    options: list[tuple[int, str, str]] = field(default_factory=list)
    #: (releases, name, line, fingerprint).
    functions: list[tuple[int, str, str, str]] = field(default_factory=list)

    def functions_in(self, bit: int, *, in_class: bool) -> Lazy[Function]:
        lines = {name: (line, body) for mask, name, line, body in self.functions if mask & bit}
        return Lazy(lines, lambda name: _function(*lines[name], in_class))

    def attributes_in(self, bit: int) -> dict[str, str | None]:
        return {name: note for mask, name, note in self.attributes if mask & bit}


class ModuleFile:
    """One file of `api/`: everything that a module ever was."""

    def __init__(self, text: str, sets: ReleaseSets) -> None:
        first, *blocks = text.removesuffix("\n").split("\nclass ")
        header, _, own = first.partition("\n")
        self.name, self._life = _ended(header.removeprefix("module "), sets.all, sets)
        self._texts = {"": (self._life, own)}
        for block in blocks:
            header, _, rest = block.partition("\n")
            name, life = _ended(header, self._life, sets)
            self._texts[name] = life, rest
        self._body = cache(lambda name: _body(*self._texts[name], sets))

    def module(self, bit: int, imports: Iterable[tuple[int, str, str, str]]) -> Module | None:
        """The module in the release of that bit, with what `imports_of` says of it."""
        if not self._life & bit:
            return None
        body = self._body("")
        functions = body.functions_in(bit, in_class=False)
        tables: dict[str, list[tuple[str, str]]] = {"from": [], "lazy": [], "held": []}
        for mask, kind, local, origin in imports:
            if mask & bit:
                tables[kind].append((local, origin))
        return Module(
            name=self.name,
            functions=functions,
            classes=Lazy(
                [name for name, (life, _) in self._texts.items() if name and life & bit],
                lambda name: self._class(name, bit),
            ),
            attributes=body.attributes_in(bit),
            imports=dict(tables["from"]),
            lazy_imports=dict(tables["lazy"]),
            held=tuple(sorted(tables["held"])),
            config={name: value for mask, name, value in body.options if mask & bit},
            has_getattr="__getattr__" in functions or any(mask & bit for mask, _ in body.heads),
        )

    def _class(self, name: str, bit: int) -> Class:
        body = self._body(name)
        head = next((text for mask, text in body.heads if mask & bit), "")
        bases, _, flags = head.partition(" | ") if " | " in head else (head, "", "")
        return Class(
            name=name,
            bases=tuple(base for base in bases.split(", ") if base),
            functions=body.functions_in(bit, in_class=True),
            attributes=body.attributes_in(bit),
            has_getattr="getattr" in flags,
            abstract="abstract" in flags,
        )


def _body(life: int, text: str, sets: ReleaseSets) -> _Body:
    body = _Body()
    for line in text.split("\n"):
        if line.startswith((". ", "? ", ": ")):
            words, mask = _ended(line[2:], life, sets)
            if line.startswith(":"):
                body.heads.append((mask, words))
            elif line.startswith("?"):
                option, _, value = words.partition(" = ")
                body.options.append((mask, option, value))
            elif ": " in words:
                attribute, _, note = words.partition(": ")
                body.attributes.append((mask, attribute, note))
            else:
                body.attributes += [(mask, each, None) for each in words.split(" ")]
        elif line:
            words, _, steps = line.partition("\t")
            name = words[words.index("def ") + 4 : words.index("(")]
            body.functions += [(mask, name, words, value) for mask, value in read_steps(steps, life, sets)]
    return body


def read_steps(text: str, life: int, sets: ReleaseSets) -> Iterator[tuple[int, str]]:
    """(releases, value) of `#a 2.9.0#b 2.12.0-`: a, from 2.9.0 on b, from 2.12.0 on none."""
    low, value = 0, ""
    for step in text.split(" "):
        version, _, after = step.rstrip("-").partition("#")
        start = sets.bits[version] if version else life & -life
        if value:
            yield (start - low) & life, value
        low, value = start, after
    if value:
        yield (sets.all + 1 - low) & life, value


@cache
def _function(line: str, body: str, in_class: bool) -> Function:
    """The record behind one line with `def`."""
    before, _, rest = line.partition("def ")
    signature, arrow, returns = rest.rpartition(") -> ")
    name, _, parameters = (signature if arrow else rest.removesuffix(")")).partition("(")
    words = before.split()
    return Function(
        name=name,
        parameters=_parameters(parameters),
        form=next((_FORMS[word] for word in words if word in _FORMS), "method" if in_class else "function"),
        is_async="async" in words,
        returns=returns if arrow else None,
        body=body,
    )


@cache
def _parameters(text: str) -> tuple[Parameter, ...]:
    """The parameters behind `a, /, b=1, *, c`. What needs no parser is read without one, in a tenth of the time."""
    if not re.fullmatch(r"[\w ,=*/.\-]*", text) or "lambda" in text:
        return read_parameters(text)
    found: list[Parameter] = []
    kind = "positional"
    for each in text.split(", ") if text else ():
        name, equals, default = each.partition("=")
        if name == "/":
            found = [replace(before, kind="positional-only") for before in found]
        elif name.startswith("**"):
            found.append(Parameter(name=name[2:], kind="var-keyword"))
        elif name.startswith("*"):
            kind = "keyword"
            found += [Parameter(name=name[1:], kind="var-positional")] if name != "*" else []
        else:
            found.append(Parameter(name=name, kind=kind, default=default if equals else None))
    return tuple(found)
