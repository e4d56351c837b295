"""Who imports whom: no cycle, torch only below the probe, and the probe nothing of ours.

Read off the source with `ast`; each detector is also seen failing on a small made-up package.
"""

import ast
import graphlib
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "patchgate"
PROBE = "patchgate.probe"


def graph_of(package):
    """Module -> dotted names that it imports, anywhere in its text."""
    files = {_name(path, package): path for path in package.rglob("*.py") if "_shipped" not in path.parts}
    return {name: set(_imports(ast.parse(path.read_text("utf-8")), name, files)) for name, path in files.items()}


def _name(path, package):
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(tree, name, modules):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: a relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in modules else node.module


def cycle_in(graph):
    """The modules of one cycle; None when there is none."""
    try:
        graphlib.TopologicalSorter({name: seen & graph.keys() - {name} for name, seen in graph.items()}).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


def below(module, name):
    return name == module or name.startswith(module + ".")


def torch_outside_probe(graph):
    return sorted(
        name
        for name, seen in graph.items()
        if not below(PROBE, name) and any(below(torch, one) for torch in ("torch", "triton") for one in seen)
    )


def foreign_in_probe(graph):
    allowed = {*sys.stdlib_module_names, "torch", "triton"}
    return sorted(
        f"{name} -> {one}"
        for name, seen in graph.items()
        for one in seen
        if below(PROBE, name) and one.split(".")[0] not in allowed and not below(PROBE, one)
    )


@pytest.fixture
def package(tmp_path):
    """Makes a package of the given sources and returns its graph."""

    def make(**sources):
        for name, text in {"__init__": "", "probe/__init__": "", **sources}.items():
            path = tmp_path / "patchgate" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return graph_of(tmp_path / "patchgate")

    return make


def test_no_module_imports_itself_by_way_of_others():
    assert cycle_in(graph_of(PACKAGE)) is None


def test_only_the_probe_imports_torch():
    assert torch_outside_probe(graph_of(PACKAGE)) == []


def test_the_probe_imports_nothing_of_ours():
    assert foreign_in_probe(graph_of(PACKAGE)) == []


def test_the_whole_package_is_walked():
    graph = graph_of(PACKAGE)
    assert {
        "patchgate",
        "patchgate.checks.compare",
        "patchgate.checks.facts",
        "patchgate.probe.simulate.fake_device",
    } <= graph.keys()
    assert "patchgate.model.records" in graph["patchgate.checks.compare"]


@pytest.mark.parametrize(
    "sources",
    [
        {"a": "import patchgate.b", "b": "from patchgate import a"},
        {"a": "from patchgate.b import x", "b": "def f():\n    import patchgate.a"},
        {"a": "import patchgate.b", "b": "import patchgate.c", "c": "import patchgate.a"},
    ],
)
def test_a_cycle_is_found(package, sources):
    assert {f"patchgate.{name}" for name in sources} == set(cycle_in(package(**sources)))


def test_a_chain_is_no_cycle(package):
    assert cycle_in(package(a="import patchgate.b", b="import patchgate.c", c="import os")) is None


@pytest.mark.parametrize(
    "text", ["import torch", "import triton.language", "def f():\n    from torch._inductor import ir"]
)
def test_torch_outside_the_probe_is_found(package, text):
    assert torch_outside_probe(package(a=text, b="import torchless", **{"probe/c": text})) == ["patchgate.a"]


@pytest.mark.parametrize("text", ["import rich", "from patchgate import model", "from patchgate.model import Case"])
def test_a_foreign_import_in_the_probe_is_found(package, text):
    graph = package(model="", **{"probe/a": text, "probe/b": "import os, torch\nfrom patchgate.probe import a"})
    assert [found.split(" -> ")[0] for found in foreign_in_probe(graph)] == ["patchgate.probe.a"]
