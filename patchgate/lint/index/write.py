"""Records of all releases -> the text files of the index (docs/index-format.md).

Each symbol stands once for each shape it ever had, with its releases.
"""

from __future__ import annotations

import builtins
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from patchgate.lint.index.digests import DIGESTS, digest
from patchgate.lint.index.records import CallSite, Class, Function, Module, Parameter, ReleaseRecords
from patchgate.model.files import write_atomically
from patchgate.model.versions import ReleaseSets

# Called everywhere and on everything: kept once for each module instead of for each function.
EVERYDAY = frozenset(name for owner in (builtins, str, list, dict, set) for name in dir(owner)) | {"debug", "warning"}
_FORMS = {"static": "static ", "class": "classmethod ", "property": "property ", "cached-property": "cached "}


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
    life_of: dict[str, int] = defaultdict(int)
    for each in releases:
        for name in each.modules:
            life_of[name] |= sets.bits[each.version]
    files = {"releases.txt": "".join(f"{each.version} {each.triton}".rstrip() + "\n" for each in releases)}
    files["modules.txt"] = "".join(_ended(name, life_of[name], sets.all, sets) for name in sorted(life_of))
    shared: dict[str, list[str]] = defaultdict(list)
    for name in sorted(life_of):
        records = {sets.bits[each.version]: each.modules[name] for each in releases if name in each.modules}
        calls = {sets.bits[each.version]: each.calls.get(name, []) for each in releases if name in each.modules}
        files[f"api/{name}.txt"] = "".join(_module(records, life_of[name], sets))
        for kind, lines in (("imports", _imports(records, sets)), ("calls", _calls(calls, sets))):
            body = list(lines)
            if body:
                shared[f"{kind}/{'.'.join(name.split('.')[:2])}.txt"] += [f"module: {name}\n", *body]
        bases = list(_bases(records, sets))
        shared["classes.txt"] += [f"module: {name}\n", *bases] if bases else []
    files.update((path, "".join(lines)) for path, lines in shared.items())
    files[DIGESTS] = "".join(f"{digest(files[path].encode())} {path}\n" for path in sorted(files))
    return files


def _ended(text: str, mask: int, life: int, sets: ReleaseSets) -> str:
    text = text.replace("\n", " ").replace("\t", " ")
    return f"{text}\t{sets.text(mask)}\n" if mask != life else f"{text}\n"


def _module(records: Mapping[int, Module], life: int, sets: ReleaseSets) -> Iterable[str]:
    yield _ended(f"module {next(iter(records.values())).name}", life, sets.all, sets)
    makers = [bit for bit, each in records.items() if each.has_getattr and "__getattr__" not in each.functions]
    yield from _texts(sets, life, ((":  | getattr", bit) for bit in makers))
    yield from _body(records, life, sets)
    yield from _texts(
        sets,
        life,
        ((f"? {name} = {value}", bit) for bit, each in records.items() for name, value in each.config.items()),
    )
    for name in sorted({name for each in records.values() for name in each.classes}):
        classes = {bit: each.classes[name] for bit, each in records.items() if name in each.classes}
        alive = sum(classes)
        yield _ended(f"class {name}", alive, life, sets)
        heads = ((_head(each), bit) for bit, each in classes.items())
        yield from _texts(sets, alive, ((text, bit) for text, bit in heads if text))
        yield from _body(classes, alive, sets)


def _head(owner: Class) -> str:
    flags = (["abstract"] if owner.abstract else []) + (["getattr"] if owner.has_getattr else [])
    return f": {', '.join(owner.bases)}{' | ' if flags else ''}{' '.join(flags)}" if owner.bases or flags else ""


def _texts(sets: ReleaseSets, life: int, found: Iterable[tuple[str, int]]) -> Iterable[str]:
    """Each text once, with its releases, in the order of the names they begin with."""
    masks: dict[str, int] = defaultdict(int)
    for text, bit in found:
        masks[text] |= bit
    for text, mask in sorted(masks.items(), key=lambda each: (each[0].split(maxsplit=2)[:2], each[1] & -each[1])):
        yield _ended(text, mask, life, sets)


def _body(owners: Mapping[int, Module] | Mapping[int, Class], life: int, sets: ReleaseSets) -> Iterable[str]:
    plain: dict[tuple[str, str | None], int] = defaultdict(int)
    for bit, owner in owners.items():
        for name, annotation in owner.attributes.items():
            plain[name, annotation] |= bit
    always = sorted(name for (name, note), mask in plain.items() if note is None and mask == life)
    if always:
        yield f". {' '.join(always)}\n"
    rest = [key for key, mask in plain.items() if key[1] is not None or mask != life]
    for name, note in sorted(rest, key=lambda key: (key[0], plain[key] & -plain[key])):
        yield _ended(f". {name}: {note}" if note is not None else f". {name}", plain[name, note], life, sets)
    yield from _functions(owners, life, sets)


def _functions(owners: Mapping[int, Module] | Mapping[int, Class], life: int, sets: ReleaseSets) -> Iterable[str]:
    shapes: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for bit, owner in owners.items():
        for name, function in owner.functions.items():
            shapes[name, function_text(function)][bit] = function.body
    for (_, text), bodies in sorted(shapes.items(), key=lambda each: (each[0][0], min(each[1]))):
        yield f"{text}\t{write_steps(bodies, life, sets)}\n"


def write_steps(values: Mapping[int, str], life: int, sets: ReleaseSets) -> str:
    """The value of each release of `life`, as the releases at which it changes; the very first is not named.

    `#a 2.9.0#b 2.12.0-` is a, from 2.9.0 on b, from 2.12.0 on none.
    """
    steps: list[str] = []
    before = None
    for version, bit in sets.bits.items():
        now = values.get(bit)
        if bit & life and now != before:
            steps.append(f"{version if bit != life & -life else ''}{f'#{now}' if now is not None else '-'}")
            before = now
    return " ".join(steps)


def function_text(function: Function) -> str:
    """The signature as Python writes it, annotations of parameters left out."""
    kind = _FORMS.get(function.form, "") + ("async " if function.is_async else "")
    returns = f" -> {function.returns}" if function.returns else ""
    text = f"{kind}def {function.name}({parameters_text(function.parameters)}){returns}"
    return text.replace("\n", " ").replace("\t", " ")


def parameters_text(parameters: Iterable[Parameter]) -> str:
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


def _imports(records: Mapping[int, Module], sets: ReleaseSets) -> Iterable[str]:
    masks: dict[tuple[str, str, str], int] = defaultdict(int)
    for bit, module in records.items():
        for kind, table in (("from", module.imports), ("lazy", module.lazy_imports)):
            for local, origin in table.items():
                masks[kind, local, origin] |= bit
        for registry, origin in module.held:
            masks["held", registry, origin] |= bit
    grouped: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for (kind, local, origin), mask in masks.items():
        owner, _, name = origin.rpartition(".")
        grouped[kind, owner or ".", mask].append(name if name in (local, "*") else f"{local}={name}")
    for (kind, owner, mask), names in sorted(grouped.items(), key=lambda e: (*e[0][:2], e[0][2] & -e[0][2], e[0][2])):
        yield _ended(f"{kind} {owner} {' '.join(sorted(names))}", mask, sum(records), sets)


def _calls(calls: Mapping[int, list[tuple[str, CallSite]]], sets: ReleaseSets) -> Iterable[str]:
    """For each function the distinct calls in it; line numbers would make every release a new text."""
    life = sum(calls)
    masks: dict[tuple[str, str], int] = defaultdict(int)
    for bit, sites in calls.items():
        for name, site in sites:
            count = f"{name}/{site.positional}{site.receiver}{'*' if site.star else ''}"
            words = ",".join([count, *site.keywords])
            masks[(site.function if name not in EVERYDAY else "") or "-", words] |= bit
    grouped: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for (function, words), mask in masks.items():
        owner, _, name = function.rpartition(".")
        grouped[owner, name, mask].append(words)
    before = ("", "")
    for (owner, name, mask), found in sorted(grouped.items(), key=lambda e: (*e[0][:2], e[0][2] & -e[0][2], e[0][2])):
        if owner != before[0]:
            yield f"class: {owner}\n"
        again = (owner, name) == before
        yield _ended(f"{'' if again else name} {' '.join(sorted(set(found)))}", mask, life, sets)
        before = (owner, name)


def _bases(records: Mapping[int, Module], sets: ReleaseSets) -> Iterable[str]:
    """Classes that have bases of torch's or triton's own."""
    masks: dict[str, int] = defaultdict(int)
    for bit, module in records.items():
        for owner in module.classes.values():
            bases = [base for base in owner.bases if base.startswith(("torch.", "triton."))]
            if bases:
                masks[f"{owner.name} {' '.join(bases)}"] |= bit
    for text, mask in sorted(masks.items(), key=lambda each: (each[0].split()[0], each[1] & -each[1])):
        yield _ended(text, mask, sets.all, sets)
