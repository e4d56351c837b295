"""What a patch's text says of its own claims: targets, releases, scope, effects, title and source, each with a line.

Decides what can be guessed without running anything. Refuses to know how a manifest is written.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import cast

from patchgate.lint.index.release import Release
from patchgate.lint.interpret.references import Usage
from patchgate.lint.interpret.statements import interpret
from patchgate.lint.specifier_inference import points_around, specifier, versions_named

_URL = re.compile(r"https?://[^\s\"'<>)\]}]+")
_DIFF_BEGINS = re.compile(r"^(?:diff |index |--- )", re.M)
_SCOPES = ("contextmanager", "contextlib.contextmanager")


@dataclass(frozen=True, kw_only=True)
class Guess:
    """One claim that the text suggests, and the line that suggests it."""

    value: str
    line: int


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """`applies_to` is None where the patch has no version check, or one that no two bounds can say.

    `unnamed` are lines that change torch in a way whose name only running the patch would tell.
    """

    title: Guess | None
    source: Guess | None
    targets: tuple[Guess, ...] = ()
    applies_to: Guess | None = None
    scope: Guess | None = None
    effects: tuple[Guess, ...] = ()
    unnamed: tuple[int, ...] = ()
    holds_on: tuple[str, ...] = ()


def guesses_in_diff(text: str) -> Guesses:
    """What stands before a diff's first file: its first words, and where it is from."""
    said = _DIFF_BEGINS.split(text, maxsplit=1)[0]
    told = re.search(r"^(?:Subject: )?(?:\[PATCH[^]]*\] )?(?!From |From: |Date: )(\S.*)$", said, re.M)
    line = said.count("\n", 0, told.start()) + 1 if told else 1
    return Guesses(title=_sentence(told[1], line) if told else None, source=_url(said))


def guesses_in(text: str, tree: ast.Module, releases: Sequence[Release]) -> Guesses:
    """What the source of a Python patch suggests."""
    usages = {release.version: interpret(tree, release) for release in releases}
    targets = _targets(tree, releases, usages)
    effects = sorted((*_options(tree, usages), *_environment(tree), *_compiles(tree)), key=lambda effect: effect.line)
    holds_on, applies_to = _applies_to(tree, releases, [*targets, *effects])
    docstring = ast.get_docstring(tree)
    return Guesses(
        title=_sentence(docstring, 1) if docstring else None,
        source=_url(text),
        targets=tuple(targets),
        applies_to=applies_to,
        scope=_scope(tree),
        effects=tuple(effects),
        unnamed=tuple(_unnamed(tree)),
        holds_on=holds_on,
    )


def _sentence(text: str, line: int) -> Guess:
    first = text.strip().splitlines()[0].strip()
    return Guess(value=re.split(r"\.\s", first)[0].rstrip("."), line=line)


def _url(text: str) -> Guess | None:
    found = _URL.search(text)
    return Guess(value=found[0].rstrip(".,;:"), line=text.count("\n", 0, found.start()) + 1) if found else None


def _targets(tree: ast.Module, releases: Sequence[Release], usages: Mapping[str, Usage]) -> list[Guess]:
    """What is replaced where it runs, as the gate names it: a method by the module that defines its class."""
    found: dict[str, int] = {}
    lines = set()
    for release in releases:
        for each in usages[release.version].rebindings:
            lines.add(each.span.line)
            owner = release.resolve(each.target.rpartition(".")[0]) if each.on_class else None
            if each.reachable:
                found.setdefault(f"{owner.origin}.{each.name}" if owner else each.target, each.span.line)
    options = {
        reference.span.line for usage in usages.values() for reference in usage.references if reference.kind == "config"
    }
    for node, dotted in _written(tree):
        if node.lineno not in lines | options and isinstance(node, ast.Attribute):
            found.setdefault(dotted, node.lineno)
    return [Guess(value=name, line=line) for name, line in found.items()]


def _options(tree: ast.Module, usages: Mapping[str, Usage]) -> Iterator[Guess]:
    """Options of torch that are assigned, or given to `config.patch`."""
    written = {
        (node.lineno, node.end_col_offset)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    spans = [
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "patch"
    ]
    told: dict[str, int] = {}
    for usage in usages.values():
        for reference in usage.references:
            span = reference.span
            patched = any(first <= span.line <= last for first, last in spans) and reference.name != "patch"
            if reference.kind == "config" and (patched or (span.line, span.column + span.width - 1) in written):
                told.setdefault(reference.dotted, span.line)
    return (Guess(value=f"config {name}", line=line) for name, line in told.items())


def _environment(tree: ast.Module) -> Iterator[Guess]:
    """`os.environ["NAME"] = ...` and `os.environ.setdefault("NAME", ...)`."""
    for node in ast.walk(tree):
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            key = node.slice if ast.unparse(node.value).endswith("environ") else None
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("environ.setdefault", "os.putenv")):
            key = node.args[0] if node.args else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield Guess(value=f"environment {key.value}", line=key.lineno)


def _compiles(tree: ast.Module) -> Iterator[Guess]:
    """`torch.compile` in a statement of the module itself."""
    for node in tree.body:
        runs = [node] if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) else node.decorator_list
        for each in (inner for one in runs for inner in ast.walk(one)):
            if isinstance(each, ast.Attribute) and ast.unparse(each) == "torch.compile":
                yield Guess(value="compile", line=each.lineno)
                return


def _scope(tree: ast.Module) -> Guess | None:
    """The one context manager that the patch offers."""
    found = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and any(ast.unparse(each) in _SCOPES for each in node.decorator_list)
    ]
    return Guess(value=found[0].name, line=found[0].lineno) if len(found) == 1 else None


def _applies_to(
    tree: ast.Module, releases: Sequence[Release], changes: Sequence[Guess]
) -> tuple[tuple[str, ...], Guess | None]:
    """The releases on which the patch does something, and a specifier for them where a version check decides it.

    One release is walked under other versions, as the gate runs one torch under others: what decides is then
    the version alone, and not which names a release has.
    """
    lines = {change.line for change in changes}
    bodies = [release for release in releases if lines & _reachable_lines(interpret(tree, release))]
    if not bodies:
        return (), None
    known = [release.version for release in releases]

    @cache
    def holds(version: str) -> bool:
        return bool(lines & _reachable_lines(interpret(tree, _renamed(bodies[-1], version))))

    found = specifier(points_around(known, versions_named(tree)), holds, known)
    holds_on = tuple(version for version in known if holds(version))
    # A check that is only a part of a test is no gate by itself.
    checks = [gate.span.line for gate in interpret(tree, bodies[-1]).gates] or _comparisons(tree)
    return holds_on, Guess(value=found, line=min(checks, default=1)) if found else None


def _comparisons(tree: ast.Module) -> list[int]:
    compared = (node for node in ast.walk(tree) if isinstance(node, ast.Compare))
    return [node.lineno for node in compared if "version" in ast.unparse(node).lower()]


def _reachable_lines(usage: Usage) -> set[int]:
    replaced = {each.span.line for each in usage.rebindings if each.reachable}
    return replaced | {each.span.line for each in usage.references if each.reachable}


def _renamed(release: Release, version: str) -> Release:
    """A release under another version: whatever else it is asked, it answers as itself."""
    return cast(Release, _Renamed(release, version))


class _Renamed:
    def __init__(self, release: Release, version: str) -> None:
        self._release, self.version = release, version

    def __getattr__(self, name: str) -> object:
        return getattr(self._release, name)


def _unnamed(tree: ast.Module) -> Iterator[int]:
    """Lines that write into a table of torch: `decompositions[op] = f`."""
    return (node.lineno for node, _ in _written(tree) if isinstance(node, ast.Subscript))


def _written(tree: ast.Module) -> Iterator[tuple[ast.Attribute | ast.Subscript, str]]:
    """Assignments below a name that was imported from torch, and what they are called from torch on."""
    names = dict(_imported(tree))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            first, dot, rest = ast.unparse(node).partition(".")
            origin = names.get(first.partition("[")[0])
            if origin is not None:
                yield node, f"{origin}{dot}{rest}"


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                if each.name.partition(".")[0] in ("torch", "triton"):
                    yield (each.asname, each.name) if each.asname else (each.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in ("torch", "triton"):
            for each in node.names:
                yield each.asname or each.name, f"{node.module}.{each.name}"
