"""Every code is defined in exactly one module, and raised by code of the checks, of lint or of the
probe.

Texts do not raise: docstrings, the definition itself, a look-up in the catalogue, a comparison. The
detectors are also seen failing on a small made-up package.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

from patchgate.checks.framework import blame, compare
from patchgate.checks.framework.find_checks import every_code
from patchgate.checks.framework.golden_verdicts import code_of
from patchgate.model.policy import Kind

PACKAGE = Path(__file__).resolve().parents[2] / "patchgate"
# A finding of the probe has its code from there.
ROOMS = ("checks", "lint", "probe")
# Families whose codes are computed from a kind, by `fact_codes` and `code_of`.
FACTS = ("kernels", "graph", "options")
_SCOPES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
Trees = dict[str, ast.Module]


def trees_of(package: Path) -> Trees:
    """Dotted name -> syntax tree, of each module of the rooms that raise codes."""
    files = [path for room in ROOMS for path in package.glob(f"{room}/**/*.py")]
    names = {
        path: ".".join(path.relative_to(package.parent).with_suffix("").parts) for path in files
    }
    return {
        names[path].removesuffix(".__init__"): ast.parse(path.read_text("utf-8")) for path in files
    }


@functools.cache
def engine() -> Trees:
    """The trees of our own package, which take a second to read."""
    return trees_of(PACKAGE)


def definitions(trees: Trees) -> dict[str, list[str]]:
    """Code -> the modules with a `Code(code=...)` of it, or with its text."""
    found: dict[str, list[str]] = {}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if _is_definition(node):
                found.setdefault(_code_in(node), []).append(name)
            elif _is_text_of_codes(node):
                for code in re.findall(r"(?m)^(PG\d{3}) ", _text_in(node)):
                    found.setdefault(code, []).append(name)
    return found


def _is_text_of_codes(node: ast.AST) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "read_codes"
    )


def _text_in(call: ast.Call) -> str:
    """The text that a call is given, without what is filled in."""
    return "".join(
        node.value
        for node in ast.walk(call.args[0])
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def raised(trees: Trees) -> set[str]:
    """The codes that code of these modules names, as a text or by the constant that holds a
    `Code`.
    """
    constants = {
        (name, constant): code
        for name, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.Assign)
        for constant, code in _named_codes(node)
    }
    codes: set[str] = set()
    for name, tree in trees.items():
        known = {constant: code for (module, constant), code in constants.items() if module == name}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                pairs = (
                    (alias.asname or alias.name, (str(node.module), alias.name))
                    for alias in node.names
                )
                known |= {
                    local: constants[source] for local, source in pairs if source in constants
                }
        for node in _speaking(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and re.fullmatch(r"PG\d{3}", node.value)
            ):
                codes.add(node.value)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in known:
                codes.add(known[node.id])
    return codes


def _named_codes(node: ast.Assign) -> Iterator[tuple[str, str]]:
    """(constant, code) of `NAME = Code(code=...)`, and of `ONE, TWO = read_codes(text)`."""
    (target,) = node.targets
    if _is_definition(node.value):
        yield ast.unparse(target), _code_in(node.value)
    elif _is_text_of_codes(node.value) and isinstance(target, ast.Tuple):
        codes = re.findall(r"(?m)^(PG\d{3}) ", _text_in(node.value))
        yield from zip(map(ast.unparse, target.elts), codes, strict=True)


def _speaking(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below this one that can raise a code."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Compare) or _is_definition(child) or _is_catalogue(child):
            continue
        if isinstance(node, ast.Subscript) and child is node.slice:
            continue
        if isinstance(node, _SCOPES) and _is_text(child):
            continue
        yield from _speaking(child)


def _is_definition(node: ast.AST) -> bool:
    makers = ("Code", "code_of_others")
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in makers


def _is_catalogue(node: ast.AST) -> bool:
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return [ast.unparse(target) for target in targets] == ["CODES"]


def _is_text(node: ast.AST) -> bool:
    """A docstring, or a text that stands below an assignment to say what it is."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _code_in(call: ast.AST) -> str:
    assert isinstance(call, ast.Call)
    (code,) = (word.value for word in call.keywords if word.arg == "code")
    # The code of facts is computed.
    return str(code.value) if isinstance(code, ast.Constant) else ast.unparse(code)


def fact_codes_raised() -> set[str]:
    """Return the codes of the kinds that the comparison names, or of the fault that it asks for."""
    named = "".join(Path(str(module.__file__)).read_text("utf-8") for module in (compare, blame))
    kinds = [kind for kind in Kind if f"Kind.{kind.name}" in named]
    return {code_of(family, kind) for family in FACTS for kind in kinds}


def test_every_code_belongs_to_exactly_one_module():
    found = definitions(engine())
    assert {*found.pop("code")} == {"patchgate.checks.framework.find_checks"}  # of `code_of_others`
    assert {code: modules for code, modules in found.items() if len(modules) > 1} == {}
    computed_codes = every_code().keys() - found.keys()
    assert found.keys() <= every_code().keys()
    assert computed_codes == {
        code_of(family, kind) for family in FACTS for kind in Kind if _has_code(kind)
    }


def _has_code(kind: Kind) -> bool:
    try:
        code_of(FACTS[0], kind)
    except ValueError:
        return False
    return True


def test_every_code_is_raised():
    assert every_code().keys() - raised(engine()) - fact_codes_raised() == set()


def test_no_module_raises_a_code_that_is_not_defined():
    assert raised(engine()) - every_code().keys() == set()


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ('yield verdict("PG201", kind)', {"PG201"}),
        ('_CODES = {Kind.OVER: "PG201"}', {"PG201"}),
        ('code = "PG201" if worse else "PG202"', {"PG201", "PG202"}),
        ('GONE = Code(code="PG201")\nyield view.finding(GONE, span)', {"PG201"}),
        (
            'ONE, TWO = read_codes("""\nPG201 a\n    W.\nPG202 b\n    W.\n""")\nyield '
            "view.finding(TWO, span)",
            {"PG202"},
        ),
        ("from patchgate.lint.other import OTHER as GONE\nreport(GONE)", {"PG209"}),
        ("def f():\n    from patchgate.lint.other import OTHER\n    return OTHER", {"PG209"}),
        # A text that only speaks of a code does not raise it.
        ('"""PG201 where it is so."""', set()),
        ('def f():\n    "PG201"', set()),
        ('CODES = (Code(code="PG201"),)', set()),
        ('CODES = read_codes("""\nPG201 a title\n    What.\n""")', set()),
        ('GONE = Code(code="PG201")', set()),
        ('GONE = Code(code="PG201")\nCODES = (GONE,)', set()),
        ('CODES: tuple[Code, ...] = ("PG201",)', set()),
        ('fix = catalogue()["PG201"].fix', set()),
        ('if verdict.code == "PG201": pass', set()),
        ('if verdict.code in ("PG201", "PG202"): pass', set()),
        ('say("see PG201")', set()),
        ("from patchgate.lint.other import OTHER", set()),
        ('say("PG2011")', set()),
    ],
)
def test_what_raises_a_code_is_reported_from_what_speaks_of_it(tmp_path, text, codes):
    for name, source in {
        "lint/one.py": text,
        "lint/other.py": 'OTHER = Code(code="PG209")',
        "report/x.py": '"PG203"',
    }.items():
        path = tmp_path / "patchgate" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    assert raised(trees_of(tmp_path / "patchgate")) == codes


def test_a_code_of_two_modules_is_found(tmp_path):
    texts = {
        "checks/one.py": (
            'CODES = read_codes("""\nPG201 a title\n    As PG203.\nPG202 another\n    What.\n""")'
        ),
        "lint/rules/two.py": (
            'CODES = (Code(code="PG201"),)\nMORE = read_codes(f"PG204 {title}\\n  What.")'
        ),
    }
    for name, text in texts.items():
        path = tmp_path / "patchgate" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    assert definitions(trees_of(tmp_path / "patchgate")) == {
        "PG201": ["patchgate.checks.one", "patchgate.lint.rules.two"],
        "PG202": ["patchgate.checks.one"],
        "PG204": ["patchgate.lint.rules.two"],
    }
