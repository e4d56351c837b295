"""Verify the imports: rooms on floors, no cycle, torch only below the probe, and the probe nothing
of ours.

Read off the source with `ast`; each detector is also seen failing on a small made-up package.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "patchgate"
PROBE = "patchgate.probe"
# The messages between both sides of the socket: only the side that asks may read them, and they
# need nothing but Python.
PROTOCOL, ASKS = "patchgate.probe.protocol", "runner"
# Each room stands on a floor, and imports from the floors below its own. The probe stands apart.
FLOORS = (("model",), ("inputs",), ("lint", "runner"), ("checks",), ("report", "runs"), ("cli",))
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS, 1) for room in rooms}
LONGEST_CHAIN = 15
Graph = dict[str, set[str]]


def graph_of(package: Path) -> Graph:
    """Module -> dotted names that it imports, anywhere in its text."""
    files = {
        _name(path, package): path for path in package.rglob("*.py") if "_shipped" not in path.parts
    }
    return {
        name: set(_imports(ast.parse(path.read_text("utf-8")), name, files))
        for name, path in files.items()
    }


@functools.cache
def engine() -> Graph:
    """The graph of our own package, which takes a second to read."""
    return graph_of(PACKAGE)


def _name(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(tree: ast.AST, name: str, modules: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: a relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in modules else str(node.module)


def cycle_in(graph: Graph) -> list[str] | None:
    """The modules of one cycle; None when there is none."""
    try:
        graphlib.TopologicalSorter(
            {name: seen & graph.keys() - {name} for name, seen in graph.items()}
        ).prepare()
    except graphlib.CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle
    return None


def rooms_of(graph: Graph) -> Graph:
    """Room -> the other rooms that its modules import.

    What lies in no room is the door: `__main__` and the version.
    """
    rooms: Graph = {room: set() for name in graph if (room := room_of(name))}
    for name, seen in graph.items():
        rooms.get(room_of(name), set()).update(
            {room_of(one) for one in seen} & rooms.keys() - {room_of(name)}
        )
    return rooms


def room_of(name: str) -> str:
    """`checks` of `patchgate.checks.cache`; empty for what is no module of ours, or lies in no
    room.
    """
    package, _, rest = name.partition(".")
    room = rest.partition(".")[0]
    return "" if package != "patchgate" or room.startswith("__") else room


def bad_arrows(graph: Graph) -> list[str]:
    """Imports that climb, go sideways between rooms of one floor, or lead to or from a room without
    a floor.
    """
    return sorted(
        f"{name} -> {one}"
        for name, seen in graph.items()
        for one in seen
        if _leaves_room(name, one)
        and FLOOR.get(room_of(one), len(FLOORS)) >= FLOOR.get(room_of(name), 0)
    )


def _leaves_room(name: str, one: str) -> bool:
    if (room_of(name), one) == (ASKS, PROTOCOL):
        return False
    return bool(room_of(name) and room_of(one)) and room_of(name) != room_of(one)


def longest_chain(graph: Graph) -> list[str]:
    """The most modules of which each imports the next; the graph has no cycle."""
    inner = {name: seen & graph.keys() - {name} for name, seen in graph.items()}
    chains: dict[str, list[str]] = {}
    for name in graphlib.TopologicalSorter(inner).static_order():
        chains[name] = [
            name,
            *max((chains[one] for one in sorted(inner[name])), key=len, default=[]),
        ]
    return max(chains.values(), key=len)


def floors_of(rooms: Graph) -> int:
    """How many floors the rooms need: the longest way down, in rooms."""
    return len(longest_chain(rooms))


def below(module: str, name: str) -> bool:
    return name == module or name.startswith(module + ".")


def torch_outside_probe(graph: Graph) -> list[str]:
    return sorted(
        name
        for name, seen in graph.items()
        if not below(PROBE, name)
        and any(below(torch, one) for torch in ("torch", "triton") for one in seen)
    )


def foreign_in_probe(graph: Graph) -> list[str]:
    # Triton's interpreter computes with numpy; without numpy it is not asked.
    allowed = {*sys.stdlib_module_names, "torch", "triton", "numpy"}
    return sorted(
        f"{name} -> {one}"
        for name, seen in graph.items()
        for one in seen
        if below(PROBE, name) and one.split(".")[0] not in allowed and not below(PROBE, one)
    )


class Make(Protocol):
    def __call__(self, **sources: str) -> Graph: ...


@pytest.fixture
def package(tmp_path: Path) -> Make:
    """Makes a package of the given sources and returns its graph."""

    def make(**sources: str) -> Graph:
        for name, text in {"__init__": "", "probe/__init__": "", **sources}.items():
            path = tmp_path / "patchgate" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return graph_of(tmp_path / "patchgate")

    return make


def test_no_module_imports_itself_by_way_of_others():
    assert cycle_in(engine()) is None


def test_every_room_stands_on_a_floor():
    assert rooms_of(engine()).keys() == {*FLOOR, "probe"}
    assert len(FLOORS) <= 6


def test_no_room_imports_itself_by_way_of_others():
    rooms = rooms_of(engine())
    assert cycle_in(rooms) is None
    assert floors_of(rooms) <= len(FLOORS)


def test_no_import_climbs_or_goes_sideways():
    assert bad_arrows(engine()) == []


def test_no_chain_of_imports_is_long():
    chain = longest_chain(engine())
    assert len(chain) <= LONGEST_CHAIN, " -> ".join(chain)


def test_only_the_probe_imports_torch():
    assert torch_outside_probe(engine()) == []


def test_the_probe_imports_nothing_of_ours():
    assert foreign_in_probe(engine()) == []


def test_the_protocol_needs_nothing_but_python():
    assert {one.split(".")[0] for one in engine()[PROTOCOL]} <= {*sys.stdlib_module_names}


def test_the_whole_package_is_walked():
    graph = engine()
    assert {
        "patchgate",
        "patchgate.checks.framework.compare",
        "patchgate.checks.framework.golden_verdicts",
        "patchgate.probe.simulate.fake_device",
    } <= graph.keys()
    assert "patchgate.model.records" in graph["patchgate.checks.framework.compare"]


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
    "text",
    ["import torch", "import triton.language", "def f():\n    from torch._inductor import ir"],
)
def test_torch_outside_the_probe_is_found(package, text):
    assert torch_outside_probe(package(a=text, b="import torchless", **{"probe/c": text})) == [
        "patchgate.a"
    ]


@pytest.mark.parametrize(
    "text", ["import rich", "from patchgate import model", "from patchgate.model import Case"]
)
def test_a_foreign_import_in_the_probe_is_found(package, text):
    graph = package(
        model="", **{"probe/a": text, "probe/b": "import os, torch\nfrom patchgate.probe import a"}
    )
    assert [found.split(" -> ")[0] for found in foreign_in_probe(graph)] == ["patchgate.probe.a"]


@pytest.mark.parametrize(
    ("name", "room"),
    [
        ("patchgate.checks.cache", "checks"),
        ("patchgate.lint", "lint"),
        ("patchgate", ""),
        ("patchgate.__main__", ""),
        ("click.core", ""),
    ],
)
def test_a_module_lies_in_the_room_of_its_folder(name, room):
    assert room_of(name) == room


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("model/a", "import patchgate.cli.x"),  # climbs
        ("runner/a", "from patchgate.checks import x"),
        ("lint/a", "def f():\n    from patchgate.runs import x"),  # climbs, late
        ("report/a", "from patchgate.runs.x import y"),  # sideways
        ("lint/a", "import patchgate.runner.x"),
        ("cli/a", "from patchgate.probe import x"),  # apart
        ("runner/a", "from patchgate.probe import x"),
        ("checks/a", "import patchgate.probe.protocol"),
        ("probe/a", "from patchgate.model import x"),
        ("attic/a", "from patchgate.model import x"),  # no floor
        ("cli/a", "from patchgate.attic import x"),
    ],
)
def test_an_import_that_does_not_go_down_is_found(package, name, text):
    rooms = {f"{room}/x": "y = 1" for room in (*FLOOR, "probe", "attic")}
    (found,) = bad_arrows(package(**rooms, **{"probe/protocol": "", name: text}))
    assert found.startswith(f"patchgate.{name.replace('/', '.')} -> patchgate.")


def test_imports_that_go_down_or_stay_in_their_room_are_none(package):
    text = "from patchgate.model import x\nfrom patchgate.checks.b import c\nimport click, os"
    sources = {
        "checks/a": text,
        "checks/b": "c = 1",
        "model/x": "",
        "__main__": "from patchgate.checks import a",
    }
    sources |= {
        "probe/protocol": "import typing",
        "runner/a": "from patchgate.probe.protocol import Answer",
    }
    assert bad_arrows(package(**sources)) == []


def test_rooms_that_lead_to_each_other_are_found_also_where_no_module_does(package):
    sources = {
        "checks/a": "from patchgate.runner import b",
        "runner/b": "",
        "runner/c": "from patchgate.checks import d",
    }
    graph = package(**sources, **{"checks/d": ""})
    assert cycle_in(graph) is None
    assert set(cycle_in(rooms_of(graph)) or ()) == {"checks", "runner"}


def test_a_floor_too_many_is_counted(package):
    graph = package(
        **{
            "cli/a": "from patchgate.runs import b",
            "runs/b": "from patchgate.checks import c",
            "checks/c": "",
            "model/d": "",
        }
    )
    assert rooms_of(graph) == {
        "cli": {"runs"},
        "runs": {"checks"},
        "checks": set(),
        "model": set(),
        "probe": set(),
    }
    assert floors_of(rooms_of(graph)) == 3


def test_the_longest_chain_is_found(package):
    graph = package(
        a="from patchgate import b, e",
        b="import patchgate.c",
        c="def f():\n    from patchgate import d",
        d="",
        e="",
    )
    assert longest_chain(graph) == ["patchgate.a", "patchgate.b", "patchgate.c", "patchgate.d"]
