"""PG119: nothing in torch calls the target, and targets that are called."""

from __future__ import annotations

from toyindex import toy_releases
from toytorch import codes, found


def test_a_target_that_nothing_calls() -> None:
    assert codes("import torch._inductor.ir as ir\nir.unused = lambda x: x\n") == ["PG119"]


def test_a_target_that_is_called_or_dispatched_by_name() -> None:
    assert "PG119" not in codes(
        "from torch._inductor.ir import Box\nBox.should_realize = lambda self, *a, **k: 1\n"
    )
    assert "PG119" not in codes(
        "from torch._inductor.ir import Forwarding\nForwarding.__getattr__ = lambda s, n: 1\n"
    )


CALLED = "def target(x): ...\ndef use(): target(1)\n"


def test_a_target_that_is_no_longer_called_is_red_unless_it_is_handed_on() -> None:
    patch = "import torch.fx.a as a\na.target = lambda x: x\n"
    assert _red(patch, CALLED, "def target(x): ...\n") == [
        "2: PG119 red nothing in torch calls `a.target` [from 2.11]"
    ]
    assert _red(patch, CALLED, "def target(x): ...\ndef use(): each(target)\n") == []
    assert _red(patch, CALLED, "def target(x): ...\nNAMES = ['target']\n") == []


def test_what_is_called_by_a_composed_name() -> None:
    text = "class A:\n    def {0}(self): ...\n{1}"
    for name, expected in (("method_add", []), ("nb_add_impl", []), ("add", ["red"])):
        patch = f"from torch.fx.a import A\nA.{name} = lambda self: 1\n"
        called = text.format(name, f"def use(a): a.{name}()\n")
        assert [each.split()[2] for each in _red(patch, called, text.format(name, ""))] == expected


def test_an_operation_is_called_by_whoever_handles_it() -> None:
    handler = {"torch._inductor.ops_handler": "class OpsHandler:\n    def lshift(self, x): ...\n"}
    module = "class Overrides:\n    def lshift(self, x): ...\n    def more(self, x): ...\n"
    used = "def use(a): a.lshift(1), a.more(1)\n"
    torches = toy_releases(
        {
            "2.10.0": {"torch._inductor.a": module + used, **handler},
            "2.11.0": {"torch._inductor.a": module, **handler},
        }
    )
    patch = "from torch._inductor.a import Overrides\nOverrides.{0} = lambda self, x: 1\n"
    assert codes(patch.format("lshift"), torches) == []
    assert codes(patch.format("more"), torches) == ["PG119"]


def test_what_c_or_a_table_of_names_calls_is_a_note() -> None:
    def text(methods: int, *, called: bool) -> str:
        lines = [f"    def m{at}(self): ...\n" for at in range(methods)]
        return "class A:\n" + "".join(lines) + ("def use(a): a.m0()\n" if called else "")

    patch = "from torch.fx.a import A\nA.m0 = lambda self: 1\n"
    assert [
        each.split()[2] for each in _red(patch, text(4, called=True), text(4, called=False))
    ] == ["note"]
    rest = "".join(f"def u{at}(a): a.m{at}()\n" for at in range(1, 4))
    assert [
        each.split()[2] for each in _red(patch, text(4, called=True), text(4, called=False) + rest)
    ] == ["red"]


def test_what_a_base_outside_torch_may_call_is_a_note() -> None:
    def text(base: str, *, called: bool) -> str:
        use = "def use(a): a.hook()\n" if called else ""
        return f"import abc, pickle\nclass A({base}):\n    def hook(self): ...\n{use}"

    patch = "from torch.fx.a import A\nA.hook = lambda self: 1\n"
    for base, severity in (("pickle.Pickler", "note"), ("abc.ABC", "red")):
        told = _red(patch, text(base, called=True), text(base, called=False))
        assert [each.split()[2] for each in told] == [severity]


def _red(patch: str, old: str, new: str) -> list[str]:
    torches = toy_releases({"2.10.0": {"torch.fx.a": old}, "2.11.0": {"torch.fx.a": new}})
    return [each for each in found(patch, torches) if "PG119" in each]
