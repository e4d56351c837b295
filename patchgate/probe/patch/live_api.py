"""Checks the running torch for the names that a patch uses: whether they exist, and whether
replacements fit.

The names come from the claimed targets, the patch's text, and what running it replaced.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils._config_module import ConfigModule

from patchgate.probe.patch.coverage import first_line, lines_that_can_run
from patchgate.probe.patch.line_coverage import tracing
from patchgate.probe.patch.load import run_patch
from patchgate.probe.patch.snapshot import Changes, changes, resolve, take_snapshot
from patchgate.probe.patch.torch_imports import torch_imports_added_to
from patchgate.probe.protocol import Finding, InspectSurface, Stage, Surface
from patchgate.probe.simulate.fake_device import fake_device

# What is expected of a name that the patch adds.
ADDED = "new in torch"
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def inspect_surface(request: InspectSurface, stage: Stage) -> Surface:
    """Check the patch's targets, imports, attributes and signatures against this torch."""
    with tokenize.open(request["patch"]) as file:
        source = file.read()
    findings = [*_check_targets(request["targets"]), *_check_imports(source)]
    with fake_device(request["profile"]):
        before = take_snapshot()
        stage("patch")
        with tracing(request["patch"]) as coverage, torch_imports_added_to(before):
            run_patch(request["patch"], request)
        changed = changes(before, take_snapshot())
    stage("surface")
    live = lines_that_can_run(ast.parse(source), coverage["ran"])
    # What the patch adds need not have been there, and what is for another release need not fit
    # this one.
    missing = {one["subject"] for one in _check_imports(source) if one["code"] != "PG105"}
    findings = [
        one
        for one in findings
        if one["code"] not in ("PG103", "PG104") or one["subject"] in missing
    ]
    findings = [_unless_added(one, changed) if one["code"] == "PG101" else one for one in findings]
    findings = [
        one
        for one in findings
        if one["line"] is None or one["code"] == "PG105" or one["line"] in live
    ]
    for name, (original, replacement) in sorted(changed.items()):
        is_static = isinstance(replacement, staticmethod)
        original = original or _inherited(name)
        original, replacement = (
            getattr(value, "__func__", value) for value in (original, replacement)
        )
        if name.startswith("sys.modules[") and isinstance(replacement, ModuleType):
            findings += _check_module(source, original, replacement)
        if original is None and callable(replacement) and not name.endswith("]"):
            findings.append(
                _finding("PG105", f"attribute {name}", None, ADDED, "added by the patch")
            )
        # An entry of a registry is called by its op's schema, whatever its parameters are called.
        if callable(original) and callable(replacement) and not name.endswith("]"):
            findings += _check_signature(name, original, replacement)
            findings += _check_forwarding(source, name, original, replacement)
            try:
                owner = resolve(name.rpartition(".")[0])
            except LookupError:
                continue
            if isinstance(owner, type) and not is_static:
                findings += _check_attributes(source, owner, replacement)
    return {"findings": findings, "changed": sorted(changed)}


def covered_names(target: str, changed: Iterable[str]) -> list[str]:
    """The changed names that a claimed target means, however it is spelt.

    A target may be an entry of a table
    (`torch._inductor.lowering.lowerings[torch.ops.aten.relu.default]`), a table with all its
    entries, and any of the names under which torch has the same owner.
    """
    wanted = _place(target)
    return [name for name in changed if name == target or (wanted and _means(wanted, _place(name)))]


def _place(dotted: str) -> tuple[Any, str] | None:
    """(owner, name of the attribute) or (table, key of the entry); None where this torch has no
    such owner.
    """
    table, bracket, key = dotted.partition("[")
    owner, _, name = table.rpartition(".")
    with suppress(LookupError):
        if bracket:
            # One spelling of a key, with or without quotes and `torch.ops.`.
            spelt = key.removesuffix("]").strip().strip("'\"")
            return resolve(table), spelt.removeprefix("torch.ops.")
        return resolve(owner), name
    return None


def _means(target: tuple[Any, str], changed: tuple[Any, str] | None) -> bool:
    if changed is None:
        return False
    (owner, name), (place, key) = target, changed
    if place is owner:
        return name == key
    # A whole table is claimed by its name.
    return (
        isinstance(place, (dict, list, set)) and inspect.getattr_static(owner, name, None) is place
    )


def _finding(
    code: str,
    subject: str,
    line: int | None,
    expected: str,
    actual: str,
    by_name: Sequence[str] = (),
) -> Finding:
    return Finding(
        code=code, subject=subject, line=line, expected=expected, actual=actual, by_name=[*by_name]
    )


def _check_targets(targets: list[str]) -> Iterator[Finding]:
    """PG101 for each target that this torch does not have."""
    for target in targets:
        name = target.split("[")[0]
        try:
            resolve(name)
        except LookupError as missing:
            yield _finding("PG101", f"target {target}", None, "exists", f"no {missing.args[0]}")
        else:
            yield _finding("PG105", f"target {target}", None, "exists", "exists")


def _unless_added(missing: Finding, changed: Changes) -> Finding:
    """A target that this torch did not have, after the patch: one that it has added is there.

    A function of its own may be meant for another name; an operator, or what torch had under a new
    name, is not.
    """
    target = missing["subject"].partition(" ")[2]
    (after,) = _check_targets([target])
    if after["code"] == "PG101":
        return missing
    originals = {
        id(each) for old, _ in changed.values() for each in (old, getattr(old, "__func__", None))
    }
    added = [changed[name][1] for name in covered_names(target, changed)]
    own = any(callable(value) and id(value) not in originals for value in added)
    return {
        **after,
        "expected": ADDED if own else after["expected"],
        "actual": "added by the patch",
    }


def _inherited(name: str) -> Any:
    """The method of a base class of torch's that a new method overrides; None where there is none,
    and for one that takes anything.
    """
    owner_name, _, method = name.rpartition(".")
    try:
        owner = resolve(owner_name)
    except LookupError:
        return None
    bases = owner.__mro__[1:] if isinstance(owner, type) else ()
    found = next((vars(base)[method] for base in bases if method in vars(base)), None)
    if not isinstance(found, types.FunctionType) or not found.__module__.startswith("torch"):
        return None
    takes_any = found.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    return None if takes_any else found


def _check_signature(name: str, original: Any, replacement: Any) -> Iterator[Finding]:
    """PG102 for each way in which `replacement` cannot take a call that `original` takes."""
    try:
        old, written = inspect.signature(original).parameters, inspect.signature(replacement)
    except (TypeError, ValueError):
        return
    line = getattr(getattr(replacement, "__code__", None), "co_firstlineno", None)
    kinds = {parameter.kind for parameter in written.parameters.values()}
    any_args = inspect.Parameter.VAR_POSITIONAL in kinds
    any_kwargs = inspect.Parameter.VAR_KEYWORD in kinds
    renamed = _taken_by_position(old, written.parameters)
    # `**options` is not the parameter `options` of the original: it takes that one, too.
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    new = {key: each for key, each in written.parameters.items() if each.kind not in variadic}
    faults = [
        f"parameter `{key}` is missing"
        for key, parameter in old.items()
        if key not in new and key not in renamed and not _covered(parameter, any_args, any_kwargs)
    ]
    faults += [
        f"parameter `{key}` lost its default"
        for key, parameter in old.items()
        if (mine := new.get(renamed.get(key, key))) is not None
        and parameter.default is not parameter.empty
        and mine.default is parameter.empty
    ]
    faults += [
        f"parameter `{key}` is required but no caller passes it"
        for key, parameter in new.items()
        if key not in old and key not in renamed.values() and parameter.default is parameter.empty
    ]
    subject, expected = f"signature {name}", f"{inspect.signature(original)}"
    if faults:
        yield _finding("PG102", subject, line, expected, f"{written}: {', '.join(faults)}")
        return
    by_name = (
        []
        if any_kwargs
        else [key for key in renamed if old[key].kind is not inspect.Parameter.POSITIONAL_ONLY]
    )
    if by_name:
        actual = f"{written}: not by name: {', '.join(by_name)}"
        yield _finding("PG102", subject, line, expected, actual, by_name)
    else:
        yield _finding("PG105", subject, line, expected, "compatible")


def _taken_by_position(
    old: Mapping[str, inspect.Parameter], new: Mapping[str, inspect.Parameter]
) -> dict[str, str]:
    """Parameter of the original that the replacement takes by position only -> what it is called
    there.
    """
    slots = [key for key, each in new.items() if each.kind in _POSITIONAL]
    rest = next((key for key, each in new.items() if each.kind is each.VAR_POSITIONAL), "")
    wanted = [key for key, each in old.items() if each.kind in _POSITIONAL]
    places = {
        key: slots[at] if at < len(slots) else rest
        for at, key in enumerate(wanted)
        if key not in new
    }
    return {key: place for key, place in places.items() if place and place not in old}


def _check_module(source: str, old: Any, new: ModuleType) -> Iterator[Finding]:
    """PG103 for each name that a module has lost by being replaced, and that files of torch import
    from it.
    """
    line = next(
        (number for number, text in enumerate(source.splitlines(), 1) if "sys.modules[" in text),
        None,
    )
    own = {
        key
        for key, value in vars(old).items()
        if getattr(value, "__module__", None) == old.__name__
    }
    lost = {key for key in own if not hasattr(new, key)}
    wanted = _importers(old.__name__, lost) if lost else {}
    for name, file in sorted(wanted.items()):
        subject, actual = (
            f"attribute {old.__name__}.{name}",
            f"not in {new.__name__}, which replaces the module",
        )
        yield _finding("PG103", subject, line, f"exists: {file} imports it", actual)
    if not wanted:
        yield _finding(
            "PG105", f"module {old.__name__}", line, "has what is imported from it", "has it"
        )


def _importers(module: str, names: set[str]) -> dict[str, str]:
    """Name -> a file of torch that imports it from the module."""
    last, root = module.rpartition(".")[2], Path(torch.__file__).parent
    files: dict[str, str] = {}
    for path in root.joinpath(*module.split(".")[1:2]).rglob("*.py"):
        text = path.read_bytes()
        if last.encode() not in text or not any(name.encode() in text for name in names):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").rpartition(".")[2] == last:
                found = {alias.name for alias in node.names} & names
                files |= dict.fromkeys(found, str(path.relative_to(root.parent)))
    return files


def _check_forwarding(source: str, name: str, original: Any, replacement: Any) -> Iterator[Finding]:
    """PG102 for a keyword that a replacement hands to the original beside its own `**kwargs`, which
    may hold it too.
    """
    function = _definition(source, replacement)
    if function is None or function.args.kwarg is None:
        return
    rest, values = function.args.kwarg.arg, inspect.getclosurevars(inspect.unwrap(replacement))
    named = {**values.globals, **values.nonlocals}
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    handed_on = {id(each.value) for call in calls for each in call.keywords if each.arg is None}
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == rest]
    if any(id(node) not in handed_on for node in names):  # it may take the keyword out
        return
    own = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}
    with suppress(TypeError, ValueError):
        signature = inspect.signature(original)
        for call in calls:
            keywords = {each.arg or ast.unparse(each.value) for each in call.keywords}
            twice = sorted(keywords & signature.parameters.keys() - own - {rest})
            callee = named.get(ast.unparse(call.func))
            if twice and rest in keywords and getattr(callee, "__func__", callee) is original:
                actual = (
                    f"passes {', '.join(twice)} next to `**{rest}`, which has it too where "
                    "torch passes it by name"
                )
                yield _finding(
                    "PG102", f"signature {name}", call.lineno, f"{signature}", actual, twice
                )


def _covered(parameter: inspect.Parameter, any_args: bool, any_kwargs: bool) -> bool:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
        return any_args
    if parameter.kind in (parameter.VAR_KEYWORD, parameter.KEYWORD_ONLY):
        return any_kwargs
    return any_args and any_kwargs


def _check_attributes(source: str, owner: type, function: Any) -> Iterator[Finding]:
    """PG103 for each `self.name` in a replaced method that instances of `owner` cannot have."""
    definition = _definition(source, function)
    if definition is None or not definition.args.args:
        return
    receiver = definition.args.args[0].arg
    for name, line in sorted(_attributes_of(definition, receiver).items()):
        subject = f"attribute {owner.__name__}.{name}"
        where = _where_defined(owner, name)
        if where is None:
            actual = f"no such attribute on {owner.__module__}.{owner.__name__}"
            yield _finding("PG103", subject, line, "exists", actual)
        else:
            yield _finding("PG105", subject, line, "exists", where)


def _definition(source: str, function: Any) -> ast.FunctionDef | None:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return None
    wanted = code.co_name, code.co_firstlineno
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    return next((node for node in functions if (node.name, first_line(node)) == wanted), None)


def _attributes_of(function: ast.FunctionDef, receiver: str) -> dict[str, int]:
    guarded = {
        node.args[1].value
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("hasattr", "getattr")
        and len(node.args) > 1
        and isinstance(node.args[1], ast.Constant)
    }
    return {
        node.attr: node.lineno
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == receiver
        and isinstance(node.ctx, ast.Load)
        and node.attr not in guarded
    }


def _where_defined(owner: type, name: str) -> str | None:
    """The class that defines `name`, or None. Instance attributes are read off the class's
    source.
    """
    for cls in owner.__mro__:
        if name in vars(cls) or name in vars(cls).get("__annotations__", {}):
            return f"defined on {cls.__name__}"
        try:
            assigned = re.search(
                rf"\bself\.{re.escape(name)}\b\s*(:[^=\n]+)?=[^=]", inspect.getsource(cls)
            )
        except (OSError, TypeError):
            assigned = None
        if assigned:
            return f"set by {cls.__name__}"
    if any("__getattr__" in vars(cls) for cls in owner.__mro__):
        return f"maybe: {owner.__name__} answers unknown names through __getattr__"
    return None


def _check_imports(source: str) -> Iterator[Finding]:
    """PG104 for each torch import, and PG103 for each attribute chain on one, that does not
    resolve.

    Imports under `try` or `if` are left out: there the patch looks itself.
    """
    tree = ast.parse(source)
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Try, ast.If))
        for inner in ast.walk(node)
        if inner is not node
    }
    bound: dict[str, tuple[str, Any]] = {}
    for node in ast.walk(tree):
        if id(node) not in guarded and isinstance(node, (ast.Import, ast.ImportFrom)):
            for dotted, local, line in _imported(node):
                try:
                    bound[local] = (
                        dotted,
                        resolve(dotted) if isinstance(node, ast.Import) else _taken_from(dotted),
                    )
                    yield _finding("PG105", f"import {dotted}", line, "importable", "importable")
                except LookupError as missing:
                    yield _finding(
                        "PG104", f"import {dotted}", line, "importable", f"no {missing.args[0]}"
                    )
    seen: set[str] = set()
    for node in ast.walk(tree):
        # What is assigned need not be there before.
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
            continue
        chain = _chain(node)
        if chain and chain[0] in bound and id(node) not in guarded and ".".join(chain) not in seen:
            seen.add(".".join(chain))
            dotted, value = bound[chain[0]]
            yield from _follow(dotted, value, chain[1:], node.end_lineno or node.lineno)


def _taken_from(dotted: str) -> Any:
    """The object that `from owner import name` binds: a module only if no attribute of the owner
    has its name.
    """
    owner, _, name = dotted.rpartition(".")
    with suppress(ImportError):
        held = vars(importlib.import_module(owner))
        if name in held:
            return held[name]
    return resolve(dotted)


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str, int]]:
    """(name in torch, name in the patch, line) of each import of torch's or Triton's."""
    for alias in node.names:
        if isinstance(node, ast.Import):
            dotted, local = (
                (alias.name, alias.asname) if alias.asname else (alias.name.split(".")[0],) * 2
            )
        else:
            dotted, local = f"{node.module}.{alias.name}", alias.asname or alias.name
        if dotted.split(".")[0] in ("torch", "triton"):
            yield dotted, local, alias.lineno


def _chain(node: ast.expr) -> list[str]:
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) and names else []


def _is_device(name: str) -> bool:
    """True if torch knows a device of that name, whose functions a package of its own brings."""
    try:
        torch.device(name)
    except RuntimeError:
        return False
    return True


def _has_operators(namespace: str) -> bool:
    """True if torch has operators in a namespace of `torch.ops`."""
    names = torch._C._dispatch_get_all_op_names()
    return any(name.startswith(f"{namespace}::") for name in names)


def _follow(dotted: str, value: Any, names: list[str], line: int) -> Iterator[Finding]:
    """Follow a chain as far as it leads through modules, config and classes; the rest is known only
    at run time.
    """
    for name in names:
        if not isinstance(value, (ModuleType, ConfigModule, type)):
            return
        dotted = f"{dotted}.{name}"
        if (value is torch.ops and not _has_operators(name)) or (
            value is torch and _is_device(name)
        ):
            return  # what the project defines later, or a package for its device
        try:
            value = getattr(value, name)
        except AttributeError:
            try:
                value = importlib.import_module(dotted)
            except ImportError:
                yield _finding("PG103", f"attribute {dotted}", line, "exists", "no such attribute")
                return
