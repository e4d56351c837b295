"""PG121: a gate lets releases through that lack a name, and one that does not."""

from __future__ import annotations

from toytorch import found


def test_wide_gate() -> None:
    gate = (
        "import torch\nfrom torch._inductor.virtualized import V\nif torch.__version__ >= (2, "
        "{}):\n    {}\n"
    )
    lines = found(gate.format(10, "V.graph.sizevars.optimization_hint"))
    assert [line.split()[1] for line in lines if " red " in line] == ["PG121", "PG111"]
    assert not [
        line
        for line in found(gate.format(11, "V.graph.sizevars.optimization_hint"))
        if " red " in line
    ]


def test_the_names_of_the_other_branch_and_those_of_no_release() -> None:
    gate = (
        "import torch\nfrom torch._inductor.virtualized import V\nif torch.__version__ < (2, "
        "10): pass\nelse:\n    {}\n"
    )
    lines = [
        line for line in found(gate.format("V.graph.sizevars.optimization_hint")) if "PG121" in line
    ]
    assert [line.split("`")[0] for line in lines] == [
        "3: PG121 red the version check is false on releases without "
    ]
    assert not [
        line for line in found(gate.format("V.graph.sizevars.my_own_thing")) if " red " in line
    ]
    misspelt = [
        line.split()[1]
        for line in found(gate.format("V.graph.sizevars.optimization_hin"))
        if " red " in line
    ]
    assert misspelt == ["PG111"]
