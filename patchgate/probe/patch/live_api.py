"""Checks that the names a patch uses exist in the running torch, and that its replacements fit.

The names come from the claimed targets, the patch's text, and the names that it replaced.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from inspect import Parameter
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch.utils._config_module import ConfigModule

from patchgate.probe.patch.coverage import first_line, lines_that_can_run, tracing
from patchgate.probe.patch.load import run_patch
from patchgate.probe.patch.module_name import top_level
from patchgate.probe.patch.snapshot import Changes, changes, resolve, take_snapshot
from patchgate.probe.patch.stubs import Stub
from patchgate.probe.patch.torch_imports import torch_imports_added_to
from patchgate.probe.protocol import Finding, InspectSurface, Stage, Surface
from patchgate.probe.simulate.fake_device import fake_device

# The expectation in a finding on a name that the patch adds.
ADDED = "new in torch"
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def inspect_surface(request: InspectSurface, stage: Stage) -> Surface:
    """Check the patch's targets, imports, attributes and signatures against this torch."""
    with tokenize.open(request["patch"]) as file:
        source = file.read()
    tree = ast.parse(source)
    before_it_ran = [*_check_targets(request["targets"]), *_check_imports(tree)]
    with fake_device(request["profile"]):
        before = take_snapshot()
        stage("patch")
        with tracing(request["patch"], {}) as coverage, torch_imports_added_to(before):
            run_patch(request["patch"], request)
        changed = changes(before, take_snapshot())
    stage("surface")
    live = lines_that_can_run(tree, coverage["ran"])
    # Names that the patch adds may be missing, and lines for another release may not fit this one.
    missing = {one["subject"] for one in _check_imports(tree) if one["code"] != "PG105"}
    findings, own = [], _set_attributes(tree)
    for one in before_it_ran:
        if one["code"] in ("PG103", "PG104") and one["subject"] not in missing:
            continue
        if one["code"] == "PG101":
            one = _unless_added(one, changed)
        if one["line"] is None or one["code"] == "PG105" or one["line"] in live:
            findings.append(one)
    for name, (old, now) in sorted(changed.items()):
        was = old or _inherited(name)
        original, replacement = (getattr(value, "__func__", value) for value in (was, now))
        if name.startswith("sys.modules[") and isinstance(replacement, ModuleType):
            findings += _check_module(source, original, replacement)
        # An entry of a registry is called by its op's schema, so the names of its parameters do
        # not matter. The parameters of a stand-in are unknown.
        if not callable(replacement) or name.endswith("]"):
            continue
        if original is None:
            findings.append(_finding(f"attribute {name}", None, ADDED, "added by the patch"))
        elif callable(original) and not isinstance(replacement, Stub):
            findings += _check_signature(name, original, replacement)
            for function, definition in _own_functions(tree, replacement).items():
                findings += _check_forwarding(definition, name, original, function)
                findings += _check_result(definition, name, original, function)
                with suppress(LookupError):
                    owner = resolve(name.rpartition(".")[0])
                    if isinstance(owner, type) and not isinstance(now, staticmethod):
                        findings += _check_attributes(definition, owner, own)
    return {"findings": findings, "changed": sorted(changed)}


def covered_names(target: str, changed: Iterable[str]) -> list[str]:
    """The changed names that a claimed target means, in any spelling.

    A target may be an entry of a table
    (`torch._inductor.lowering.lowerings[torch.ops.aten.relu.default]`), a table with all its
    entries, and any of the names under which torch has the same owner.
    """
    wanted = _place(target)
    return [name for name in changed if name == target or (wanted and _means(wanted, _place(name)))]


def _place(dotted: str) -> tuple[Any, str] | None:
    """Return (owner, attribute's name) or (table, entry's key); None if this torch lacks the owner
    or the table.
    """
    table, bracket, key = dotted.partition("[")
    owner, _, name = table.rpartition(".")
    with suppress(LookupError):
        if bracket:
            # Normalise the key: a target may have it with quotes and `torch.ops.`.
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
    subject: str,
    line: int | None,
    expected: str,
    actual: str,
    code: str = "PG105",
    by_name: Sequence[str] = (),
) -> Finding:
    """A finding; an empty code means that there is no fault."""
    return Finding(
        code=code, subject=subject, line=line, expected=expected, actual=actual, by_name=[*by_name]
    )


def _check_targets(targets: list[str]) -> Iterator[Finding]:
    """PG101 for each target that this torch does not have."""
    for target in targets:
        subject = f"target {target}"
        try:
            resolve(target.split("[")[0])
            yield _finding(subject, None, "exists", "exists")
        except LookupError as missing:
            yield _finding(subject, None, "exists", f"no {missing.args[0]}", "PG101")


def _unless_added(missing: Finding, changed: Changes) -> Finding:
    """Revise the finding on a missing target: the patch may have added the target.

    If the patch adds a function of its own, the target may be misspelt. If the patch adds an
    operator, or an object that torch had under another name, the target is meant.
    """
    target = missing["subject"].partition(" ")[2]
    (after,) = _check_targets([target])
    if after["code"] == "PG101":
        return missing
    originals = {
        id(each) for old, _ in changed.values() for each in (old, getattr(old, "__func__", None))
    }
    added = [changed[name][1] for name in covered_names(target, changed)]
    if any(callable(value) and id(value) not in originals for value in added):
        after["expected"] = ADDED
    return {**after, "actual": "added by the patch"}


def _inherited(name: str) -> Any:
    """The method of a base class of torch that a new method overrides. None if there is no such
    method, or if it has `*args` or `**kwargs`.
    """
    owner_name, _, method = name.rpartition(".")
    owner: Any = None
    with suppress(LookupError):
        owner = resolve(owner_name)
    bases = owner.__mro__[1:] if isinstance(owner, type) else ()
    found = next((vars(base)[method] for base in bases if method in vars(base)), None)
    if not isinstance(found, FunctionType) or not (found.__module__ or "").startswith("torch"):
        return None
    takes_any = found.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    return None if takes_any else found


def _check_signature(name: str, original: Any, replacement: Any) -> Iterator[Finding]:
    """PG102 for each kind of call that `original` takes and `replacement` does not."""
    try:
        known = inspect.signature(original)
        # The parameters of a wrapper by `functools.wraps` are its own, not those of the original.
        is_wrapper = inspect.unwrap(replacement) is inspect.unwrap(original)
        written = inspect.signature(replacement, follow_wrapped=not is_wrapper)
    except (TypeError, ValueError):
        return
    old = known.parameters
    line = getattr(getattr(replacement, "__code__", None), "co_firstlineno", None)
    kinds = {parameter.kind for parameter in written.parameters.values()}
    renamed = _taken_by_position(old, written.parameters)
    # `**options` is not the parameter `options` of the original: it takes that parameter too.
    new = {key: each for key, each in written.parameters.items() if each.kind not in _VARIADIC}
    faults = [
        f"parameter `{key}` is missing"
        for key, parameter in old.items()
        if key not in new and key not in renamed and not _takers(parameter) <= kinds
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
    named = [key for key in renamed if old[key].kind is not Parameter.POSITIONAL_ONLY]
    by_name = [] if Parameter.VAR_KEYWORD in kinds or faults else named
    if by_name:
        faults = [f"not by name: {', '.join(by_name)}"]
    actual, code = f"{written}: {', '.join(faults)}", "PG102"
    if not faults:
        actual, code = "compatible", "PG105"
    yield _finding(f"signature {name}", line, f"{known}", actual, code, by_name)


def _taken_by_position(
    old: Mapping[str, Parameter], new: Mapping[str, Parameter]
) -> dict[str, str]:
    """Map original parameters to the replacement's, if it takes them by position only."""
    slots = [key for key, each in new.items() if each.kind in _POSITIONAL]
    rest = next((key for key, each in new.items() if each.kind is each.VAR_POSITIONAL), "")
    wanted = [key for key, each in old.items() if each.kind in _POSITIONAL]
    places = {key: (slots[at:] or [rest])[0] for at, key in enumerate(wanted) if key not in new}
    return {key: place for key, place in places.items() if place and place not in old}


def _takers(parameter: Parameter) -> set[Any]:
    """The kinds of variadic parameters that a replacement without this parameter needs, so that no
    call with the parameter fails.
    """
    if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.POSITIONAL_ONLY):
        return {Parameter.VAR_POSITIONAL}
    if parameter.kind in (Parameter.VAR_KEYWORD, Parameter.KEYWORD_ONLY):
        return {Parameter.VAR_KEYWORD}
    return set(_VARIADIC)


def _check_module(source: str, old: Any, new: ModuleType) -> Iterator[Finding]:
    """PG103 for each name that files of torch import from a replaced module, and that the new
    module lacks.
    """
    lines = enumerate(source.splitlines(), 1)
    line = next((number for number, text in lines if "sys.modules[" in text), None)
    own = (
        key
        for key, value in vars(old).items()
        if getattr(value, "__module__", None) == old.__name__
    )
    lost = {key for key in own if not hasattr(new, key)}
    wanted = _importers(old.__name__, lost) if lost else {}
    actual = f"not in {new.__name__}, which replaces the module"
    for name, file in sorted(wanted.items()):
        subject = f"attribute {old.__name__}.{name}"
        yield _finding(subject, line, f"exists: {file} imports it", actual, "PG103")
    if not wanted:
        subject = f"module {old.__name__}"
        yield _finding(subject, line, "has what is imported from it", "has it")


def _importers(module: str, names: set[str]) -> dict[str, str]:
    """Map each name that torch imports from the module to a file of torch that imports it."""
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


def _check_forwarding(
    function: ast.FunctionDef, name: str, original: Any, replacement: Any
) -> Iterator[Finding]:
    """PG102 for a keyword that a replacement passes to the original next to its own `**kwargs`,
    which may contain the same keyword.
    """
    if function.args.kwarg is None:
        return
    rest, values = function.args.kwarg.arg, inspect.getclosurevars(replacement)
    named = {**values.globals, **values.nonlocals}
    nodes = list(ast.walk(function))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    handed_on = {id(each.value) for call in calls for each in call.keywords if each.arg is None}
    uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == rest]
    if any(id(node) not in handed_on for node in uses):  # it may remove the keyword
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
                subject = f"signature {name}"
                yield _finding(subject, call.lineno, f"{signature}", actual, "PG102", twice)


def _check_result(
    function: ast.FunctionDef, name: str, original: Any, replacement: Any
) -> Iterator[Finding]:
    """PG106 for a replacement that calls the original, drops its result, and returns nothing."""
    nodes = [*_of_its_own(function)]
    if any(isinstance(node, (ast.Yield, ast.YieldFrom)) or _gives(node) for node in nodes):
        return
    values = inspect.getclosurevars(replacement)
    named = {**values.globals, **values.nonlocals}
    for node in nodes:
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
            continue
        callee = named.get(ast.unparse(node.value.func))
        if getattr(callee, "__func__", callee) is original and _returns_a_value(original):
            actual = "drops what the original returns, and returns None"
            subject = f"result {name}"
            yield _finding(subject, node.lineno, "what the original returns", actual, "PG106")


def _returns_a_value(function: Any) -> bool:
    with suppress(OSError, TypeError, SyntaxError):
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
        definition = ast.parse(source).body[0]
        return isinstance(definition, ast.FunctionDef) and any(
            _gives(node) for node in _of_its_own(definition)
        )
    return False


def _gives(node: ast.AST) -> bool:
    """True for a `return` of something other than None."""
    return (
        isinstance(node, ast.Return)
        and node.value is not None
        and not (isinstance(node.value, ast.Constant) and node.value.value is None)
    )


def _of_its_own(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes in a function, without the nodes of functions and classes inside it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield node
            yield from _of_its_own(node)


def _check_attributes(
    function: ast.FunctionDef, owner: type, own: Collection[str]
) -> Iterator[Finding]:
    """PG103 for each `self.name` in a replaced method that instances of `owner` cannot have;
    `own` are the attributes that the patch itself sets.
    """
    for name, line in sorted(_attributes_of(function).items()):
        if name in own:
            continue
        subject = f"attribute {owner.__name__}.{name}"
        where = _where_defined(owner, name)
        if where is None:
            actual = f"no such attribute on {owner.__module__}.{owner.__name__}"
            yield _finding(subject, line, "exists", actual, "PG103")
        else:
            yield _finding(subject, line, "exists", where)


def _own_functions(tree: ast.Module, function: Any) -> dict[Any, ast.FunctionDef]:
    """The functions of the patch that a call of the replacement runs, the outermost first.

    The chain of `functools.wraps` is followed down to the original.
    """
    known = {
        (node.name, first_line(node)): node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }
    found: dict[Any, ast.FunctionDef] = {}
    while isinstance(function, FunctionType) and function not in found:
        code = function.__code__
        definition = known.get((code.co_name, code.co_firstlineno))
        if definition is not None:
            found[function] = definition
        function = getattr(function, "__wrapped__", None)
    return found


def _attributes_of(function: ast.FunctionDef) -> dict[str, int]:
    """Line of each attribute that a method reads from its first parameter without a test for it."""
    receiver = function.args.args[0].arg if function.args.args else None
    read: dict[str, int] = {}
    guarded = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == receiver and isinstance(node.ctx, ast.Load):
                read[node.attr] = node.lineno
        elif isinstance(node, ast.Call) and len(node.args) > 1:
            name = node.args[1]
            if ast.unparse(node.func) in ("hasattr", "getattr") and isinstance(name, ast.Constant):
                guarded.add(name.value)
    return {name: line for name, line in read.items() if name not in guarded}


def _set_attributes(tree: ast.AST) -> set[str]:
    """The attributes that the patch sets on objects which it does not import."""
    imported = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id not in imported
    }


def _where_defined(owner: type, name: str) -> str | None:
    """Describe where `name` is defined; None if nowhere. Instance attributes are searched for in
    the source of each class.
    """
    assigns = re.compile(rf"\bself\.{re.escape(name)}\b\s*(:[^=\n]+)?=[^=]")
    for cls in owner.__mro__:
        if name in vars(cls) or name in vars(cls).get("__annotations__", {}):
            return f"defined on {cls.__name__}"
        with suppress(OSError, TypeError):
            if assigns.search(inspect.getsource(cls)):
                return f"set by {cls.__name__}"
    if any("__getattr__" in vars(cls) for cls in owner.__mro__):
        return f"maybe: {owner.__name__} answers unknown names through __getattr__"
    return None


def _check_imports(tree: ast.Module) -> Iterator[Finding]:
    """PG104 for each import from torch or Triton that does not resolve, and PG103 for each chain of
    attributes on such an import that does not resolve.

    Code under `try` or `if` is left out, because the patch may check the names itself.
    """
    nodes = list(ast.walk(tree))
    blocks = [node for node in nodes if isinstance(node, (ast.Try, ast.If))]
    guarded = {id(inner) for node in blocks for inner in ast.walk(node) if inner is not node}
    bound: dict[str, tuple[str, Any]] = {}
    for node in nodes:
        if id(node) not in guarded and isinstance(node, (ast.Import, ast.ImportFrom)):
            find = resolve if isinstance(node, ast.Import) else _taken_from
            for dotted, local, line in _imported(node):
                try:
                    bound[local] = dotted, find(dotted)
                    yield _finding(f"import {dotted}", line, "importable", "importable")
                except LookupError as missing:
                    actual = f"no {missing.args[0]}"
                    yield _finding(f"import {dotted}", line, "importable", actual, "PG104")
    seen: set[str] = set()
    for node in nodes:
        # An attribute that the patch assigns need not exist before.
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
            continue
        chain = ast.unparse(node)
        local, *names = chain.split(".")
        is_chain = chain.replace(".", "").isidentifier()
        if local in bound and is_chain and id(node) not in guarded and chain not in seen:
            seen.add(chain)
            yield from _follow(*bound[local], names, node.end_lineno or node.lineno)


def _taken_from(dotted: str) -> Any:
    """The object that `from owner import name` binds: an attribute of the owner, or else a
    module.
    """
    owner, _, name = dotted.rpartition(".")
    with suppress(ImportError):
        held = vars(importlib.import_module(owner))
        if name in held:
            return held[name]
    return resolve(dotted)


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str, int]]:
    """Yield (name in torch, name in the patch, line) for each import from torch or Triton."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            dotted, local = f"{node.module}.{alias.name}", alias.asname or alias.name
        elif alias.asname:
            dotted, local = alias.name, alias.asname
        else:
            dotted = local = top_level(alias.name)
        if top_level(dotted) in ("torch", "triton"):
            yield dotted, local, alias.lineno


def _is_device(name: str) -> bool:
    """True if torch knows a device of that name; the device's own package adds `torch.<name>`."""
    with suppress(RuntimeError):
        torch.device(name)
        return True
    return False


def _has_operators(namespace: str) -> bool:
    """True if torch has operators in a namespace of `torch.ops`."""
    names = torch._C._dispatch_get_all_op_names()
    return any(name.startswith(f"{namespace}::") for name in names)


def _follow(dotted: str, value: Any, names: list[str], line: int) -> Iterator[Finding]:
    """PG103 if a module, config or class in the chain lacks a name; other objects end the chain."""
    for name in names:
        if not isinstance(value, (ModuleType, ConfigModule, type)):
            return
        dotted = f"{dotted}.{name}"
        if (value is torch.ops and not _has_operators(name)) or (
            value is torch and _is_device(name)
        ):
            return  # the project, or a package for its device, defines the rest later
        try:
            value = getattr(value, name)
        except AttributeError:
            try:
                value = importlib.import_module(dotted)
            except ImportError:
                yield _finding(f"attribute {dotted}", line, "exists", "no such attribute", "PG103")
                return
