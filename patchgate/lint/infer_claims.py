"""Infers a patch's claims from its text, without running it, and writes a manifest of them.

Each inferred claim has the line that suggests it; in the manifest, a comment says which command or
code settles it. `applies_to` comes from version checks: the patch is read at each release, at each
version that it names, and near them.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from packaging.version import InvalidVersion, Version

from patchgate.inputs.patch_source import DIFFS
from patchgate.inputs.split_patches import SCOPES, chosen_installer, uncalled_installers
from patchgate.lint.index.records import Class
from patchgate.lint.index.release import Release, renamed
from patchgate.lint.interpret.project_files import OwnFiles
from patchgate.lint.interpret.references import Presence, Reachability, Rebinding, Usage
from patchgate.lint.interpret.statements import interpret
from patchgate.model.records import record
from patchgate.model.versions import show_releases

# A file's licence, or the page of a function, is not where the patch is from.
_URL = re.compile(
    r"https?://[^\s\"'<>)\]}]+/(?:pull|pulls|issues|commit|merge_requests|discussions|D)/?[^\s\"'<>)\]}]*"
)
_DIFF_BEGINS = re.compile(r"^(?:diff |index |--- )", re.M)
_REST = """
# Not guessed, because only you know; the strict default holds for what is left out:
# fixed_in = "2.14"            # the first release that has the fix, as far as you know
# numerics = "rounding"        # default: "bit-identical". PG501 tells how many elements differ
# [symptom]                    # the defect that it fixes, so that "still needed?" is measured
# workload = "residual_stack"
# device = "h200"
# fact = "loads.max"
# predicate = "> 4"
"""


@record
class Inferred:
    """One claim that the text suggests, and the line that suggests it."""

    value: str
    line: int
    #: of a target: the releases on which it is replaced, where others are replaced on more
    applies_to: str = ""


@record
class InferredClaims:
    """`applies_to` is None where the patch has no version check, or one that no two bounds can say.

    `unnamed` are lines that change torch in a way whose name only running the patch would tell,
    `checks` those of version checks that decide on a part of it, `open_checks` those of checks that
    could not be followed, and `apply` functions that change torch and that nothing in the file
    calls.
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
    """The title and the source of a diff: the words before its first file."""
    head = _DIFF_BEGINS.split(text, maxsplit=1)[0]
    subject = re.search(
        r"^(?:Subject: )?(?:\[PATCH[^]]*\] )?(?!From |From: |Date: )(\S.*)$", head, re.M
    )
    line = head.count("\n", 0, subject.start()) + 1 if subject else 1
    return InferredClaims(title=_sentence(subject[1], line) if subject else None, source=_url(head))


def infer_claims(
    text: str, tree: ast.Module, releases: Sequence[Release], file: Path | None = None
) -> InferredClaims:
    """The claims that the source of a Python patch suggests; names of its project's other files are
    followed.
    """
    own = OwnFiles()
    usages = {release.version: interpret(tree, release, file, own) for release in releases}
    apply = chosen_installer(text)
    targets = _targets(tree, releases, usages, {*uncalled_installers(text)} - {*apply})
    effects = sorted(
        (*_options(tree, usages), *_environment(tree), *_compiles(tree)),
        key=lambda effect: effect.line,
    )
    holds_on, applies_to = _applies_to(tree, releases, [*targets, *effects], file)
    checks = {gate.span.line for usage in usages.values() for gate in usage.gates}
    scope, docstring = _scope(tree, usages), ast.get_docstring(tree)
    return InferredClaims(
        title=_sentence(docstring, 1) if docstring else None,
        source=_url(text),
        targets=tuple(targets),
        applies_to=applies_to,
        scope=scope,
        effects=tuple(effects),
        unnamed=tuple(_unnamed(tree)),
        holds_on=holds_on,
        checks=tuple(sorted(checks)),
        open_checks=tuple(sorted(set(_comparisons(tree)) - checks)),
        apply=tuple(
            Inferred(value=name, line=line)
            for name, line in apply.items()
            if not scope or name != scope.value
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
    """The targets that the patch may replace, named as the gate does: a method by the module that
    defines its class.

    A name that no release has is the patch's own, and replaces nothing; nor does a function of
    `dead` names.
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


def _is_added(release: Release, rebinding: Rebinding) -> bool:
    """True if the name is new in torch.

    What a class answers by `__getattr__` its instances have, and not the class.
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
    """Options of torch that are assigned, or given to `config.patch`."""
    assigned = {
        (node.lineno, node.end_col_offset)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    patch_calls = [
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "patch"
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
                options.setdefault(reference.dotted, line)
    return (Inferred(value=f"config {name}", line=line) for name, line in options.items())


def _environment(tree: ast.Module) -> Iterator[Inferred]:
    """`os.environ["NAME"] = ...` and `os.environ.setdefault("NAME", ...)`."""
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
    """`torch.compile` in a statement of the module itself."""
    for node in tree.body:
        executed = (
            node.decorator_list if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else [node]
        )
        for part in (part for statement in executed for part in ast.walk(statement)):
            if isinstance(part, ast.Attribute) and ast.unparse(part) == "torch.compile":
                yield Inferred(value="compile", line=part.lineno)
                return


def _scope(tree: ast.Module, usages: Mapping[str, Usage]) -> Inferred | None:
    """The one context manager of the patch that has to do with torch, itself or by a function of
    the file.
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
            or any(isinstance(each, ast.Name) and each.id in names for each in ast.walk(node))
        )
    ]
    return Inferred(value=scopes[0].name, line=scopes[0].lineno) if len(scopes) == 1 else None


def _applies_to(
    tree: ast.Module, releases: Sequence[Release], changes: Sequence[Inferred], file: Path | None
) -> tuple[tuple[str, ...], Inferred | None]:
    """The releases on which the patch does something, and a specifier for them where a version
    check decides it.

    One release is read under other versions, as the gate runs one torch under others: what decides
    is then the version alone, and not which names a release has.
    """
    lines, own = {change.line for change in changes}, OwnFiles()

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
    # A check that is only a part of a test is no gate by itself.
    checks = [gate.span.line for gate in usage(bodies[-1]).gates] or _comparisons(tree)
    return holds_on, Inferred(value=bounds, line=min(checks, default=1)) if bounds else None


def _comparisons(tree: ast.Module) -> list[int]:
    compared = (node for node in ast.walk(tree) if isinstance(node, ast.Compare))
    return [node.lineno for node in compared if "version" in ast.unparse(node).lower()]


def _reachable_lines(usage: Usage) -> set[int]:
    replaced = {each.span.line for each in usage.rebindings if each.reachable}
    return replaced | {each.span.line for each in usage.references if each.reachable}


def _unnamed(tree: ast.Module) -> Iterator[int]:
    """Lines that write into a table of torch: `decompositions[op] = f`."""
    return (node.lineno for node, _ in _assigned(tree) if isinstance(node, ast.Subscript))


def _assigned(tree: ast.Module) -> Iterator[tuple[ast.Attribute | ast.Subscript, str]]:
    """Assignments below a name that was imported from torch, and what they are called from torch
    on.
    """
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
                    yield (
                        (each.asname, each.name)
                        if each.asname
                        else (each.name.partition(".")[0],) * 2
                    )
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in (
            "torch",
            "triton",
        ):
            for each in node.names:
                yield each.asname or each.name, f"{node.module}.{each.name}"


def manifest_text(
    claims: InferredClaims, file: str, name: str, again: str, known: Sequence[str]
) -> str:
    """The manifest of `file`, of the patch called `name`; `again` judges it, `known` are the
    releases looked at.
    """
    lines = [
        f"# Written by `patchgate init` from {file}, without running it. Each guess says what "
        "verifies it;"
    ]
    lines += [f"# all at once: {again}"]
    for part in (
        _title_lines(claims, file, name),
        _source_lines(claims, file),
        _releases_lines(claims, file, known),
    ):
        lines += ["", *part]
    for part in (
        _targets_lines(claims, file),
        _apply_lines(claims, file),
        _scope_lines(claims, file),
        _effects_lines(claims, file),
    ):
        some = list(part)
        lines += ["", *some] if some else []
    return "\n".join(lines) + "\n" + _REST


def _title_lines(claims: InferredClaims, file: str, name: str) -> Iterator[str]:
    if claims.title and claims.title.value:
        yield f"# guessed: how {file} begins"
        yield f"title = {_string(claims.title.value)}"
    else:
        yield (
            f"# guessed: its name, because {file} begins with no sentence. To verify: say what the "
            "patch does"
        )
        yield f"title = {_string(name)}"


def _source_lines(claims: InferredClaims, file: str) -> Iterator[str]:
    if claims.source:
        yield (
            f"# guessed: the first change or issue, {_at(file, claims.source)}. To verify: where "
            "the patch is from"
        )
        yield f"source = {_string(claims.source.value)}"
    else:
        yield f"# {file} names no pull request, issue or commit: where is it from?"
        yield '# source = "https://..."'


def _releases_lines(claims: InferredClaims, file: str, known: Sequence[str]) -> Iterator[str]:
    on = show_releases(claims.holds_on, known)
    if claims.applies_to:
        yield (
            f"# guessed: the version check, {_at(file, claims.applies_to)}, lets it through: {on}."
        )
        yield "# To verify: PG201 and PG202 say where this is not so"
        yield f"applies_to = {_string(claims.applies_to.value)}"
        return
    if file.endswith(DIFFS):
        yield (
            f"# A diff has no version check of its own: without the line, {file} is applied "
            "everywhere."
        )
        yield "# To verify: `patchgate lint --fetch` says on which releases its hunks apply"
    elif claims.holds_on and len(claims.holds_on) < len(known):
        yield f"# The version checks let it through on {on}, which no two bounds can say."
    else:
        places = _places(file, claims.checks or claims.open_checks)
        end = "gives no one range of releases" if claims.checks else "could not be followed"
        found = f"The version check at {places} {end}" if places else "No version check was found"
        yield f"# {found}. To verify: PG211 lists the versions on which it applies"
    yield '# applies_to = ">=2.11,<2.14"'


def _targets_lines(claims: InferredClaims, file: str) -> Iterator[str]:
    settle = "To verify, run the gate: PG207 names extra replacements, PG209 missing ones"
    if claims.unnamed:
        lines = ", ".join(f"{file}:{line}" for line in claims.unnamed)
        yield (
            f"# {lines} writes into a table of torch; PG207 gives the name of the entry, if that "
            "is meant"
        )
    if file.endswith(DIFFS):
        yield "# The functions that its hunks change. To verify: PG207 names them"
        yield '# targets = ["torch._inductor..."]'
    elif claims.targets:
        yield f"# guessed: assigned at {_lines(file, claims.targets)}. {settle}"
        everywhere = [claim for claim in claims.targets if not claim.applies_to]
        *first, last = _list("targets", everywhere)
        yield from first
        for bounds in dict.fromkeys(
            claim.applies_to for claim in claims.targets if claim.applies_to
        ):
            names = ", ".join(
                _string(claim.value) for claim in claims.targets if claim.applies_to == bounds
            )
            yield f"    {{ names = [{names}], applies_to = {_string(bounds)} }},"
        yield last
    else:
        yield f"# No name of torch is assigned in {file}. {settle}"
        yield '# targets = ["torch._inductor..."]'


def _apply_lines(claims: InferredClaims, file: str) -> Iterator[str]:
    if claims.apply:
        yield (
            "# guessed: changes torch, and nothing in the file calls it, "
            f"{_lines(file, claims.apply)}."
        )
        yield "# To verify: keep what your project calls, with its arguments: `install(True)`"
        yield from _list("apply", claims.apply)


def _scope_lines(claims: InferredClaims, file: str) -> Iterator[str]:
    if claims.scope:
        yield (
            f"# guessed: the one context manager, {_at(file, claims.scope)}. To verify: PG219 says "
            "what leaks"
        )
        yield f"scope = {_string(claims.scope.value)}"


def _effects_lines(claims: InferredClaims, file: str) -> Iterator[str]:
    if claims.effects:
        yield (
            f"# guessed: set at {_lines(file, claims.effects)}. To verify: keep those that every "
            "user of the patch"
        )
        yield "# shall get; without its line, an effect is PG208"
        yield from _list("effects", claims.effects)


def _at(file: str, claim: Inferred) -> str:
    return f"{file}:{claim.line}"


def _lines(file: str, claims: Sequence[Inferred]) -> str:
    return _places(file, [claim.line for claim in claims])


def _places(file: str, lines: Sequence[int]) -> str:
    return ", ".join(dict.fromkeys(f"{file}:{line}" for line in lines))


def _list(key: str, claims: Sequence[Inferred]) -> Iterator[str]:
    yield f"{key} = ["
    yield from (f"    {_string(claim.value)}," for claim in claims)
    yield "]"


def _string(text: str) -> str:
    """TOML's basic string; JSON escapes all that TOML wants escaped, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def versions_named(tree: ast.AST) -> set[str]:
    """Versions that a source writes down: `"2.11.0"`, `"2.12.0.dev0"`, `(2, 11)`."""
    return set(_named(tree))


def _named(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        text = None
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            text = node.value
        elif isinstance(node, ast.Tuple) and len(node.elts) > 1:
            parts = [each.value for each in node.elts if isinstance(each, ast.Constant)]
            if len(parts) == len(node.elts) and all(type(part) is int for part in parts):
                text = ".".join(map(str, parts))
        if text is not None:
            try:
                Version(text)
            except InvalidVersion:
                continue
            yield text


def points_around(releases: Sequence[str], named: set[str]) -> list[str]:
    """The versions to ask about: each release, each named version, and what is near them; oldest
    first.
    """
    near = [text for each in (*releases, *named) for text in _near(Version(each))]
    points = {Version(text): text for text in near}
    points |= {Version(text): text for text in (*releases, *sorted(named))}
    return [points[version] for version in sorted(points)]


def _near(version: Version) -> Iterator[str]:
    """The release after it, and its first nightly, which PEP 440 puts before it."""
    yield f"{version.major}.{version.minor}.{version.micro + 1}"
    if not version.micro:
        yield f"{version.major}.{version.minor}.0.dev0"


def specifier(
    points: Sequence[str], holds: Callable[[str], bool], releases: Sequence[str]
) -> str | None:
    """The bounds of the one stretch of `points` (oldest first) on which it holds; "" for all of
    them.

    None where it holds nowhere, or on several stretches, which no two bounds can say.
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
    """`<2.14` leaves out the nightlies of 2.14 too, so it is the short way to say
    `<2.14.0.dev0`.
    """
    version = Version(text)
    return (
        f"{version.major}.{version.minor}"
        if text == f"{version.major}.{version.minor}.0.dev0"
        else text
    )
