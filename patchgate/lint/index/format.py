"""The files of an index (docs/index-format.md): JSON lines, written from records and read again.

A line has the key of a symbol and, for each set of releases, the values of the symbol in these
releases. A file is read when it is needed, and its digest is checked first: with a damaged index,
lint would report existing names as missing.
"""

from __future__ import annotations

import builtins
import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from patchgate.lint.index.records import (
    CallSite,
    Class,
    Function,
    Module,
    Parameter,
    ReleaseRecords,
    parameter_texts,
)
from patchgate.lint.index.resolve import module_of
from patchgate.model.errors import UsageError
from patchgate.model.files import write_atomically
from patchgate.model.serialization import parse_json
from patchgate.model.versions import ReleaseSets

Value = TypeVar("Value")
# (file, key, value) of one release.
Fact = tuple[str, tuple[Any, ...], Hashable]
# (releases, `from`, `lazy` or `held`, local name or registry, origin)
Import = tuple[int, str, str, str]
_DIGESTS, _RELEASES = "digests.json", "releases.json"
# Names that are called everywhere. Their calls are stored once for each module, not for each
# function.
_EVERYDAY = frozenset(name for owner in (builtins, str, list, dict, set) for name in dir(owner)) | {
    "debug",
    "warning",
}


def write(folder: Path, releases: Iterable[ReleaseRecords]) -> None:
    """Write these releases, oldest first, into `folder`, and delete its other index files."""
    files = texts(list(releases))
    for path, text in files.items():
        file = folder / path
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            write_atomically(file, text)
    for file in folder.rglob("*.json*"):
        if file.relative_to(folder).as_posix() not in files:
            file.unlink()


def texts(releases: list[ReleaseRecords]) -> dict[str, str]:
    """Return the texts of the index's files: path below its folder -> text."""
    sets = ReleaseSets([each.version for each in releases])
    # File -> key -> value -> its releases.
    tables: dict[str, Any] = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    for release in releases:
        for module in release.modules.values():
            for path, key, value in _facts(module, release.calls.get(module.name, [])):
                tables[path][key][value] |= sets.bits[release.version]
    files = {
        f"{path}.jsonl": "".join(_line(key, table[key], sets) for key in sorted(table))
        for path, table in sorted(tables.items())
    }
    files[_RELEASES] = json.dumps({each.version: each.triton for each in releases}, indent=0)
    digests = {path: _digest(text.encode()) for path, text in files.items()}
    return {**files, _DIGESTS: json.dumps(digests, indent=0, sort_keys=True)}


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:16]


def _line(key: tuple[Any, ...], masks: Mapping[Any, int], sets: ReleaseSets) -> str:
    alike: dict[int, list[Any]] = defaultdict(list)
    for value, mask in masks.items():
        alike[mask].append(value)
    in_order = sorted(alike, key=lambda mask: (mask & -mask, mask))  # by the oldest release
    values = {sets.text(mask): sorted(alike[mask]) for mask in in_order}
    return json.dumps([*key, values], separators=(",", ":")) + "\n"


def _facts(module: Module, calls: list[tuple[str, CallSite]]) -> Iterator[Fact]:
    """Yield everything that the index stores about a module in one release."""
    api, package = f"api/{module.name}", ".".join(module.name.split(".")[:2])
    yield "modules", (module.name,), module.has_getattr
    yield from ((api, ("", "option", name), text) for name, text in module.config.items())
    owners: dict[str, Module | Class] = {"": module, **module.classes}
    for name, owner in owners.items():
        if isinstance(owner, Class):
            yield api, (name, "class", ""), (owner.bases, owner.has_getattr, owner.abstract)
            for base in owner.bases:
                if base.startswith(("torch.", "triton.")):
                    yield "classes", (module.name, name), base
        for attribute, annotation in owner.attributes.items():
            yield api, (name, "attribute", attribute), annotation
        for each in owner.functions.values():
            form = "async " * each.is_async + each.form
            signature = each.name, form, each.returns or "", parameter_texts(each.parameters)
            yield api, (name, "def", *signature), each.body
    imported = ("from", module.imports.items()), ("lazy", module.lazy_imports.items())
    for kind, found in (*imported, ("held", module.held)):
        for local, origin in found:
            home, _, name = origin.rpartition(".")
            text = name if name in (local, "*") else f"{local}={name}"
            yield f"imports/{package}", (module.name, kind, home), text
    for callee, site in calls:
        # Line numbers are left out, because they would differ in every release.
        home, _, name = site.function.rpartition(".") if callee not in _EVERYDAY else ("",) * 3
        count = f"{callee}/{site.positional}{site.receiver}{'*' * site.star}"
        yield f"calls/{package}", (module.name, home, name), ",".join([count, *site.keywords])


def _parameters(texts: Iterable[str]) -> tuple[Parameter, ...]:
    """Parse the texts of parameters that `parameter_texts` has written."""
    found: list[Parameter] = []
    kind = "positional"
    for each in texts:
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


class IndexFiles:
    """The files below one folder, each read at most once. A set of releases is a mask of `sets`.

    Raises UsageError for a file that was changed since it was written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        digests = folder / _DIGESTS
        try:
            #: Path below the folder -> digest.
            self._digests: dict[str, str] = parse_json(digests.read_text(encoding="utf-8"))
        except FileNotFoundError:
            self._digests = {}
        except ValueError:
            raise self._damaged(_DIGESTS) from None
        if _RELEASES not in self._digests and (folder / _RELEASES).exists():
            raise self._damaged(_DIGESTS)
        #: Release -> the triton that it requires, empty if it requires none; oldest first.
        self.triton: dict[str, str] = json.loads(self._text(_RELEASES) or "{}")
        self.sets = ReleaseSets(list(self.triton))

    @cache  # noqa: B019  an index lives as long as the process
    def _text(self, path: str) -> str:
        """The text of a file; empty if the index does not have it."""
        if path not in self._digests:
            return ""
        try:
            data = (self.folder / path).read_bytes()
        except OSError:
            raise self._damaged(path) from None
        if _digest(data) != self._digests[path]:
            raise self._damaged(path)
        return data.decode("utf-8")

    def _damaged(self, path: str) -> UsageError:
        return UsageError(
            "a damaged index of torch's API",
            where=str(self.folder / path),
            got="cut short, changed or missing: lint would report names as missing that exist",
            next="install patchgate anew; of an index of your own: patchgate index add",
        )

    def _facts(self, path: str, needle: str = "[") -> Iterator[tuple[int, list[Any], Any]]:
        """Yield (releases, key, value) for each value in the lines that contain `needle`."""
        text = self._text(f"{path}.jsonl")
        at = text.find(needle)
        while at >= 0:
            end = text.index("\n", at)
            *key, values_in = json.loads(text[text.rfind("\n", 0, at) + 1 : end])
            for releases, values in values_in.items():
                mask = self.sets.mask(releases)
                yield from ((mask, key, value) for value in values)
            at = text.find(needle, end)

    def _everywhere(self, folder: str, needle: str) -> Iterator[tuple[int, list[Any], Any]]:
        """The same as `_facts`, for all files of a folder of the index."""
        for path in self._digests:
            if path.startswith(folder):
                yield from self._facts(path.removesuffix(".jsonl"), needle)

    @cached_property
    def modules(self) -> dict[str, int]:
        """Module -> the releases that have it."""
        return _masks((name, mask) for mask, (name,), _ in self._facts("modules"))

    @cached_property
    def packages(self) -> frozenset[str]:
        """The packages: modules that contain other modules."""
        parts = (name.split(".") for name in self.modules)
        return frozenset(".".join(part[:end]) for part in parts for end in range(1, len(part)))

    def modules_in(self, bit: int) -> frozenset[str]:
        """The modules of one release, and the packages around them."""
        names = [name for name, mask in self.modules.items() if mask & bit]
        return frozenset(names) | {name.partition(".")[0] for name in names}

    @cache  # noqa: B019
    def definers(self, name: str) -> list[str]:
        """Modules that had a function, a method or a class of that name in some release."""
        return self._defined.get(name, [])

    @cached_property
    def _defined(self) -> dict[str, list[str]]:
        """Name of a function, a method or a class -> the modules that define it. Built once,
        because a search for each name takes too long.
        """
        found: dict[str, list[str]] = {}
        for module in self.modules:
            text = self._text(f"api/{module}.jsonl")
            names = {each.partition('"')[0] for each in text.split('"def","')[1:]}
            heads = (each.rpartition('["') for each in text.split('","class"')[:-1])
            names |= {name for _, begun, name in heads if begun and '"' not in name}
            for name in names:
                found.setdefault(name, []).append(module)
        return found

    @cache  # noqa: B019
    def imports_of(self, module: str) -> list[Import]:
        path = f"imports/{'.'.join(module.split('.')[:2])}"
        return [_import(*fact) for fact in self._facts(path, f'["{module}",')]

    @cache  # noqa: B019
    def modules_imported_by(self, module: str) -> dict[str, int]:
        """Each module that `module` imports when it is loaded -> the releases in which it does."""
        return _masks(
            (module_of(f"{origin}.", self.modules), mask)
            for mask, kind, _, origin in self.imports_of(module)
            if kind == "from"
        )

    @cache  # noqa: B019
    def bindings(self, name: str, kind: str) -> list[tuple[int, str, str]]:
        """(releases, MODULE.LOCAL, origin) for each place that imports or holds an object whose
        last name is `name`. `kind` is `from` for imports and `held` for registries and tables.
        """
        found = (
            (key, _import(mask, key, value))
            for begin in '"='
            for mask, key, value in self._everywhere("imports/", f'{begin}{name}"')
            if key[1] == kind and value.rpartition("=")[2] == name
        )
        return [(mask, f"{key[0]}.{local}", origin) for key, (mask, _, local, origin) in found]

    def calls_in(self, module: str) -> Iterator[tuple[int, str, CallSite]]:
        """(releases, last name of the callee, call) for each call in a module."""
        path = f"calls/{'.'.join(module.split('.')[:2])}"
        return (_call(*fact) for fact in self._facts(path, f'["{module}",'))

    @cache  # noqa: B019
    def calls_of(self, name: str) -> list[tuple[int, CallSite]]:
        """(releases, call) for each call of a function with this last name, in any module."""
        begin = f"{name}/"
        facts = self._everywhere("calls/", f'"{begin}')
        calls = (_call(*fact) for fact in facts if fact[2].startswith(begin))
        return [(mask, site) for mask, _, site in calls]

    @cache  # noqa: B019
    def derived_from(self, base_name: str) -> list[tuple[int, str, str]]:
        """(releases, class, base) for each class with a base whose last name is `base_name`."""
        end = f".{base_name}"
        facts = self._facts("classes", f'{end}"')
        return [(mask, ".".join(key), base) for mask, key, base in facts if base.endswith(end)]

    @cache  # noqa: B019
    def _api(self, module: str) -> list[tuple[int, tuple[str, str], str, Any]]:
        """(releases, (owner, kind), name, value) for each symbol of a module."""
        found: list[tuple[int, tuple[str, str], str, Any]] = []
        for mask, (owner, kind, name, *signature), value in self._facts(f"api/{module}"):
            if signature:
                form, returns, parameters = signature
                value = name, form, returns, tuple(parameters), value
            found.append((mask, (owner, kind), name, value))
        return found

    def read_module(self, module: str, bit: int) -> Module:
        """Return a module as it is in one release, which must have the module."""
        tables: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
        for mask, table, name, value in self._api(module):
            if mask & bit:
                tables[table][name] = value
        imports: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for mask, kind, local, origin in self.imports_of(module):
            if mask & bit:
                imports[kind].append((local, origin))

        def functions(owner: str) -> Lazy[Function]:
            lines = tables[owner, "def"]
            return Lazy(lines, lambda name: _function(*lines[name]))

        def read_class(name: str) -> Class:
            bases, has_getattr, abstract = tables[name, "class"][""]
            return Class(
                name=name,
                bases=tuple(bases),
                functions=functions(name),
                attributes=tables[name, "attribute"],
                has_getattr=has_getattr,
                abstract=abstract,
            )

        flags = self._facts("modules", f'["{module}",')
        return Module(
            name=module,
            functions=functions(""),
            classes=Lazy([name for name, kind in tables if kind == "class"], read_class),
            attributes=tables["", "attribute"],
            imports=dict(imports["from"]),
            lazy_imports=dict(imports["lazy"]),
            held=tuple(sorted(imports["held"])),
            config=tables["", "option"],
            has_getattr=any(value for mask, _, value in flags if mask & bit),
        )


def _masks(found: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Map each name to the mask of all its releases."""
    masks: dict[str, int] = defaultdict(int)
    for name, mask in found:
        masks[name] |= mask
    return masks


def _import(mask: int, key: list[str], text: str) -> Import:
    _, kind, home = key
    before = f"{home}." if home else ""
    local, _, name = text.partition("=")
    return mask, kind, before + local if local == "*" else local, before + (name or local)


def _call(mask: int, key: list[str], text: str) -> tuple[int, str, CallSite]:
    """Parse a call in the form of the index, `f/2.*,key`."""
    module, *function = key
    callee, _, arguments = text.partition("/")
    count, *keywords = arguments.split(",")
    positional = count.rstrip("*.:=")
    marks = count[len(positional) :]
    site = CallSite(
        module=module,
        function=".".join(filter(None, function)),
        positional=int(positional),
        keywords=tuple(keywords),
        star="*" in marks,
        receiver=marks.rstrip("*"),
    )
    return mask, callee, site


@cache
def _function(
    name: str, form: str, returns: str, parameters: tuple[str, ...], body: str
) -> Function:
    return Function(
        name=name,
        parameters=_parameters(parameters),
        form=form.removeprefix("async "),
        is_async=form.startswith("async "),
        returns=returns or None,
        body=body,
    )


class Lazy(Mapping[str, Value]):
    """A mapping whose values are made on first use."""

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
