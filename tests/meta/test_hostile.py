"""Hostile patches attack the probe of today: every name of it that they use is there.

An attack on a name that has moved attacks nothing, and its fixture shows nothing any more.
"""

import ast
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from patchgate.model.paths import PACKAGE, ROOT
from patchgate.probe.process.child_cleanup import NAMED
from patchgate.probe.process.message_schema import reply_fault

HOSTILE = sorted((ROOT / "fixtures" / "hostile").glob("*/patch.py"))
# Names by which these patches call a module of the probe, and an object that a frame has led to.
MODULES, OBJECTS = {"module", "judge"}, {"value"}
_SUFFIX = re.compile(r"(?:\.[a-z_]+)+")


def source_of(path: Path) -> str:
    """A patch as Python reads it, with statements that its encoding hides."""
    with tokenize.open(path) as file:
        return file.read()


def code_of(source: str) -> Iterator[ast.AST]:
    """The nodes of a patch, and of the programs in its strings."""
    for node in ast.walk(ast.parse(source)):
        yield node
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value:
            try:
                yield from ast.walk(ast.parse(node.value))
            except SyntaxError:
                continue


@cache
def names_in(suffix: str) -> frozenset[str]:
    """The names of the probe's modules that end so: those of a class as `Class.name` too."""
    names: set[str] = set()
    for path in PACKAGE.glob("probe/**/*.py"):
        dotted = "." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        if dotted.endswith(suffix):
            names.add("")
            for node in ast.parse(path.read_text("utf-8")).body:
                names |= bound_by(node)
    return frozenset(names)


def bound_by(node: ast.stmt) -> set[str]:
    match node:
        case ast.ClassDef():
            own = set().union(*map(bound_by, node.body))
            return {node.name, *(f"{node.name}.{name}" for name in own)}
        case ast.FunctionDef():
            return {node.name}
        case ast.Import() | ast.ImportFrom():
            return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        case ast.Assign():
            return {each.id for each in node.targets if isinstance(each, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def suffixes(source: str) -> set[str]:
    """The ends of module names by which a patch finds modules of the probe."""
    return {
        node.value
        for node in code_of(source)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _SUFFIX.fullmatch(node.value)
        and "endswith" in source
    } - {".lock"}


def attacked(source: str) -> set[str]:
    """The names of these modules that a patch sets or calls."""
    found = set()
    for node in code_of(source):
        match node:
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id=name))) if name in MODULES:
                found.add(f"{node.value.attr}.{node.attr}")
            case ast.Attribute(value=ast.Name(id=name)) if name in MODULES:
                found.add(node.attr)
            case ast.AugAssign(target=ast.Name(id=name), value=ast.Dict()) if name in MODULES:
                found |= {key.value for key in node.value.keys if isinstance(key, ast.Constant)}
            case ast.For(target=ast.Name(id="function"), iter=ast.Tuple()):
                found |= {each.value for each in node.iter.elts if isinstance(each, ast.Constant)}
    return found - {"__dict__"}


def found_by_class(source: str) -> set[str]:
    """The classes that a patch looks for in frames, and the attributes that it uses."""
    classes = {
        node.comparators[0].value
        for node in code_of(source)
        if isinstance(node, ast.Compare)
        and ast.unparse(node.left) == "type(value).__name__"
        and isinstance(node.comparators[0], ast.Constant)
    }
    used = {
        node.attr
        for node in code_of(source)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in OBJECTS
    }
    return {f"{name}.{attribute}" for name in classes for attribute in used}


def searched_locals(source: str) -> set[str]:
    """The local variables by which a patch finds a frame of the probe."""
    return {
        node.args[0].value
        for node in code_of(source)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith(".f_locals.get")
        and isinstance(node.args[0], ast.Constant)
    }


@cache
def parameters() -> frozenset[str]:
    """The parameters of the probe's functions."""
    texts = (path.read_text("utf-8") for path in PACKAGE.glob("probe/**/*.py"))
    trees = map(ast.parse, texts)
    return frozenset(
        node.arg for tree in trees for node in ast.walk(tree) if isinstance(node, ast.arg)
    )


def lost_names(source: str) -> list[str]:
    """The names that a patch attacks and the probe does not have."""
    ends, names = suffixes(source), attacked(source)
    known = {end: names_in(end) for end in ends}
    lost = [f"module {end}" for end, there in known.items() if not there]
    lost += [name for name in names if known and not any(name in there for there in known.values())]
    lost += [f"nothing of {end}" for end, there in known.items() if there and not names & there]
    lost += found_by_class(source) - names_in("")
    lost += searched_locals(source) - parameters()
    return sorted(lost)


@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: path.parent.name)
def test_every_name_that_is_attacked_is_there(path):
    assert lost_names(source_of(path)) == []


def test_the_forged_answer_is_one():
    """A reply that no answer could be is refused for its form, which shows nothing."""
    tree = ast.parse(source_of(ROOT / "fixtures" / "hostile" / "answers-for-itself" / "patch.py"))
    made = [node for node in tree.body if isinstance(node, ast.Assign | ast.AugAssign)]
    space: dict[str, dict[str, object]] = {}
    exec("\n".join(text for text in map(ast.unparse, made) if "LISTS" in text), space)
    space["ANSWER"].pop("below")
    assert reply_fault("apply", space["ANSWER"]) is None


def test_the_folder_that_is_replaced_is_copied_by_the_server():
    source = source_of(ROOT / "fixtures" / "hostile" / "replaces-its-trace-by-a-link" / "patch.py")
    assert '"trace"' in source
    assert "trace" in NAMED


def test_patches_that_attack_the_probe_are_seen():
    found = [path.parent.name for path in HOSTILE if attacked(source_of(path))]
    assert len(found) >= 15
    assert {"hides-statements-in-its-encoding", "runs-a-method-called-exec"} <= {*found}


_LOOP = "import sys\nfor name, module in sys.modules.items():\n    if name.endswith({}):\n        "


@pytest.mark.parametrize(
    ("end", "statement", "lost"),
    [
        (".patch.apply", "module.changes = print", []),
        (".patch.apply", "module.no_name = print", ["no_name", "nothing of .patch.apply"]),
        (".patch.moved", "module.changes = print", ["changes", "module .patch.moved"]),
        (".patch.effects", "module.Recorder.note = print", []),
        (
            ".patch.effects",
            "module.Recorder.moved = print",
            ["Recorder.moved"],
        ),
        (".patch.apply", "judge = vars(module)\n        judge |= {'changes': print}", []),
    ],
)
def test_a_lost_name_is_seen(end, statement, lost):
    assert lost_names(_LOOP.format(repr(end)) + statement) == lost


def test_a_lost_class_is_seen():
    source = "if type(value).__name__ == '{}':\n    value.lines.clear()\n"
    assert lost_names(source.format("LinesRun")) == []
    assert lost_names(source.format("Moved")) == ["Moved.lines"]


def test_a_lost_variable_is_seen():
    assert lost_names("frame.f_locals.get('request')") == []
    assert lost_names("frame.f_locals.get('moved')") == ["moved"]
