"""PG113, PG114: replacements and overrides that do not take what torch passes, and those that do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from toyindex import toy_release, toy_releases
from toytorch import TORCHES, codes, found, toy_sources

from patchgate.lint.index.release import Release
from patchgate.lint.run import lint, lint_source

BOX = "from torch._inductor.ir import Box\nimport torch\n"


def test_drift_names_the_parameter_and_the_release() -> None:
    lines = found(f"{BOX}def f(self, users): return 1\nBox.should_realize = f\n")
    assert lines[0] == (
        "4: PG113 red replacement of `Box.should_realize` does not take `graph_reuse`, which torch passes [from 2.13]"
    )


@pytest.mark.parametrize(
    "signature",
    [
        "self, users, *, graph_reuse=True",
        "self, users, **kw",
        "*args, **kwargs",
        "self, users, graph_reuse=1",
    ],
)
def test_a_signature_that_takes_every_call(signature: str) -> None:
    assert "PG113" not in codes(f"{BOX}def f({signature}): return 1\nBox.should_realize = f\n")


@pytest.mark.parametrize(
    "rebinding",
    [
        "setattr(Box, 'should_realize', f)",
        "from unittest.mock import patch\npatch('torch._inductor.ir.Box.should_realize', f)",
        "from unittest import mock\nmock.patch.object(Box, 'should_realize', f)",
        "def test(monkeypatch): monkeypatch.setattr(Box, 'should_realize', f)",
        "torch._inductor.ir.Box.should_realize = f",
        "import importlib\nimportlib.import_module('torch._inductor.ir').Box.should_realize = f",
        "Box.should_realize, x = f, 1",
    ],
)
def test_every_way_of_replacing(rebinding: str) -> None:
    assert "PG113" in codes(f"{BOX}def f(self, users): return 1\n{rebinding}\n")


def test_forms() -> None:
    source = f"{BOX}def f({{}}): ...\nBox.{{}} = {{}}\n"
    assert codes(source.format("self, data", "create", "f")) == ["PG113", "PG114"]
    assert codes(source.format("data", "create", "staticmethod(f)")) == []
    assert codes(source.format("cls, data", "wrap", "classmethod(f)")) == []
    assert codes(source.format("self", "first", "f")) == ["PG114", "PG119"][:1]
    assert codes(source.format("self", "first", "property(f)")) == []
    assert "PG114" in codes(f"{BOX}async def f(self, users, **kw): ...\nBox.should_realize = f\n")


def test_an_override_in_a_subclass_drifts_with_its_base() -> None:
    source = "from torch._inductor.ir import Box\nclass Mine(Box):\n    def should_realize(self, users{}): return 1\n"
    assert found(source.format("")) == [
        "3: PG113 red override of `Box.should_realize` does not take `graph_reuse`, which torch passes [from 2.13]"
    ]
    assert found(source.format(", **kw")) == []
    assert found(source.replace("should_realize", "own").format("")) == []


def test_an_override_that_takes_less_everywhere_is_meant() -> None:
    source = "from torch._inductor.ir import Box\nclass Mine(Box):\n    def should_realize(self): return 1\n"
    assert found(source) == []
    assert found("class Mine:\n    def should_realize(self, users): return 1\n") == []


def test_another_order_is_red_where_calls_pass_by_position() -> None:
    release = toy_release(
        "2.11.0", {"torch._inductor.ir": "def strides(x, y): ...\ndef use(): strides(1, 2)\n"}
    )
    swapped = "import torch._inductor.ir as ir\ndef f({}): ...\nir.strides = f\n"
    assert found(swapped.format("y, x"), (release,)) == [
        "3: PG113 red replacement of `ir.strides` has `x`, `y` at another position, and torch passes them by position"
        " [2.11]"
    ]
    assert found(swapped.format("a, b"), (release,)) == []
    assert found(swapped.format("x, y, z=1"), (release,)) == []
    named = toy_release(
        "2.11.0", {"torch._inductor.ir": "def strides(x, y): ...\ndef use(): strides(x=1, y=2)\n"}
    )
    assert [line.split()[2] for line in found(swapped.format("y, x"), (named,))] == ["note"]


KEEPING = f"{BOX}kept = Box.should_realize\ndef f({{}}): return {{}}\nBox.should_realize = f\n"


@pytest.mark.parametrize(
    "call",
    ["kept(self, users)", "Box.should_realize(self, users)", "len([kept(self, users=users)])"],
)
def test_what_is_taken_and_not_passed_on_to_the_original_is_a_note(call: str) -> None:
    told = found(KEEPING.format("self, users, *, graph_reuse=True", call))
    assert [each for each in told if "PG113" in each] == [
        "4: PG113 note replacement of `Box.should_realize` takes `graph_reuse`, which torch passes,"
        " but calls the original without it [from 2.13]"
    ]


@pytest.mark.parametrize(
    ("signature", "call"),
    [
        ("self, users, *, graph_reuse=True", "kept(self, users, graph_reuse=graph_reuse)"),
        ("self, users, *, graph_reuse=True", "graph_reuse and kept(self, users)"),
        ("self, users, *, graph_reuse=True", "users > 2"),
        ("self, users, **more", "kept(self, users, **more)"),
        ("*every, **more", "kept(*every, **more)"),
    ],
)
def test_what_is_passed_on_or_used_is_quiet(signature: str, call: str) -> None:
    assert "PG113" not in codes(KEEPING.format(signature, call))


def test_the_fix_says_to_pass_a_new_parameter_on() -> None:
    source = f"{BOX}def f(self, users): return 1\nBox.should_realize = f\n"
    [fix] = {
        each.fix for each in lint_source(source, "patch.py", TORCHES)[0] if each.code == "PG113"
    }
    assert fix == "add `*, graph_reuse=True`, and pass it on where the original is called"


CALLS = "class Kind:\n    @classmethod\n    def make(cls, data): ...\n    def plain(self, data): ...\n{0}\n"


@pytest.mark.parametrize(
    ("call", "assigned", "expected"),
    [
        ("def use(a): a.make(1)", "Kind.make = f", "note"),
        ("def use(a): Kind.make(1)", "Kind.make = f", "red"),
        ("def use(cls): cls.make(1)", "Kind.make = f", "red"),
        ("def use(a): a.plain(1)", "Kind.plain = staticmethod(lambda data: 1)", "note"),
        ("def use(a): a.plain(1)", "Kind.plain = staticmethod(f)", "red"),
        ("def use(a): Kind.plain(a, 1)", "Kind.plain = staticmethod(lambda data: 1)", "red"),
    ],
)
def test_another_form_is_red_where_a_call_shows_that_it_does_not_fit(
    call: str, assigned: str, expected: str
) -> None:
    release = toy_release("2.11.0", {"torch.fx.a": CALLS.format(call)})
    told = found(f"from torch.fx.a import Kind\ndef f(self, data): ...\n{assigned}\n", (release,))
    assert [each.split()[2] for each in told if "PG114" in each] == [expected]


def test_calls_of_namesakes_prove_nothing() -> None:
    method = "class A:\n    def run(self, x): ...\n{0}\n"
    patch = "from torch.fx.a import A\ndef f(self): ...\nA.run = f\n"
    for call, severity in (("def use(a): a.run(1)", "red"), ("def use(run): run(1)", "note")):
        told = found(patch, (toy_release("2.11.0", {"torch.fx.a": method.format(call)}),))
        assert [each.split()[2] for each in told if "PG113" in each] == [severity]


def test_a_wrapper_of_a_special_method_is_judged_by_what_makes_the_class() -> None:
    text = "class A:\n    def __init__(self, x, y=1): ...\nclass B:\n    def __init__(self, x, y): ...\n{0}\n"
    wrapper = "from torch.fx.a import A\nkept = A.__init__\ndef f(self, x): kept(self, x)\nA.__init__ = f\n"
    for call, severity in (("def use(): B(1, 2)", "note"), ("def use(): A(1, 2)", "red")):
        told = found(wrapper, (toy_release("2.11.0", {"torch.fx.a": text.format(call)}),))
        assert [each.split()[2] for each in told if "PG113" in each] == [severity]
    assert "PG122" not in codes(wrapper)


def test_an_override_of_what_takes_everything_may_take_less() -> None:
    base = "class Base:\n    def run(self, {0}): ...\ndef use(a): a.run()\n"
    source = "from torch.fx.a import Base\nclass Mine(Base):\n    def run(self, x): ...\n"
    for parameters, expected in (("*args, **kwargs", []), ("x=1", ["PG113"])):
        old = toy_release("2.10.0", {"torch.fx.a": "class Base:\n    def run(self, x): ...\n"})
        told = [
            codes(source, (old, toy_release("2.11.0", {"torch.fx.a": base.format(parameters)})))
        ]
        assert told == [expected]


def test_only_the_module_that_has_it_by_import_calls_the_replacement() -> None:
    modules = {
        "torch.fx.a": "def target(x, y=1): ...\n",
        "torch.fx.b": "from torch.fx.a import target\ndef use(): target({})\n",
        "torch.fx.c": "from torch.fx.a import target\ndef use(): target(1, y=2)\n",
    }
    patch = "import torch.fx.b as b\nb.target = lambda x: x\n"

    def red(passed: str) -> bool:
        torches = toy_releases(
            {"2.10.0": modules | {"torch.fx.b": modules["torch.fx.b"].format(passed)}}
        )
        return any("PG113 red" in each for each in found(patch, torches))

    assert not red("1")
    assert red("1, y=3")


def test_a_wording_that_is_not_that_of_all_releases_has_its_own() -> None:
    def modules(name: str) -> dict[str, str]:
        return {"torch.fx.a": f"def target(x, *, {name}=1): ...\ndef use(): target(1, {name}=2)\n"}

    patch = "import torch.fx.a as a\na.target = lambda x: x\n"
    for name, said in (
        ("late", "(this text: from 2.11; the others: --details)"),
        ("early", "torch passes [every release]"),
    ):
        told = found(patch, toy_releases({"2.10.0": modules("early"), "2.11.0": modules(name)}))
        assert [said in each for each in told if "PG113 red" in each] == [True]


TUNER = """
class Tuner:
    def __init__(self):
        self.hook = lambda given, reset=False: 0
        self.other = None
    def run(self):
        self.hook(1, reset=True)
def outside(x):
    x.other(1, extra=2)
# The index knows calls of what somebody defines.
def hook(given): ...
def other(given): ...
"""


@pytest.mark.parametrize(
    ("name", "signature", "red"),
    [
        ("hook", "given", True),
        ("hook", "given, reset=False", False),
        ("hook", "given, **others", False),
        ("other", "given", False),
        ("unknown", "given", False),
    ],
)
def test_a_function_on_an_object_takes_what_the_class_passes(
    name: str, signature: str, red: bool
) -> None:
    torches = toy_releases({"2.10.0": {"torch._inductor.tuner": TUNER}})
    lines = found(
        f"""
        from torch._inductor.tuner import Tuner
        made = Tuner.__init__
        def __init__(self):
            made(self)
            def clear({signature}): ...
            self.{name} = clear
        Tuner.__init__ = __init__
        """,
        torches,
    )
    problem = "`hook` on an object of `Tuner` does not take `reset`, which torch passes"
    assert [each for each in lines if "PG113" in each] == (
        [f"6: PG113 red {problem} [2.10]"] if red else []
    )


_SAVES = "def save(x, f, protocol=2): ...\n"
STORE = {
    "torch._inductor.store": _SAVES
    + "class Props:\n    @classmethod\n    def create(cls, d): ...\n",
    "torch._inductor.other": _SAVES
    + "class Other:\n    @classmethod\n    def create(cls, a, b): ...\n",
}
SAVE = "import torch._inductor.store\ndef save(x, f): ...\ntorch._inductor.store.save = save\n"


@pytest.mark.parametrize(
    ("caller", "severity"),
    [
        ("from torch._inductor import store\ndef run(x): store.save(x, 1, protocol=3)\n", "red"),
        ("from torch._inductor.store import save\ndef run(x): save(x, 1, protocol=3)\n", "red"),
        ("import torch\ndef run(x): torch.save(x, 1, protocol=3)\n", "note"),
    ],
)
def test_a_call_of_a_name_that_several_modules_define(caller: str, severity: str) -> None:
    torches = [toy_release("2.10.0", {**STORE, "torch._inductor.caller": caller})]
    assert _severities(torches) == [severity]
    # Without a namesake any call of the name is one of it.
    alone = {
        "torch._inductor.store": STORE["torch._inductor.store"],
        "torch._inductor.caller": caller,
    }
    assert _severities([toy_release("2.10.0", alone)]) == ["red"]


def _severities(torches: Sequence[Release]) -> list[str]:
    return [line.split()[2] for line in found(SAVE, torches) if "PG113" in line]


def test_a_class_method_replaced_by_a_function_that_is_called_on_the_class() -> None:
    called = "from torch._inductor.{0} import {1}\ndef run(d): return {1}.create({2})\n"
    patch = "from torch._inductor.store import Props\ndef create({}): ...\nProps.create = create\n"
    other = {"torch._inductor.caller": called.format("other", "Other", "d, 1")}
    props = {"torch._inductor.caller": called.format("store", "Props", "d")}
    red = [
        " red " in each
        for each in found(patch.format("d"), [toy_release("2.10.0", {**STORE, **other, **props})])
    ]
    assert red == [False]
    red = [
        " red " in each
        for each in found(patch.format("cls, d"), [toy_release("2.10.0", {**STORE, **props})])
    ]
    assert red == [True, True]


def test_what_a_package_passes_on_proves_nothing_by_a_dotted_call() -> None:
    torch = {
        "torch._inductor": "from torch._inductor.store import save\n",
        "torch._inductor.store": "def save(x, f, protocol=2): ...\n",
    }
    patch = "import torch._inductor\ndef save(x, f): ...\ntorch._inductor.save = save\n"
    dotted = {
        "torch._inductor.caller": "import torch._inductor as ind\ndef run(x): ind.store.save(x, 1, protocol=3)\n"
    }
    assert not [
        each
        for each in found(patch, [toy_release("2.10.0", {**torch, **dotted})])
        if " red " in each
    ]
    plain = {
        "torch._inductor.caller": "from torch._inductor import save\ndef run(x): save(x, 1, protocol=3)\n"
    }
    assert [
        each
        for each in found(patch, [toy_release("2.10.0", {**torch, **plain})])
        if "PG113 red" in each
    ]


@pytest.mark.parametrize(("body", "red"), [("pass", False), ("super().save()", True)])
def test_a_call_in_a_method_that_is_overridden_too(body: str, red: bool) -> None:
    tuner = "class Tuner:\n    def build(self, c, cc=None): ...\n    def save(self): self.build(1, cc=2)\n"
    patch = (
        "from torch._inductor.tuner import Tuner\nclass Mine(Tuner):\n    def build(self, c): ...\n"
    )
    old = {"torch._inductor.tuner": tuner.replace(", cc=None", "").replace(", cc=2", "")}
    torches = toy_releases({"2.10.0": old, "2.11.0": {"torch._inductor.tuner": tuner}})
    findings = found(f"{patch}    def save(self): {body}\n", torches)
    assert any(" PG113 red " in f" {each}" for each in findings) is red


HANDS_ON = "def own(f):\n    def inner(*args, **kwargs): return f({0})\n    return inner\n"


@pytest.mark.parametrize(
    ("decorator", "definition", "red"),
    [
        ("own", "from elsewhere import own", False),
        ("own(Box)", "from elsewhere import own", False),
        ("register_lowering(1)", "from elsewhere import register_lowering", True),
        ("functools.wraps(old)", "import functools", True),
        ("own", "def own(f):\n    print(f)\n    return f", True),
        ("own(1)", "def own(x):\n    def deco(f): return f\n    return deco", True),
        ("own", HANDS_ON.format("*args, **kwargs"), True),
        ("own", HANDS_ON.format("*args[:2]"), False),
        (
            "own",
            "def own(f):\n    def inner(box, users, **kw): return f(box, users)\n    return inner",
            False,
        ),
        ("own", "own = lambda f: f", False),
    ],
)
def test_what_a_decorator_may_put_in_the_functions_place(
    decorator: str, definition: str, red: bool
) -> None:
    source = (
        f"{BOX}{definition}\n@{decorator}\ndef f(self, users): return 1\nBox.should_realize = f\n"
    )
    assert ("PG113" in codes(source)) is red


@pytest.mark.parametrize(
    "assigned", ["f", "functools.cached_property(f)", "made", "functools.cache(f)"]
)
def test_the_form_is_known_however_the_wrapper_is_written(assigned: str) -> None:
    source = (
        f"{BOX}import functools\ndef f(self): ...\nmade = property(f)\nBox.first = {assigned}\n"
    )
    assert ("PG114" in codes(source)) is (assigned in ("f", "functools.cache(f)"))


METHOD = "class A:\n    def run(self, x, y=1): ...\n"
NAMESAKE = {"torch.fx.b": "class B:\n    def run(self, x, y): ...\n"}


@pytest.mark.parametrize(
    ("others", "red"),
    [
        ({"torch.fx.c": "def use(a): a.run(1, 2)"}, True),
        ({"torch.fx.c": "def use(a): a.run(1, 2)", **NAMESAKE}, False),
        ({"torch.fx.c": "from torch.fx.a import A\ndef use(a): a.run(1, 2)", **NAMESAKE}, True),
        ({"torch.fx.c": "def use(a): a.run(1, y=2)", "torch.fx.b": "class B:\n    def run(self, z): ..."}, True),
        ({"torch.fx.c": "from torch.fx.a import A\nclass D(A):\n    def use(self): self.run(1, 2)"}, True),
        ({"torch.fx.c": "from torch.fx.a import A\nclass D(A):\n    def run(self, x, y): super().run(x, y)"}, True),
        ({"torch.fx.c": "from torch.fx.a import A\nclass D(A):\n    def run(self, x, y): ...\n"
          "    def use(self): self.run(1, 2)"}, False),
    ],
)  # fmt: skip
def test_a_method_is_called_where_its_class_is_known_or_alone_takes_the_call(
    others: dict[str, str], red: bool
) -> None:
    release = toy_release("2.11.0", {"torch.fx.a": METHOD, **others})
    findings = found("from torch.fx.a import A\ndef f(self, x): ...\nA.run = f\n", (release,))
    assert [" red " in each for each in findings if "PG113" in each] == [red]


@pytest.mark.parametrize(
    ("caller", "red"), [("class Other", False), ("class Other(A)", False), ("def use(a): a", True)]
)
def test_what_a_sibling_calls_is_not_the_override(caller: str, red: bool) -> None:
    call = (
        ".run(1, 2)\n"
        if "def" in caller
        else ":\n    def use(self): self.run(1, 2)\n    def run(self, x, y): ...\n"
    )
    late = {"torch.fx.a": f"{METHOD}{caller}{call}"}
    torches = toy_releases({"2.10.0": {"torch.fx.a": METHOD.replace(", y=1", "")}, "2.11.0": late})
    findings = found(
        "from torch.fx.a import A\nclass Mine(A):\n    def run(self, x): ...\n", torches
    )
    assert any(" PG113 red " in f" {each}" for each in findings) is red


@pytest.mark.parametrize(("caller", "red"), [("torch.fx.b", True), ("torch._inductor.b", False)])
def test_an_override_of_a_class_of_fx_is_called_by_fx(caller: str, red: bool) -> None:
    old, late = METHOD.replace(", y=1", ""), {caller: "def use(a): a.run(1, 2)\n"}
    torches = toy_releases(
        {"2.10.0": {"torch.fx.a": old}, "2.11.0": {"torch.fx.a": METHOD, **late}}
    )
    findings = found(
        "from torch.fx.a import A\nclass Mine(A):\n    def run(self, x): ...\n", torches
    )
    assert any(" PG113 red " in f" {each}" for each in findings) is red


OVERRIDE = "from torch._inductor.ir import Box\nclass Mine(Box):\n    def should_realize(self, users{}): return 1\n"


@pytest.mark.parametrize("judged", [TORCHES[2:], TORCHES[1:], TORCHES])
def test_an_override_is_as_red_on_one_release_as_on_several(judged: Sequence[Release]) -> None:
    assert [each.partition(" of ")[0] for each in found(OVERRIDE.format(""), judged)] == [
        "3: PG113 red override"
    ]
    assert found(OVERRIDE.format(", *, graph_reuse=True"), judged) == []
    assert found(OVERRIDE.format(""), TORCHES[:1]) == []


def test_an_override_that_never_fitted_any_release_is_meant_so() -> None:
    assert not [
        each
        for each in found(OVERRIDE.format("").replace("users", ""), TORCHES[2:])
        if " red " in each
    ]


def test_an_override_that_fits_none_of_several_releases_of_a_project_is_meant_so(
    tmp_path: Path,
) -> None:
    """A backend that lives on these releases has its own callers; who asks for releases is told."""
    new = toy_sources(extra=", *, graph_reuse=True", passed=", graph_reuse=False")
    torches = toy_releases({"2.10.0": toy_sources(), "2.13.0": new, "2.14.0": new})
    (tmp_path / "p.py").write_text(OVERRIDE.format(""))

    def red(requirement: str, *, asked: bool = False) -> list[str]:
        (tmp_path / "requirements.txt").write_text(f"torch{requirement}\n")
        chosen = torches[1:] if asked else torches
        return [each.code for each in lint([tmp_path / "p.py"], chosen, whole=asked).findings]

    assert red(">=2.13") == []
    assert red("==2.13.0") == red(">=2.10") == red(">=2.13", asked=True) == ["PG113"]


@pytest.mark.parametrize(("value", "red"), [("Mine.wide", False), ("Mine.narrow", True)])
def test_a_class_gives_out_its_static_method_as_a_plain_function(value: str, red: bool) -> None:
    source = (
        "from torch._inductor.ir import Box\nclass Mine:\n    @staticmethod\n"
        "    def wide(self, users, graph_reuse=True): ...\n    @staticmethod\n"
        f"    def narrow(self): ...\nBox.should_realize = {value}\n"
    )
    found_codes = [each.split()[1] for each in found(source) if " red " in each]
    assert found_codes == ["PG113"] * red
