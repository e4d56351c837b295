"""PG118: who still holds the original, unless it is rebound there too."""

from __future__ import annotations

import pytest
from toyindex import toy_release
from toytorch import codes, found, toy_sources


def test_holders_by_value() -> None:
    source = "import torch._inductor.ir as ir\ndef f(x, *args, **kwargs): ...\nir.strides = f\n"
    assert found(source) == [
        "3: PG118 red the original is still referenced by `torch._inductor.graph.strides` [every "
        "release]"
    ]
    also = "import torch._inductor.graph as graph\ngraph.strides = f\n"
    assert codes(source + also) == []


def test_a_holder_that_nothing_loads_before_the_patch_is_a_note() -> None:
    """`import torch` loads some modules, and what the patch imports loads what it imports; the rest
    comes later.
    """
    sources = {
        "torch._inductor.a": "def f(): ...\n",
        "torch._inductor.c": "import torch._inductor.b\n",
    }
    sources |= {"torch._inductor.c": "from torch._inductor import b\n", "torch.compiler": ""}
    holder = "from torch._inductor.a import f\ndef use(): f()\n"
    patch = "import torch._inductor.a as a\na.f = lambda: 1\n"
    release = (toy_release("2.11.0", sources | {"torch._inductor.b": holder}),)
    assert found(patch, release) == [
        "2: PG118 note the original is still referenced by `torch._inductor.b.f`, if loaded before "
        "the patch [2.11]"
    ]
    assert "PG118 red" in found("import torch._inductor.c\n" + patch, release)[0]
    assert "PG118 note" in found(patch + "import torch._inductor.c\n", release)[0]
    with_torch = {"torch.compiler": "import torch._inductor.c as c\n", "torch._inductor.b": holder}
    assert "PG118 red" in found(patch, (toy_release("2.11.0", sources | with_torch),))[0]


def test_registries_keep_the_original() -> None:
    source = "import torch._inductor.ir as ir\ndef f(x): ...\nir.unused = f\n"
    sources = toy_sources()
    sources["torch._inductor.ir"] += "register_lowering(unused)\n"
    release = toy_release("2.11.0", sources)
    assert found(source, (release,))[0] == (
        "3: PG118 note the original is still registered by `torch._inductor.ir.register_lowering` "
        "[2.11]"
    )
    assert "PG118" not in codes(source)


def test_a_module_that_only_passes_the_name_on_keeps_nothing() -> None:
    source = "import torch._inductor.ir as ir\ndef f(x, *args, **kwargs): ...\nir.strides = f\n"
    sources = toy_sources()
    sources["torch._inductor.graph"] = sources["torch._inductor.graph"].replace(
        "strides(1, 2)", "1"
    )
    assert codes(source, (toy_release("2.11.0", sources),)) == []
    for use in ("each(strides)", "{1: strides}"):
        text = {
            **sources,
            "torch._inductor.graph": sources["torch._inductor.graph"] + f"table = {use}\n",
        }
        told = found(source, (toy_release("2.11.0", text),))
        assert [each for each in told if "PG118 red" in each] != []


def test_the_place_for_users_is_no_bad_place_and_a_private_one_is() -> None:
    sources = {
        "torch.fx.a": "def f(): ...\ndef use(): f()\n",
        "torch._dynamo.b": "from torch.fx.a import f\n",
    }
    sources |= {"torch.fx": "from torch.fx.a import f\n", "torch.fx.c": "x = 1\n"}
    release = (toy_release("2.11.0", sources),)
    assert codes("import torch.fx\ntorch.fx.f = lambda: 1\n", release) == []
    assert codes("import torch._dynamo.b as b\nb.f = lambda: 1\n", release) == ["PG118"]


def test_a_patch_that_walks_all_modules_reaches_every_holder() -> None:
    source = (
        "import sys\nimport torch._inductor.ir as ir\ndef f(x, *args, **kwargs): "
        "...\nir.strides = f\n"
    )
    walk = "for module in list(sys.modules.values()):\n    setattr(module, 'strides', f)\n"
    assert (codes(source), codes(source + walk)) == (["PG118"], [])


@pytest.mark.parametrize(
    ("more", "severity"),
    [
        ("for module in (a, b):\n    module.strides = f", "note"),
        ("for module in (a, b):\n    module.other = f", "red"),
        ("sys.modules['torch._inductor.graph'].strides = f", "note"),
        ("def replace(module, name, new): setattr(module, name, new)", "note"),
        ("class A:\n    def __init__(self, **kw): setattr(self, *kw)", "red"),
        ("class A:\n    def __init__(self, k, v): setattr(self, k, v)", "red"),
    ],
)
def test_a_holder_may_be_among_what_lint_does_not_know(more: str, severity: str) -> None:
    source = (
        "import sys\nimport torch._inductor.ir as ir\ndef f(x, *args, **kwargs): "
        "...\nir.strides = f\n"
    )
    told = [each for each in found(f"{source}{more}\n") if "PG118" in each]
    assert [each.split()[2] for each in told] == [severity]


def test_a_package_that_names_what_it_offers_keeps_nothing() -> None:
    sources = {"torch._inductor.sub.a": "def f(): ...\ndef use(): f()\n"}
    source = "import torch._inductor.sub.a as a\na.f = lambda: 1\n"
    for use, expected in (("", []), ("__all__ = ['f']\n", []), ("def use(): f()\n", ["PG118"])):
        text = {**sources, "torch._inductor.sub": f"from torch._inductor.sub.a import f\n{use}"}
        assert codes(source, (toy_release("2.11.0", text),)) == expected


def test_data_that_another_module_imports_by_name_stays_there() -> None:
    """The index records calls, and no reads of data."""
    sources = {"torch._inductor.a": "ALLOWED = {1}\n", "torch._inductor.sub.b": "x = 1\n"}
    source = "import torch._inductor.a as a\na.ALLOWED = set()\n"
    for holder, expected in (("torch._inductor.c", ["PG118"]), ("torch._inductor.sub", [])):
        text = sources | {holder: "from torch._inductor.a import ALLOWED\n"}
        assert codes(source, (toy_release("2.11.0", text),)) == expected
    in_place = "import torch._inductor.a as a\na.ALLOWED.add(2)\n"
    text = sources | {"torch._inductor.c": "from torch._inductor.a import ALLOWED\n"}
    assert codes(in_place, (toy_release("2.11.0", text),)) == []


def test_what_is_replaced_for_users_is_a_note() -> None:
    text = {
        "torch.cuda": "def count(): ...\n",
        "torch.cuda.random": "from torch.cuda import count\ndef f(): count()\n",
    }
    told = found(
        "import torch.cuda\ntorch.cuda.count = lambda: 1\n", (toy_release("2.11.0", text),)
    )
    assert [each.split()[1:3] for each in told] == [["PG118", "note"]]
