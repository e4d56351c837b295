"""Infer a patch's claims from its text, without running it, and write a manifest of them.

Each claim comes with the line that suggests it; a comment in the manifest says which command or
code verifies the claim. `applies_to` comes from version checks: the patch is read for each release,
for each version that it names, and for the versions next to these.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from packaging.version import InvalidVersion, Version

from patchgate.inputs.patch_source import DIFFS, nodes_in
from patchgate.inputs.split_patches import (
    SCOPES,
    chosen_installer,
    is_scope,
    uncalled_installers,
)
from patchgate.lint.imported_files import imported_files, statements_at_import
from patchgate.lint.index.read_module import imported_names
from patchgate.lint.index.records import Class
from patchgate.lint.index.release import Release, renamed
from patchgate.lint.interpret.references import Presence, Reachability, Rebinding, Usage
from patchgate.lint.interpret.statements import interpret
from patchgate.lint.interpret.values import OwnFiles
from patchgate.model.records import record
from patchgate.model.versions import show_releases

# A link to a pull request, an issue or a commit shows where a patch is from; a link to a licence or
# a manual does not.
_URL = re.compile(
    r"https?://[^\s\"'<>)\]}]+/(?:pull|pulls|issues|commit|merge_requests|discussions|D)/?[^\s\"'<>)\]}]*"
)
_DIFF_BEGINS = re.compile(r"^(?:diff |index |--- )", re.M)
_TEMPLATE = Path(__file__).with_name("manifest.toml.jinja")


@record
class Inferred:
    """One claim that the text suggests, and the line that suggests it."""

    value: str
    line: int
    #: of a target that is replaced on fewer releases than the others: a specifier of its releases
    applies_to: str = ""
    #: of a target: the file that has the line, if it is another file, which the patch imports
    file: str = ""


@record
class InferredClaims:
    """`applies_to` is None if the patch has no version check, or one that two bounds cannot
    express.

    `unnamed` are lines that change something of torch whose name is known only at run time;
    `checks` are lines of version checks, and `open_checks` lines of version checks that could not
    be followed; `apply` are functions that change torch and that the file itself does not call.
    """

    title: Inferred | None
    source: Inferred | None
    targets: tuple[Inferred, ...] = ()
    applies_to: Inferred | None = None
    scope: Inferred | None = None
    effects: tuple[Inferred, ...] = ()
    unnamed: tuple[int, ...] = ()
    holds_on: tuple[str, ...] = ()
    checks: tuple[int, ...] = ()
    open_checks: tuple[int, ...] = ()
    apply: tuple[Inferred, ...] = ()


def infer_claims_of_diff(text: str) -> InferredClaims:
    """Infer the title and the source of a diff from the words before its first file."""
    head = _DIFF_BEGINS.split(text, maxsplit=1)[0]
    subject = re.search(
        r"^(?:Subject: )?(?:\[PATCH[^]]*\] )?(?!From |From: |Date: )(\S.*)$", head, re.M
    )
    line = head.count("\n", 0, subject.start()) + 1 if subject else 1
    return InferredClaims(title=_sentence(subject[1], line) if subject else None, source=_url(head))


def infer_claims(
    text: str, tree: ast.Module, releases: Sequence[Release], file: Path | None = None
) -> InferredClaims:
    """Infer the claims of a Python patch. Names from other files of its project are followed."""
    own = OwnFiles()
    usages = {release.version: interpret(tree, release, file, own) for release in releases}
    apply = chosen_installer(text)
    targets = _targets(tree, releases, usages, {*uncalled_installers(text)} - {*apply})
    if file is not None:
        names = {target.value for target in targets}
        imported = _imported_targets(tree, releases, file, own)
        targets += [target for target in imported if target.value not in names]
    effects = sorted(
        (*_options(tree, usages), *_environment(tree), *_compiles(tree)),
        key=lambda effect: effect.line,
    )
    # `decompositions[op] = f`
    unnamed = tuple(node.lineno for node, _ in _assigned(tree) if isinstance(node, ast.Subscript))
    lines = {change.line for change in (*targets, *effects)} | {*unnamed}
    if not lines:  # `register_lowering(op)(f)`
        lines = {call.span.line for usage in usages.values() for call in usage.calls}
    holds_on, applies_to = _applies_to(tree, releases, lines, file)
    checks = {gate.span.line for usage in usages.values() for gate in usage.gates}
    scopes = [name for name in apply if is_scope(text, name)]
    scope, docstring = _scope(tree, usages), ast.get_docstring(tree)
    if scope is None and len(scopes) == 1:
        scope = Inferred(value=scopes[0], line=apply[scopes[0]])
    return InferredClaims(
        title=_sentence(docstring, 1) if docstring else None,
        source=_url(text),
        targets=tuple(targets),
        applies_to=applies_to,
        scope=scope,
        effects=tuple(effects),
        unnamed=unnamed,
        holds_on=holds_on,
        checks=tuple(sorted(checks)),
        open_checks=tuple(sorted(set(_comparisons(tree)) - checks)),
        apply=tuple(
            Inferred(value=name, line=line) for name, line in apply.items() if name not in scopes
        ),
    )


def _sentence(text: str, line: int) -> Inferred:
    first = text.strip().splitlines()[0].strip()
    return Inferred(value=re.split(r"\.\s", first)[0].rstrip("."), line=line)


def _url(text: str) -> Inferred | None:
    url = _URL.search(text)
    return (
        Inferred(value=url[0].rstrip(".,;:"), line=text.count("\n", 0, url.start()) + 1)
        if url
        else None
    )


def _targets(
    tree: ast.Module,
    releases: Sequence[Release],
    usages: Mapping[str, Usage],
    dead: Collection[str],
) -> list[Inferred]:
    """The names that the patch may replace. They are written as the gate writes them: the name of a
    method begins with the module that defines its class.

    Names that no release has are left out: the patch adds them. Functions named in `dead` never
    run.
    """
    functions = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in dead
    ]
    never = {
        line
        for node in functions
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    targets: dict[str, int] = {}
    on: dict[str, set[str]] = {}
    replaced = {
        rebinding.target
        for release in releases
        for rebinding in usages[release.version].rebindings
        if not _is_added(release, rebinding)
    }
    lines = {
        reference.span.line
        for usage in usages.values()
        for reference in usage.references
        if reference.kind == "config"
    }
    for release in releases:
        for rebinding in usages[release.version].rebindings:
            lines.add(rebinding.span.line)
            owner = (
                release.resolve(rebinding.target.rpartition(".")[0]) if rebinding.on_class else None
            )
            runs = rebinding.reachability in (Reachability.REACHABLE, Reachability.UNDECIDED)
            if runs and rebinding.span.line not in never and rebinding.target in replaced:
                target = f"{owner.origin}.{rebinding.name}" if owner else rebinding.target
                targets.setdefault(target, rebinding.span.line)
                on.setdefault(target, set()).add(release.version)
    for node, dotted in _assigned(tree):
        if node.lineno not in lines | never and isinstance(node, ast.Attribute):
            targets.setdefault(dotted, node.lineno)
    known, anywhere = [release.version for release in releases], set().union(*on.values())

    def bounds(name: str) -> str:
        return (
            ""
            if on.get(name, anywhere) == anywhere
            else specifier(known, on[name].__contains__, known) or ""
        )

    return [
        Inferred(value=name, line=line, applies_to=bounds(name)) for name, line in targets.items()
    ]


def _imported_targets(
    tree: ast.Module, releases: Sequence[Release], file: Path, own: OwnFiles
) -> Iterator[Inferred]:
    """The names that the patch replaces by importing other files of its project."""
    for path, imported in imported_files(file, tree).items():
        at_import = {
            node.lineno
            for node in statements_at_import(imported.body)
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign))
        }
        if at_import.isdisjoint(node.lineno for node, _ in _assigned(imported)):
            continue
        usages = {release.version: interpret(imported, release, path, own) for release in releases}
        for target in _targets(imported, releases, usages, ()):
            if target.line in at_import:
                yield replace(target, file=os.path.relpath(path, file.parent))


def _is_added(release: Release, rebinding: Rebinding) -> bool:
    """True if the rebinding adds a name to torch and replaces none.

    A name that a class provides by `__getattr__` belongs to its instances, not to the class.
    """
    if rebinding.on_class and hasattr(
        type, rebinding.name
    ):  # `__getattribute__`, which every class has
        return False
    if rebinding.presence is Presence.MISSING or not rebinding.on_class:
        return rebinding.presence is Presence.MISSING
    member = release.member(rebinding.target.rpartition(".")[0], rebinding.name)
    found = (
        release.resolve(member.origin) if member is not None and member.kind == "maybe" else None
    )
    symbol = found.symbol if found is not None else None
    return (
        isinstance(symbol, Class) and symbol.has_getattr and all(map(release.resolve, symbol.bases))
    )


def _options(tree: ast.Module, usages: Mapping[str, Usage]) -> Iterator[Inferred]:
    """Options of torch that are assigned, or given to `config.patch`. From torch 2.12 on, an
    assignment holds only for its own thread.
    """
    assigned = {
        (node.lineno, node.end_col_offset)
        for node in nodes_in(tree, ast.Attribute)
        if isinstance(node.ctx, ast.Store)
    }
    patch_calls = [
        (node.lineno, node.end_lineno or node.lineno)
        for node in nodes_in(tree, ast.Call)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "patch"
    ]
    options: dict[str, int] = {}
    for usage in usages.values():
        for reference in usage.references:
            line, end = reference.span.line, reference.span.column + reference.span.width - 1
            patched = (
                any(first <= line <= last for first, last in patch_calls)
                and reference.name != "patch"
            )
            if reference.kind == "config" and (patched or (line, end) in assigned):
                options.setdefault(f"config {reference.dotted}", line)
            if reference.kind == "config" and (line, end) in assigned:
                options.setdefault(f"thread-local {reference.dotted}", line)
    return (Inferred(value=value, line=line) for value, line in options.items())


def _environment(tree: ast.Module) -> Iterator[Inferred]:
    """Variables that `os.environ["NAME"] = ...`, `os.environ.setdefault` or `os.putenv` sets."""
    for node in ast.walk(tree):
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            key = node.slice if ast.unparse(node.value).endswith("environ") else None
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            ("environ.setdefault", "os.putenv")
        ):
            key = node.args[0] if node.args else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield Inferred(value=f"environment {key.value}", line=key.lineno)


def _compiles(tree: ast.Module) -> Iterator[Inferred]:
    """Yield the effect `compile` if a statement of the module itself uses `torch.compile`."""
    for node in tree.body:
        executed = (
            node.decorator_list if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else [node]
        )
        for part in (part for each in executed for part in nodes_in(each, ast.Attribute)):
            if ast.unparse(part) == "torch.compile":
                yield Inferred(value="compile", line=part.lineno)
                return


def _scope(tree: ast.Module, usages: Mapping[str, Usage]) -> Inferred | None:
    """The context manager of the patch that touches torch, directly or through a function of the
    file; None if there are several.
    """
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    names = {node.name for node in functions}
    lines = {
        use.span.line for usage in usages.values() for use in (*usage.references, *usage.rebindings)
    }
    scopes = [
        node
        for node in functions
        if any(ast.unparse(each) in SCOPES for each in node.decorator_list)
        and (
            lines.intersection(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            or any(each.id in names for each in nodes_in(node, ast.Name))
        )
    ]
    return Inferred(value=scopes[0].name, line=scopes[0].lineno) if len(scopes) == 1 else None


def _applies_to(
    tree: ast.Module, releases: Sequence[Release], lines: Set[int], file: Path | None
) -> tuple[tuple[str, ...], Inferred | None]:
    """The releases on which a statement in `lines` changes torch, and a specifier for them if a
    version check decides this.

    One release is read under the numbers of other versions, and the gate does the same with one
    torch. So the version alone decides, not the names that a release has.
    """
    own = OwnFiles()

    def usage(release: Release) -> Usage:
        return interpret(tree, release, file, own)

    bodies = [release for release in releases if lines & _reachable_lines(usage(release))]
    if not bodies:
        return (), None
    known = [release.version for release in releases]

    @cache
    def holds(version: str) -> bool:
        return bool(lines & _reachable_lines(usage(renamed(bodies[-1], version))))

    bounds = specifier(points_around(known, versions_named(tree)), holds, known)
    holds_on = tuple(version for version in known if holds(version))
    # A check that is only a part of a condition is no gate by itself.
    checks = [gate.span.line for gate in usage(bodies[-1]).gates] or _comparisons(tree)
    return holds_on, Inferred(value=bounds, line=min(checks, default=1)) if bounds else None


def _comparisons(tree: ast.Module) -> list[int]:
    compared = nodes_in(tree, ast.Compare)
    return [node.lineno for node in compared if "version" in ast.unparse(node).lower()]


def _reachable_lines(usage: Usage) -> set[int]:
    uses = (*usage.rebindings, *usage.references, *usage.calls)
    return usage.reached | {each.span.line for each in uses if each.reachable}


def _assigned(tree: ast.Module) -> Iterator[tuple[ast.Attribute | ast.Subscript, str]]:
    """Yield each assignment to something imported from torch, and the full name of its target."""
    names = {
        local: origin
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for local, origin in imported_names(node)
        if origin.partition(".")[0] in ("torch", "triton")
    }
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            first, dot, rest = ast.unparse(node).partition(".")
            origin = names.get(first.partition("[")[0])
            if origin is not None:
                yield node, f"{origin}{dot}{rest}"


def manifest_text(
    claims: InferredClaims, file: str, name: str, again: str, known: Sequence[str]
) -> str:
    """The text of the manifest for the patch called `name` in `file`. The command `again` judges
    the patch; `known` are the releases that were looked at.
    """
    from jinja2 import Environment, StrictUndefined

    def places(lines: Iterable[int]) -> str:
        return ", ".join(dict.fromkeys(f"{file}:{line}" for line in lines))

    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {"places": places, "toml": _toml_string}
    return environment.from_string(_TEMPLATE.read_text("utf-8")).render(
        claims=claims,
        file=file,
        name=name,
        again=again,
        is_diff=file.endswith(DIFFS),
        releases=show_releases(claims.holds_on, known),
        on_some=0 < len(claims.holds_on) < len(known),
    )


def _toml_string(text: str) -> str:
    """A basic string of TOML. JSON escapes everything that TOML wants escaped, except DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def versions_named(tree: ast.AST) -> set[str]:
    """The versions that a source contains, such as `"2.11.0"`, `"2.12.0.dev0"` or `(2, 11)`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        text = None
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            text = node.value
        elif isinstance(node, ast.Tuple) and len(node.elts) > 1:
            parts = [each.value for each in node.elts if isinstance(each, ast.Constant)]
            if len(parts) == len(node.elts) and all(type(part) is int for part in parts):
                text = ".".join(map(str, parts))
        if text is not None:
            with suppress(InvalidVersion):
                Version(text)
                found.add(text)
    return found


def points_around(releases: Sequence[str], named: set[str]) -> list[str]:
    """The versions to ask about, oldest first: each release, each named version, and the versions
    next to them.
    """
    near = [text for each in (*releases, *named) for text in _near(Version(each))]
    points = {Version(text): text for text in near}
    points |= {Version(text): text for text in (*releases, *sorted(named))}
    return [points[version] for version in sorted(points)]


def _near(version: Version) -> Iterator[str]:
    """The next micro version, and for `x.y.0` its first nightly, which PEP 440 sorts before it."""
    yield f"{version.major}.{version.minor}.{version.micro + 1}"
    if not version.micro:
        yield f"{version.major}.{version.minor}.0.dev0"


def specifier(
    points: Sequence[str], holds: Callable[[str], bool], releases: Sequence[str]
) -> str | None:
    """The bounds of the only range of `points` (oldest first) on which `holds` is true; "" if it is
    true on all points.

    None if it is true nowhere, or on several ranges, which two bounds cannot express.
    """
    answers = [holds(point) for point in points]
    if all(answers):
        return ""
    turns = [at for at in range(1, len(points)) if answers[at] != answers[at - 1]]
    if not any(answers) or len(turns) > 2 or (len(turns) == 2 and answers[0]):
        return None
    first, last = answers.index(True), len(answers) - 1 - answers[::-1].index(True)
    if first == last and Version(points[first]) in map(Version, releases):
        return f"=={points[first]}"
    low = [f">={points[first]}"] if first else []
    high = [f"<{_before(points[last + 1])}"] if last + 1 < len(points) else []
    return ",".join(low + high)


def _before(text: str) -> str:
    """Shorten a bound: `<2.14` excludes the nightlies of 2.14 too, so it means `<2.14.0.dev0`."""
    version = Version(text)
    return (
        f"{version.major}.{version.minor}"
        if text == f"{version.major}.{version.minor}.0.dev0"
        else text
    )
