"""PG126: a function is assigned to a name that torch does not have, and neighbours that may be."""

from __future__ import annotations

from toyindex import toy_releases
from toytorch import codes, found, toy_sources


def test_missing_target() -> None:
    source = "from torch._inductor.ir import Box\ndef f(self): ...\nBox.{} = {}\n"
    assert codes(source.format("should_realise", "f")) == ["PG126"]
    assert codes(source.format("_patched", "True")) == []
    assert codes(
        source.format("helper", "f") + "Box.should_realize = lambda self, *a, **k: self.helper()\n"
    ) == ["PG122"]


def test_a_name_read_elsewhere_does_not_excuse_the_wrong_owner() -> None:
    source = (
        "from torch._inductor import graph, ir\nkept = ir.unused\ngraph.unused = lambda x: "
        "kept(x)\n"
    )
    assert codes(source) == ["PG126"]
    assert codes(source.replace("graph.unused", "ir.unused")) == ["PG119"]


def test_a_name_of_no_release_is_added_by_the_patch() -> None:
    source = "from torch._inductor.ir import Box\ndef f(self): ...\nBox.{} = f\n"
    assert found(source.format("visit_mine")) == [
        "3: PG126 note adds a new name: no indexed release has `torch._inductor.ir.Box.visit_mine` "
        "[every release]"
    ]


def test_a_name_that_another_release_has_is_red_whatever_is_assigned() -> None:
    later = toy_sources()
    later["torch._inductor.ir"] += "LIMIT = 1\ndef later(x): ...\n"
    torches = toy_releases({"2.10.0": toy_sources(), "2.11.0": later})
    for value in ("lambda x: x", "5", "wrapped(1)"):
        for name in ("LIMIT", "later"):
            told = found(f"import torch._inductor.ir as ir\nir.{name} = {value}\n", torches)
            assert [each for each in told if "PG126" in each] == [
                f"2: PG126 red target `torch._inductor.ir.{name}` missing [2.10 and before]"
            ]


def test_a_name_for_which_the_patch_asked_is_added_on_purpose() -> None:
    later = toy_sources()
    later["torch._inductor.ir"] += "def later(x): ...\n"
    torches = toy_releases({"2.10.0": toy_sources(), "2.11.0": later})
    source = "import torch._inductor.ir as ir\n{}ir.later = lambda x: x\n"
    asked = "if not hasattr(ir, 'later'):\n    "
    assert [code for code in codes(source.format(asked), torches) if code == "PG126"] == []
    assert "PG126" in codes(source.format(""), torches)


def test_a_class_that_may_answer_any_name_has_none_of_them() -> None:
    answering = toy_sources()
    answering["torch._inductor.ir"] += (
        "class Answering(Box):\n    def __getattr__(self, name): ...\n"
    )
    torches = toy_releases({"2.10.0": answering, "2.11.0": toy_sources()})
    source = "from torch._inductor.ir import Box\ndef f(self): ...\nBox.visit_mine = f\n"
    assert [each for each in found(source, torches) if "red" in each] == []
    answering["torch._inductor.ir"] += "    def visit_mine(self): ...\n"
    torches = toy_releases({"2.10.0": answering, "2.11.0": toy_sources()})
    assert [each for each in found(source, torches) if "red" in each] != []


def test_a_name_that_torch_only_imports_for_annotations_misses_nobody() -> None:
    later = toy_sources()
    later["torch._inductor.ir"] += (
        "from typing import List\nfrom torch.types import Device\ndef later(x): ...\n"
    )
    torches = toy_releases({"2.10.0": toy_sources(), "2.11.0": later})
    for name, severity in (("List", "note"), ("Device", "note"), ("later", "red")):
        lines = found(f"import torch._inductor.ir as ir\nir.{name} = ir.strides\n", torches)
        assert [each.split()[2] for each in lines if "PG126" in each] == [severity]


def test_a_name_that_is_not_what_is_assigned_is_misspelled() -> None:
    source = (
        "from torch._inductor.ir import Box\nfrom mine import other\n{}Box.should_realise = {}\n"
    )
    (told,) = found(source.format("", "other.should_realize"))
    assert "PG126 red adds a new name" in told
    defined = "def should_realise(self): ...\n"
    for neighbour in (("", "other.fast"), ("", "other()"), (defined, "should_realise")):
        assert all(" note " in each for each in found(source.format(*neighbour)))
