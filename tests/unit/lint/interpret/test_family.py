"""A name that no class has but one of torch's below the declared one inherits from elsewhere may be
there.
"""

from __future__ import annotations

from toyindex import toy_releases
from toytorch import found

IR = """
class Operation:
    def operation(self): ...
class Named:
    def get_name(self): ...
class Extern(Operation, {}): ...
class Node:
    node: Operation
"""
USE = "from torch._inductor.ir import Node\ndef f(node: Node): return node.node.get_name()\n"


def test_a_heir_may_have_inherited_the_name_from_another_class() -> None:
    both = toy_releases({"2.10.0": {"torch._inductor.ir": IR.format("Named")}})
    assert found(USE, both) == []


def test_a_name_that_no_heir_has_is_missing() -> None:
    apart = toy_releases(
        {
            "2.10.0": {"torch._inductor.ir": IR.format("Named")},
            "2.11.0": {"torch._inductor.ir": IR.format("object")},
        }
    )
    assert [each.split(" on ")[0] for each in found(USE, apart)] == [
        "2: PG111 red `get_name` missing"
    ]
