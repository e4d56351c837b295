"""Records of all releases -> the text files of the index (docs/index-format.md).

Each symbol stands once for each shape it ever had, with its releases. Decides the words and their order only.
"""

from __future__ import annotations

import builtins
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from patchgate.lint.index.build import Sources
from patchgate.lint.index.records import CallSite, Class, Function, Module, Parameter
from patchgate.lint.index.release_set import Spans
from patchgate.model.files import write_atomically

Line = tuple[str, str, str, int]  # kind, name, text, releases
# Called everywhere and on everything: kept once for each module instead of for each function.
EVERYDAY = frozenset(name for owner in (builtins, str, list, dict, set) for name in dir(owner)) | {"debug", "warning"}
_FORMS = {"static": "static ", "class": "classmethod ", "property": "property ", "cached-property": "cached "}


def write(folder: Path, sources: Iterable[Sources]) -> None:
    """Make `folder` say what `sources` (oldest first) say, and nothing else."""
    files = texts(list(sources))
    for path, text in files.items():
        file = folder / path
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            write_atomically(file, text)
    for file in folder.rglob("*.txt"):
        if file.relative_to(folder).as_posix() not in files:
            file.unlink()


def texts(sources: list[Sources]) -> dict[str, str]:
    """Path below the index -> text."""
    spans = Spans([each.version for each in sources])
    lives: dict[str, int] = defaultdict(int)
    for each in sources:
        for name in each.modules:
            lives[name] |= spans.bits[each.version]
    files = {"releases.txt": "".join(f"{each.version} {each.triton}".rstrip() + "\n" for each in sources)}
    files["modules.txt"] = "".join(_ended(name, lives[name], spans.all, spans) for name in sorted(lives))
    shared: dict[str, list[str]] = defaultdict(list)
    for name in sorted(lives):
        records = {spans.bits[each.version]: each.modules[name] for each in sources if name in each.modules}
        calls = {spans.bits[each.version]: each.calls.get(name, []) for each in sources if name in each.modules}
        files[f"api/{name}.txt"] = "".join(_module(records, lives[name], spans))
        for kind, lines in (("imports", _imports(records, spans)), ("calls", _calls(calls, spans))):
            body = list(lines)
            if body:
                shared[f"{kind}/{'.'.join(name.split('.')[:2])}.txt"] += [f"module: {name}\n", *body]
        bases = list(_bases(records, spans))
        shared["classes.txt"] += [f"module: {name}\n", *bases] if bases else []
    files.update((path, "".join(lines)) for path, lines in shared.items())
    return files


def _ended(text: str, mask: int, life: int, spans: Spans) -> str:
    text = text.replace("\n", " ").replace("\t", " ")
    return f"{text}\t{spans.text(mask)}\n" if mask != life else f"{text}\n"


def _module(records: Mapping[int, Module], life: int, spans: Spans) -> Iterable[str]:
    yield _ended(f"module {next(iter(records.values())).name}", life, spans.all, spans)
    makers = [bit for bit, each in records.items() if each.has_getattr and "__getattr__" not in each.functions]
    yield from _texts(spans, life, ((":  | getattr", bit) for bit in makers))
    yield from _body(records, life, spans)
    yield from _texts(
        spans,
        life,
        ((f"? {name} = {value}", bit) for bit, each in records.items() for name, value in each.config.items()),
    )
    for name in sorted({name for each in records.values() for name in each.classes}):
        classes = {bit: each.classes[name] for bit, each in records.items() if name in each.classes}
        alive = sum(classes)
        yield _ended(f"class {name}", alive, life, spans)
        heads = ((_head(each), bit) for bit, each in classes.items())
        yield from _texts(spans, alive, ((text, bit) for text, bit in heads if text))
        yield from _body(classes, alive, spans)


def _head(owner: Class) -> str:
    flags = (["abstract"] if owner.abstract else []) + (["getattr"] if owner.has_getattr else [])
    return f": {', '.join(owner.bases)}{' | ' if flags else ''}{' '.join(flags)}" if owner.bases or flags else ""


def _texts(spans: Spans, life: int, found: Iterable[tuple[str, int]]) -> Iterable[str]:
    """Each text once, with its releases, in the order of the names they begin with."""
    masks: dict[str, int] = defaultdict(int)
    for text, bit in found:
        masks[text] |= bit
    for text, mask in sorted(masks.items(), key=lambda each: (each[0].split(maxsplit=2)[:2], each[1] & -each[1])):
        yield _ended(text, mask, life, spans)


def _body(owners: Mapping[int, Module] | Mapping[int, Class], life: int, spans: Spans) -> Iterable[str]:
    plain: dict[tuple[str, str | None], int] = defaultdict(int)
    for bit, owner in owners.items():
        for name, annotation in owner.attributes.items():
            plain[name, annotation] |= bit
    always = sorted(name for (name, note), mask in plain.items() if note is None and mask == life)
    if always:
        yield f". {' '.join(always)}\n"
    rest = [key for key, mask in plain.items() if key[1] is not None or mask != life]
    for name, note in sorted(rest, key=lambda key: (key[0], plain[key] & -plain[key])):
        yield _ended(f". {name}: {note}" if note is not None else f". {name}", plain[name, note], life, spans)
    yield from _functions(owners, life, spans)


def _functions(owners: Mapping[int, Module] | Mapping[int, Class], life: int, spans: Spans) -> Iterable[str]:
    shapes: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for bit, owner in owners.items():
        for name, function in owner.functions.items():
            shapes[name, function_text(function)][bit] = function.body
    for (_, text), bodies in sorted(shapes.items(), key=lambda each: (each[0][0], min(each[1]))):
        yield f"{text}\t{spans.steps(bodies, life)}\n"


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


def _imports(records: Mapping[int, Module], spans: Spans) -> Iterable[str]:
    masks: dict[tuple[str, str, str], int] = defaultdict(int)
    for bit, module in records.items():
        for kind, table in (("from", module.imports), ("lazy", module.lazy_imports)):
            for local, origin in table.items():
                masks[kind, local, origin] |= bit
        for keeper, origin in module.held:
            masks["held", keeper, origin] |= bit
    grouped: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for (kind, local, origin), mask in masks.items():
        owner, _, name = origin.rpartition(".")
        grouped[kind, owner or ".", mask].append(name if name in (local, "*") else f"{local}={name}")
    for (kind, owner, mask), names in sorted(grouped.items(), key=lambda e: (*e[0][:2], e[0][2] & -e[0][2], e[0][2])):
        yield _ended(f"{kind} {owner} {' '.join(sorted(names))}", mask, sum(records), spans)


def _calls(calls: Mapping[int, list[tuple[str, CallSite]]], spans: Spans) -> Iterable[str]:
    """For each function the distinct calls in it; line numbers would make every release a new text."""
    life = sum(calls)
    masks: dict[tuple[str, str], int] = defaultdict(int)
    for bit, sites in calls.items():
        for name, site in sites:
            words = ",".join([f"{name}/{site.positional}{'*' if site.star else ''}", *site.keywords])
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
        yield _ended(f"{'' if again else name} {' '.join(sorted(set(found)))}", mask, life, spans)
        before = (owner, name)


def _bases(records: Mapping[int, Module], spans: Spans) -> Iterable[str]:
    """Classes that have bases of torch's or triton's own."""
    masks: dict[str, int] = defaultdict(int)
    for bit, module in records.items():
        for owner in module.classes.values():
            bases = [base for base in owner.bases if base.startswith(("torch.", "triton."))]
            if bases:
                masks[f"{owner.name} {' '.join(bases)}"] |= bit
    for text, mask in sorted(masks.items(), key=lambda each: (each[0].split()[0], each[1] & -each[1])):
        yield _ended(text, mask, spans.all, spans)
