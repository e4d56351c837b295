"""Three small torch releases, and lint findings as short texts. 2.11 renames, 2.13 adds a
parameter.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from toyindex import toy_releases

from patchgate.lint.index.release import Release
from patchgate.lint.run import lint_source

_IR = """
from torch._inductor import config
from torch._inductor.virtualized import V

class IRNode:
    data: "IRNode"
    def get_numel(self) -> int: ...
    def num_reads(self) -> int: ...

class Pointwise(IRNode):
    def inner_fn_opcount(self): ...

class Forwarding(IRNode):
    def __getattr__(self, name): ...

class Box(IRNode):
    @property
    def first(self) -> Pointwise: ...
    @staticmethod
    def create(data): ...
    @classmethod
    def wrap(cls, data): ...
    def should_realize(self, users{extra}):
        a = 1
        b = {two}
        c = 3
        d = 4
        return a + b + c + d

def use(box: Box):
    box.should_realize(2{passed})
    Box.create(1)
    Box.wrap(1)
    return strides(1, 2)

def strides(x, *args, **kwargs): ...
def unused(x): ...
"""


def toy_sources(
    *, hint: str = "size_hint", extra: str = "", passed: str = "", two: str = "2"
) -> dict[str, str]:
    """Module -> text: `hint` is the name of SizeVarAllocator's method, `extra` a parameter of
    should_realize.
    """
    return {
        "torch._inductor.ir": _IR.format(extra=extra, passed=passed, two=two),
        "torch._inductor.config": "threshold = 8\n"
        + ("old_option = 1\n" if hint == "size_hint" else ""),
        "torch._inductor.virtualized": """
class _V:
    @property
    def graph(self) -> GraphLowering: ...
from torch._inductor.graph import GraphLowering
V = _V()
""",
        "torch._inductor.graph": """
from torch._inductor.ir import strides
class GraphLowering:
    def __init__(self):
        self.sizevars = 1
    def lower(self): return strides(1, 2)
""",
        "torch._inductor.sizevars": (
            f"class SizeVarAllocator:\n    def {hint}(self, expr, fallback=None) -> int: ...\n"
        ),
        f"torch._inductor.{'old' if hint == 'size_hint' else 'new'}": "def helper(): ...\n",
    }


_NEWEST = {"extra": ", *, graph_reuse=True", "passed": ", graph_reuse=False", "two": "20"}
TORCHES = toy_releases(
    {
        "2.10.0": toy_sources(),
        "2.11.0": toy_sources(hint="optimization_hint"),
        "2.13.0": toy_sources(hint="optimization_hint", **_NEWEST),
    }
)


def found(source: str, torches: Sequence[Release] = TORCHES) -> list[str]:
    """Each finding as `line: CODE severity message [releases]`."""
    findings, _ = lint_source(textwrap.dedent(source).lstrip(), "patch.py", torches)
    return [
        (
            f"{each.span.line}: {each.code} {each.severity.value} {each.message} "
            f"[{each.shown_releases}]"
        )
        for each in findings
    ]


def codes(source: str, torches: Sequence[Release] = TORCHES) -> list[str]:
    return [line.split()[1] for line in found(source, torches)]
