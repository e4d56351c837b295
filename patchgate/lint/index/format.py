"""The text files of an index (docs/index-format.md): writes them from records, and reads records
from them.

Each symbol stands once for each shape it ever had, with its releases. A file, and a line of it, is
read when it is needed; its digest is checked then, because half an index would find names missing
that are there.
"""

from __future__ import annotations

import builtins
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from patchgate.lint.index.read_module import read_parameters
from patchgate.lint.index.records import (
    CallSite,
    Class,
    Function,
    Module,
    Parameter,
    ReleaseRecords,
)
from patchgate.lint.index.resolve import module_of
from patchgate.model.errors import UsageError
from patchgate.model.files import write_atomically
from patchgate.model.versions import ReleaseSets

Value = TypeVar("Value")
Key = TypeVar("Key")
# (releases, `from`, `lazy` or `held`, local name or registry, origin)
Import = tuple[int, str, str, str]
_DIGESTS = "digests.txt"
# Called everywhere and on everything: kept once for each module instead of for each function.
_EVERYDAY = frozenset(name for owner in (builtins, str, list, dict, set) for name in dir(owner)) | {
    "debug",
    "warning",
}
# Before `def` -> the form of a function.
_FORMS = {
    "static": "static",
    "classmethod": "class",
    "property": "property",
    "cached": "cached-property",
}
_WORDS = {form: f"{word} " for word, form in _FORMS.items()}


def write(folder: Path, releases: Iterable[ReleaseRecords]) -> None:
    """Make `folder` hold these releases, oldest first, and nothing else."""
    files = texts(list(releases))
    for path, text in files.items():
        file = folder / path
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            write_atomically(file, text)
    for file in folder.rglob("*.txt"):
        if file.relative_to(folder).as_posix() not in files:
            file.unlink()


def texts(releases: list[ReleaseRecords]) -> dict[str, str]:
    """Path below the index -> text."""
    sets = ReleaseSets([each.version for each in releases])
    life_of = _masks((name, sets.bits[each.version]) for each in releases for name in each.modules)
    files = {
        "releases.txt": "".join(
            f"{each.version} {each.triton}".rstrip() + "\n" for each in releases
        )
    }
    files["modules.txt"] = "".join(
        _line(name, life_of[name], sets.all, sets) for name in sorted(life_of)
    )
    shared: dict[str, list[str]] = defaultdict(list)
    for name in sorted(life_of):
        having = {sets.bits[each.version]: each for each in releases if name in each.modules}
        records = {bit: each.modules[name] for bit, each in having.items()}
        calls = {bit: each.calls.get(name, []) for bit, each in having.items()}
        files[f"api/{name}.txt"] = "".join(_module_lines(name, records, life_of[name], sets))
        package = ".".join(name.split(".")[:2])
        for path, lines in (
            (f"imports/{package}.txt", _import_lines(records, sets)),
            (f"calls/{package}.txt", _call_lines(calls, sets)),
            ("classes.txt", _base_lines(records, sets)),
        ):
            if block := list(lines):
                shared[path] += [f"module: {name}\n", *block]
    files.update((path, "".join(lines)) for path, lines in shared.items())
    files[_DIGESTS] = "".join(f"{_digest(files[path].encode())} {path}\n" for path in sorted(files))
    return files


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:16]


def _masks(found: Iterable[tuple[Key, int]]) -> dict[Key, int]:
    """Each key once, with its releases."""
    masks: dict[Key, int] = defaultdict(int)
    for key, bit in found:
        masks[key] |= bit
    return masks


def _oldest(mask: int) -> int:
    return mask & -mask


def _line(text: str, mask: int, life: int, sets: ReleaseSets) -> str:
    """A line that names its releases where they are not those of its parent."""
    text = text.replace("\n", " ").replace("\t", " ")
    return f"{text}\t{sets.text(mask)}\n" if mask != life else f"{text}\n"


def _module_lines(
    name: str, records: Mapping[int, Module], life: int, sets: ReleaseSets
) -> Iterator[str]:
    yield _line(f"module {name}", life, sets.all, sets)
    makers = (
        bit
        for bit, each in records.items()
        if each.has_getattr and "__getattr__" not in each.functions
    )
    yield from _texts(((":  | getattr", bit) for bit in makers), life, sets)
    yield from _member_lines(records, life, sets)
    options = ((bit, option) for bit, each in records.items() for option in each.config.items())
    yield from _texts(
        ((f"? {option} = {value}", bit) for bit, (option, value) in options), life, sets
    )
    for owner in sorted({owner for each in records.values() for owner in each.classes}):
        classes = {
            bit: each.classes[owner] for bit, each in records.items() if owner in each.classes
        }
        alive = sum(classes)
        yield _line(f"class {owner}", alive, life, sets)
        yield from _texts(
            ((_head(each), bit) for bit, each in classes.items() if _head(each)), alive, sets
        )
        yield from _member_lines(classes, alive, sets)


def _head(owner: Class) -> str:
    flags = ["abstract"] * owner.abstract + ["getattr"] * owner.has_getattr
    parts = ", ".join(owner.bases), " ".join(flags)
    return f": {' | '.join(parts) if flags else parts[0]}" if any(parts) else ""


def _texts(found: Iterable[tuple[str, int]], life: int, sets: ReleaseSets) -> Iterator[str]:
    """Each text once, with its releases, in the order of the names they begin with."""
    for text, mask in sorted(
        _masks(found).items(), key=lambda each: (each[0].split(maxsplit=2)[:2], _oldest(each[1]))
    ):
        yield _line(text, mask, life, sets)


def _member_lines(
    owners: Mapping[int, Module] | Mapping[int, Class], life: int, sets: ReleaseSets
) -> Iterator[str]:
    attributes = _masks(
        (each, bit) for bit, owner in owners.items() for each in owner.attributes.items()
    )
    always = sorted(
        name for (name, note), mask in attributes.items() if note is None and mask == life
    )
    if always:
        yield f". {' '.join(always)}\n"
    for (name, note), mask in sorted(
        attributes.items(), key=lambda each: (each[0][0], _oldest(each[1]))
    ):
        if note is not None or mask != life:
            yield _line(f". {name}" if note is None else f". {name}: {note}", mask, life, sets)
    bodies: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for bit, owner in owners.items():
        for name, function in owner.functions.items():
            bodies[name, _function_text(function)][bit] = function.body
    for (_, text), steps in sorted(bodies.items(), key=lambda each: (each[0][0], min(each[1]))):
        yield f"{text}\t{write_steps(steps, life, sets)}\n"


def write_steps(values: Mapping[int, str], life: int, sets: ReleaseSets) -> str:
    """The value of each release of `life`, as the releases at which it changes; the very first is
    not named.

    `#a 2.9.0#b 2.12.0-` is a, from 2.9.0 on b, from 2.12.0 on none.
    """
    steps: list[str] = []
    before = None
    for version, bit in sets.bits.items():
        now = values.get(bit)
        if bit & life and now != before:
            since = "" if bit == _oldest(life) else version
            steps.append(since + ("-" if now is None else f"#{now}"))
            before = now
    return " ".join(steps)


def read_steps(text: str, life: int, sets: ReleaseSets) -> Iterator[tuple[int, str]]:
    """(releases, value) of what `write_steps` gave."""
    low, value = 0, ""
    for step in text.split(" "):
        version, _, after = step.rstrip("-").partition("#")
        start = sets.bits[version] if version else _oldest(life)
        if value:
            yield (start - low) & life, value
        low, value = start, after
    if value:
        yield (sets.all + 1 - low) & life, value


def _function_text(function: Function) -> str:
    """The signature as Python writes it, annotations of parameters left out."""
    kind = _WORDS.get(function.form, "") + "async " * function.is_async
    returns = f" -> {function.returns}" if function.returns else ""
    text = f"{kind}def {function.name}({parameters_text(function.parameters)}){returns}"
    return text.replace("\n", " ").replace("\t", " ")


def parameters_text(parameters: Iterable[Parameter]) -> str:
    """Parameters as they stand between the parentheses of a `def`."""
    found: list[str] = []
    before = ""
    for each in parameters:
        if before == "positional-only" and each.kind != before:
            found.append("/")
        if each.kind == "keyword" and before not in ("keyword", "var-positional"):
            found.append("*")
        stars = {"var-positional": "*", "var-keyword": "**"}.get(each.kind, "")
        found.append(stars + each.name + (f"={each.default}" if each.default is not None else ""))
        before = each.kind
    if before == "positional-only":
        found.append("/")
    return ", ".join(found)


def _import_lines(records: Mapping[int, Module], sets: ReleaseSets) -> Iterator[str]:
    def imports() -> Iterator[tuple[tuple[str, str, str], int]]:
        for bit, module in records.items():
            yield from ((("from", *each), bit) for each in module.imports.items())
            yield from ((("lazy", *each), bit) for each in module.lazy_imports.items())
            yield from ((("held", *each), bit) for each in module.held)

    grouped: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for (kind, local, origin), mask in _masks(imports()).items():
        owner, _, name = origin.rpartition(".")
        grouped[kind, owner or ".", mask].append(
            name if name in (local, "*") else f"{local}={name}"
        )
    for (kind, owner, mask), names in _in_order(grouped):
        yield _line(f"{kind} {owner} {' '.join(sorted(names))}", mask, sum(records), sets)


def _in_order(
    grouped: Mapping[tuple[str, str, int], list[str]],
) -> list[tuple[tuple[str, str, int], list[str]]]:
    return sorted(grouped.items(), key=lambda each: (*each[0][:2], _oldest(each[0][2]), each[0][2]))


def _call_lines(
    calls: Mapping[int, list[tuple[str, CallSite]]], sets: ReleaseSets
) -> Iterator[str]:
    """For each function the distinct calls in it; line numbers would make every release a new
    text.
    """

    def found() -> Iterator[tuple[tuple[str, str], int]]:
        for bit, sites in calls.items():
            for name, site in sites:
                count = f"{name}/{site.positional}{site.receiver}{'*' * site.star}"
                function = site.function if name not in _EVERYDAY else ""
                yield (function or "-", ",".join([count, *site.keywords])), bit

    grouped: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for (function, words), mask in _masks(found()).items():
        owner, _, name = function.rpartition(".")
        grouped[owner, name, mask].append(words)
    before = ("", "")
    for (owner, name, mask), each in _in_order(grouped):
        if owner != before[0]:
            yield f"class: {owner}\n"
        begin = "" if (owner, name) == before else name
        yield _line(f"{begin} {' '.join(sorted(each))}", mask, sum(calls), sets)
        before = owner, name


def _base_lines(records: Mapping[int, Module], sets: ReleaseSets) -> Iterator[str]:
    """Classes that have bases of torch's or triton's own."""
    owners = ((bit, owner) for bit, module in records.items() for owner in module.classes.values())
    with_bases = (
        (bit, owner.name, [base for base in owner.bases if base.startswith(("torch.", "triton."))])
        for bit, owner in owners
    )
    masks = _masks((f"{name} {' '.join(bases)}", bit) for bit, name, bases in with_bases if bases)
    for text, mask in sorted(
        masks.items(), key=lambda each: (each[0].split()[0], _oldest(each[1]))
    ):
        yield _line(text, mask, sets.all, sets)


class IndexFiles:
    """The files below one folder, each read at most once. Sets of releases are masks of `sets`.

    Raises UsageError for a file that is not as it was written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            lines = (folder / _DIGESTS).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            lines = []
        #: Path below the folder -> digest.
        self._digests = {
            path: digest for digest, _, path in (line.partition(" ") for line in lines)
        }
        if "releases.txt" not in self._digests and (folder / "releases.txt").exists():
            raise self._damaged(_DIGESTS)
        rows = [line.split(" ") for line in self._text("releases.txt").splitlines()]
        #: Release -> the triton that it requires, or nothing; oldest first.
        self.triton = {version: "".join(rest) for version, *rest in rows}
        self.sets = ReleaseSets(list(self.triton))

    def _text(self, path: str) -> str:
        """A file of the index, empty for one that it does not have."""
        wanted = self._digests.get(path)
        if wanted is None:
            return ""
        try:
            data = (self.folder / path).read_bytes()
        except OSError:
            raise self._damaged(path) from None
        if _digest(data) != wanted:
            raise self._damaged(path)
        return data.decode("utf-8")

    def _damaged(self, path: str) -> UsageError:
        return UsageError(
            "a damaged index of torch's API",
            where=str(self.folder / path),
            got="cut short, changed or missing: names that are there would be called missing",
            next="install patchgate anew; of an index of your own: patchgate index add",
        )

    def _blocks(self, begin: str) -> dict[str, str]:
        """Module -> its lines, of the files that hold several modules."""
        blocks = {}
        for file in (path for path in self._digests if path.startswith(begin)):
            for block in self._text(file).removeprefix("module: ").split("\nmodule: "):
                name, _, blocks[name] = block.partition("\n")
        return blocks

    @cached_property
    def modules(self) -> dict[str, int]:
        """Module -> its releases."""
        return dict(
            _ended(line, self.sets.all, self.sets)
            for line in self._text("modules.txt").splitlines()
        )

    def modules_in(self, bit: int) -> frozenset[str]:
        """The modules of the release of that bit, and the packages around them."""
        return frozenset().union(*(names for mask, names in self._modules_alike if mask & bit))

    @cached_property
    def _modules_alike(self) -> list[tuple[int, frozenset[str]]]:
        """(releases, modules) of the modules that are in the same releases."""
        alike: dict[int, set[str]] = defaultdict(set)
        for name, mask in self.modules.items():
            alike[mask].update((name, name.partition(".")[0]))
        return [(mask, frozenset(names)) for mask, names in alike.items()]

    @cache  # noqa: B019  an index lives as long as the process
    def _api(self, module: str) -> str:
        return self._text(f"api/{module}.txt")

    @cache  # noqa: B019
    def module_file(self, name: str) -> ModuleFile:
        return ModuleFile(self._api(name), self.sets)

    @cache  # noqa: B019
    def definers(self, name: str) -> list[str]:
        """Modules that had a function, a method or a class of that name in some release."""
        defined = re.compile(rf"^(?:class |(?:\w+ )*def ){re.escape(name)}(?!\w)", re.M)
        return [
            module
            for module in self.modules
            if name in self._api(module) and defined.search(self._api(module))
        ]

    @cached_property
    def _imports(self) -> dict[str, str]:
        return self._blocks("imports/")

    @cached_property
    def _calls(self) -> dict[str, str]:
        return self._blocks("calls/")

    @cached_property
    def _classes(self) -> dict[str, str]:
        return self._blocks("classes.txt")

    @cache  # noqa: B019
    def imports_of(self, module: str) -> list[Import]:
        return [
            each
            for line in self._imports.get(module, "").splitlines()
            for each in self._imported(module, line)
        ]

    @cache  # noqa: B019
    def modules_imported_by(self, module: str) -> dict[str, int]:
        """Module -> the releases in which loading this one loads it."""
        origins = (
            (mask, origin) for mask, kind, _, origin in self.imports_of(module) if kind == "from"
        )
        return _masks((module_of(f"{origin}.", self.modules), mask) for mask, origin in origins)

    def _imported(self, module: str, line: str) -> Iterator[Import]:
        words, mask = _ended(line, self.modules[module], self.sets)
        kind, owner, *names = words.split(" ")
        before = "" if owner == "." else f"{owner}."
        for each in names:
            local, _, name = each.partition("=")
            yield mask, kind, before + local if local == "*" else local, before + (name or local)

    @cache  # noqa: B019
    def bindings(self, name: str, kind: str) -> list[tuple[int, str, str]]:
        """(releases, MODULE.LOCAL, origin) wherever something of that last name is imported
        (`from`) or `held`.
        """
        return [
            (mask, f"{module}.{local}", origin)
            for module, block in self._imports.items()
            if f" {name}" in block or f"={name}" in block
            for line in block.splitlines()
            if line.startswith(f"{kind} ") and name in line
            for mask, _, local, origin in self._imported(module, line)
            if origin.endswith(f".{name}")
        ]

    def calls_in(self, module: str, name: str = "") -> Iterator[tuple[int, str, CallSite]]:
        """(releases, last name of the callee, call) for each call in a module, or for each of
        `name`.
        """
        owner = function = ""
        needle = f" {name}/" if name else " "
        for line in self._calls.get(module, "").splitlines():
            if line.startswith("class: "):
                owner = line[7:]
                continue
            if not line.startswith(" "):
                function = line[: line.index(" ")]
            if needle not in line:
                continue
            words, mask = _ended(line, self.modules[module], self.sets)
            where = f"{owner}.{function}" if owner else function if function != "-" else ""
            for each in words.split(" ")[1:]:
                callee, _, arguments = each.partition("/")
                if callee == (name or callee):
                    yield mask, callee, _call_site(module, where, arguments)

    @cache  # noqa: B019
    def calls_of(self, name: str) -> list[tuple[int, CallSite]]:
        """(releases, call) for each call by that last name."""
        modules = [module for module, block in self._calls.items() if f" {name}/" in block]
        return [(mask, site) for module in modules for mask, _, site in self.calls_in(module, name)]

    @cache  # noqa: B019
    def derived_from(self, base_name: str) -> list[tuple[int, str, str]]:
        """(releases, class, base) of the classes with a base of that last name."""
        found = []
        for module, block in self._classes.items():
            for line in block.splitlines() if base_name in block else ():
                words, mask = _ended(line, self.sets.all, self.sets)
                name, *bases = words.split(" ")
                found += [
                    (mask, f"{module}.{name}", base)
                    for base in bases
                    if base.rpartition(".")[2] == base_name
                ]
        return found


def _ended(line: str, life: int, sets: ReleaseSets) -> tuple[str, int]:
    """The words of a line, and its releases: `life` where it names none."""
    words, tab, span = line.partition("\t")
    return words, sets.mask(span) if tab else life


def _call_site(module: str, function: str, arguments: str) -> CallSite:
    """The call behind `2.*,key`."""
    count, *keywords = arguments.split(",")
    positional = count.rstrip("*.:=")
    marks = count[len(positional) :]
    return CallSite(
        module=module,
        function=function,
        positional=int(positional),
        keywords=tuple(keywords),
        star="*" in marks,
        receiver=marks.rstrip("*"),
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


class ModuleFile:
    """One file of `api/`: everything that a module ever was."""

    def __init__(self, text: str, sets: ReleaseSets) -> None:
        first, *blocks = text.removesuffix("\n").split("\nclass ")
        header, _, own = first.partition("\n")
        self.name, self._life = _ended(header.removeprefix("module "), sets.all, sets)
        self._sets = sets
        #: Class, or "" for the module itself -> releases, lines.
        self._texts = {"": (self._life, own)}
        for block in blocks:
            header, _, rest = block.partition("\n")
            name, life = _ended(header, self._life, sets)
            self._texts[name] = life, rest

    def module(self, bit: int, imports: Iterable[Import]) -> Module | None:
        """The module in the release of that bit, with what `imports_of` says of it."""
        if not self._life & bit:
            return None
        functions = self._functions("", bit)
        tables: dict[str, list[tuple[str, str]]] = {"from": [], "lazy": [], "held": []}
        for mask, kind, local, origin in imports:
            if mask & bit:
                tables[kind].append((local, origin))
        classes = [name for name, (life, _) in self._texts.items() if name and life & bit]
        return Module(
            name=self.name,
            functions=functions,
            classes=Lazy(classes, lambda name: self._class(name, bit)),
            attributes=self._members("", ".", bit),
            imports=dict(tables["from"]),
            lazy_imports=dict(tables["lazy"]),
            held=tuple(sorted(tables["held"])),
            config=self._members("", "?", bit),
            has_getattr="__getattr__" in functions or bool(self._members("", ":", bit)),
        )

    def _class(self, name: str, bit: int) -> Class:
        head = "".join(self._members(name, ":", bit))
        bases, _, flags = head.partition(" | ")
        return Class(
            name=name,
            bases=tuple(base for base in bases.split(", ") if base),
            functions=self._functions(name, bit),
            attributes=self._members(name, ".", bit),
            has_getattr="getattr" in flags,
            abstract="abstract" in flags,
        )

    def _members(self, owner: str, mark: str, bit: int) -> dict[str, Any]:
        """Name -> value of the lines that begin with `mark`, in one release."""
        return {name: value for mask, name, value in self._lines(owner).get(mark, ()) if mask & bit}

    def _functions(self, owner: str, bit: int) -> Lazy[Function]:
        lines = self._members(owner, "def", bit)
        return Lazy(lines, lambda name: _function(*lines[name], bool(owner)))

    @cache  # noqa: B019
    def _lines(self, owner: str) -> dict[str, list[tuple[int, str, Any]]]:
        """Mark -> (releases, name, value): annotation, default, or (signature, fingerprint)."""
        life, text = self._texts[owner]
        found: dict[str, list[tuple[int, str, Any]]] = defaultdict(list)
        for line in text.split("\n"):
            mark, words = line[:1], line[2:]
            if line.startswith((". ", "? ", ": ")):
                words, mask = _ended(words, life, self._sets)
                name, separator, value = words.partition({".": ": ", "?": " = ", ":": "\n"}[mark])
                names = [name] if separator or mark == ":" else name.split(" ")
                found[mark] += [(mask, each, value if separator else None) for each in names]
            elif line:
                words, _, steps = line.partition("\t")
                name = words[words.index("def ") + 4 : words.index("(")]
                bodies = read_steps(steps, life, self._sets)
                found["def"] += [(mask, name, (words, body)) for mask, body in bodies]
        return found


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
        form=next(
            (_FORMS[word] for word in words if word in _FORMS), "method" if in_class else "function"
        ),
        is_async="async" in words,
        returns=returns if arrow else None,
        body=body,
    )


@cache
def _parameters(text: str) -> tuple[Parameter, ...]:
    """The parameters behind `a, /, b=1, *, c`.

    What needs no parser is read without one, in a tenth of the time.
    """
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
