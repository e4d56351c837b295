"""Find the names of torch that a patch uses: chains are followed through types, and guards take
accesses out.
"""

from __future__ import annotations

import pytest
from toyindex import toy_release
from toytorch import codes, found, toy_sources

IMPORTS = """
import torch
from packaging.version import Version
from torch._inductor import config
from torch._inductor.ir import Box, Forwarding, IRNode, Pointwise
from torch._inductor.virtualized import V
"""


def test_self_of_a_replacement_is_the_class_it_is_assigned_to() -> None:
    source = f"{IMPORTS}\ndef f(self, users, **kw):\n    return self.{{}}\nBox.should_realize = f\n"
    assert codes(source.format("num_reads")) == ["PG122"]
    assert codes(source.format("nothing_like_it")) == ["PG111", "PG122"]


@pytest.mark.parametrize(
    "access",
    [
        "def f(x: Box): return x.{}",
        "def f(x: 'Box | None'): return x.{}",
        "def f(xs: list[Box]):\n    for x in xs:\n        x.{}",
        "def f(xs: list[Box]): return [x.{} for x in xs]",
        "def f(x):\n    if isinstance(x, Box):\n        return x.{}",
        "def f(x):\n    if not isinstance(x, (Box, Pointwise)):\n        return\n    x.{}",
        "def f(x):\n    assert isinstance(x, Box)\n    x.{}",
        "def f(): return Box().{}",
        "def f(x: Box): return x.first.{}",
        "Box.{}",
        "V.graph.sizevars.{}",
        "torch._inductor.ir.{}",
        "getattr(Box, '{}')",
        "class A:\n    def m(self, x: Box): return x.{}",
        "def f(x: IRNode):\n    x = Box()\n    return (lambda: x.{})()",
        "async def f(x: Box):\n    async with x.{} as y: pass",
    ],
)
def test_a_missing_name_is_found_through(access: str) -> None:
    assert codes(f"{IMPORTS}\n{access.format('absent')}\n") == ["PG111"]


@pytest.mark.parametrize(
    "quiet",
    [
        "def f(x): return x.absent",
        "def f(x: IRNode): return x.inner_fn_opcount",  # a subclass has it
        "def f(x: Forwarding): return x.absent",  # __getattr__ may answer
        "def f(x: Box):\n    x.mark = 1\n    return x.mark",  # the patch's own
        "if hasattr(Box, 'absent'):\n    Box.absent()",
        "def f(x: Box):\n    if hasattr(x, 'absent'):\n        x.absent()",
        "def f(x: Box): return x.absent if hasattr(x, 'absent') else None",
        "def f(x: Box): return hasattr(x, 'absent') and x.absent",
        "getattr(Box, 'absent', None)",
        "try:\n    Box.absent\nexcept AttributeError:\n    pass",
        "try:\n    from torch._inductor.ir import Absent\nexcept ImportError:\n    Absent = None",
        "import contextlib\nwith contextlib.suppress(AttributeError):\n    Box.absent",
        "def f(x: Box):\n    while x:\n        x = x.anything\n        x.absent",
        "def f():\n    return\n    Box.absent",
        "import numpy\nnumpy.absent",
        "torch.absent",
        "from torch._inductor.ir import *\nabsent",
    ],
)
def test_nothing_is_said_of(quiet: str) -> None:
    assert "PG111" not in codes(f"{IMPORTS}\n{quiet}\n")


def test_the_handler_counts_only_where_the_attempt_fails() -> None:
    source = """
    try:
        from torch._inductor.new import helper
    except ImportError:
        from torch._inductor.old import helper
    """
    assert found(source) == []


def test_version_gates_turn_red_into_a_note() -> None:
    source = (
        f"{IMPORTS}\nif Version(torch.__version__).release >= (2, 11):\n    "
        "V.graph.sizevars.optimization_hint\n"
    )
    assert found(source) == [
        "8: PG111 note `optimization_hint` missing on `torch._inductor.sizevars.SizeVarAllocator`"
        " (excluded by the version check) [2.10 and before]"
    ]


@pytest.mark.parametrize(
    "gated",
    [
        "if Version(torch.__version__).release < (2, 11):\n    raise "
        "ImportError\nV.graph.sizevars.optimization_hint",
        "def f():\n    if torch.__version__ < (2, 11):\n        return\n    "
        "V.graph.sizevars.optimization_hint",
        "def f(): V.graph.sizevars.optimization_hint\ndef g(): f()\nif "
        "Version(torch.__version__).minor > 10: g()",
        "Version(torch.__version__).minor > 10 and V.graph.sizevars.optimization_hint",
        "x = V.graph.sizevars.optimization_hint if Version(torch.__version__).minor > 10 else 0",
    ],
)
def test_gates_reach_through_returns_and_functions(gated: str) -> None:
    lines = found(f"{IMPORTS}\n{gated}\n")
    assert [line.split()[2] for line in lines if "PG111" in line] == ["note"]


@pytest.mark.parametrize("what", ["wrapper_code.generate_calls(1)", "scheduler.current_streams"])
def test_a_backend_of_its_own_has_a_wrapper_and_a_scheduler_of_its_own(what: str) -> None:
    """A backend registers the class of its `V.graph.wrapper_code` at run time; elsewhere it is
    torch's.
    """
    torch = toy_sources()
    torch["torch._inductor.codegen.wrapper"] = (
        "class PythonWrapperCodegen:\n    def generate_call(self, name): ...\n"
    )
    torch["torch._inductor.codegen.triton"] = "class TritonKernel: ...\n"
    torch["torch._inductor.scheduler"] = "class Scheduler:\n    def current_stream(self): ...\n"
    release = toy_release("2.10.0", torch | {"torch._inductor.graph": _GRAPH})
    patch = (
        "from torch._inductor.virtualized import V\nfrom torch._inductor.codegen.triton import "
        "TritonKernel\n"
    )
    use = f"def f(): return V.graph.{what}\n"
    assert codes(patch + use, [release]) == ["PG111"]
    assert codes(patch + "class Mine(TritonKernel): ...\n" + use, [release]) == []


_GRAPH = (
    "from torch._inductor.scheduler import Scheduler\nclass GraphLowering:\n    def "
    "__init__(self):\n"
    "        self.wrapper_code = None\n        self.scheduler: Scheduler = None\n"
)
