"""Diffs of torch's sources: what they become, what is refused, and what they do to a module in
memory.
"""

import importlib
import sys

import pytest

from patchgate.inputs.diff import parse_hunks, write_patch
from patchgate.inputs.patch import load_patch
from patchgate.model.errors import UsageError
from patchgate.probe.patch.apply_diff import DoesNotApply, apply_hunks
from patchgate.probe.process.reply import exception_failure

TOY = """\
LIMIT = 4


class Base:
    def reads(self):
        return 1


class Box(Base):
    def reads(self):
        return super().reads() + 1

    @staticmethod
    def limit():
        return LIMIT


def plain(x, y=1):
    return x + y
"""
DIFF = """\
--- a/torch/a.py
+++ b/torch/a.py
@@ -1,2 +1,2 @@
 x = 1
-y = 2
+y = 3
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    (tmp_path / "patchedtoy").mkdir()
    (tmp_path / "patchedtoy" / "__init__.py").write_text("")
    (tmp_path / "patchedtoy" / "ir.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield importlib.import_module("patchedtoy.ir")
    for name in ("patchedtoy", "patchedtoy.ir"):
        sys.modules.pop(name)


def hunk(old, new, line=1):
    return {"patchedtoy/ir.py": [(line, old.splitlines(), new.splitlines(), 3)]}


@pytest.mark.parametrize("line", [1, 10, 500])
def test_a_method_is_replaced_wherever_its_lines_are(toy, line):
    apply_hunks(
        hunk("        return super().reads() + 1", "        return super().reads() + 5", line),
        "p.diff",
    )
    assert toy.Box().reads() == 6


def test_functions_keep_their_form_and_gain_arguments(toy):
    apply_hunks(hunk("        return LIMIT", "        return LIMIT + 1"), "p.diff")
    apply_hunks(
        hunk(
            "def plain(x, y=1):\n    return x + y",
            "def plain(x, y=1, *, z=2):\n    return x + y + z",
        ),
        "p.diff",
    )
    assert (toy.Box.limit(), toy.plain(1)) == (5, 4)


def test_two_hunks_of_a_file_are_placed_one_after_the_other(toy):
    first = (
        5,
        ["    def reads(self):", "        return 1"],
        ["    def reads(self):", "", "        return 2"],
        3,
    )
    last = (18, ["    return x + y"], ["    return x - y"], 8)
    apply_hunks({"patchedtoy/ir.py": [first, last]}, "p.diff")
    assert (toy.Box().reads(), toy.plain(3)) == (3, 2)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("    return x * y", "    return x", "does not apply"),
        ("LIMIT = 4", "LIMIT = 5", "more than functions"),
        ("class Box(Base):", "class Box:", "more than functions"),
        ("    return x + y", "    return x +", "no Python any more"),
        ("def plain(x, y=1):\n    return x + y", "", "more than functions"),
    ],
)
def test_what_cannot_be_taken_over_exactly_is_refused_and_nothing_is_changed(toy, old, new, told):
    with pytest.raises(DoesNotApply, match=told) as error:
        apply_hunks(hunk("    return x + y", "    return 0") | hunk(old, new), "p.diff")
    assert (toy.plain(1), toy.LIMIT, toy.Box.__bases__) == (2, 4, (toy.Base,))
    assert exception_failure(error.value, "/tmp/made/from/patch.py")["where"] == "p.diff:3"


def test_a_diff_is_loaded_as_a_patch_that_applies_where_it_claims_to(tmp_path):
    (tmp_path / "p.diff").write_text(DIFF)
    (tmp_path / "p.toml").write_text('title = "p"\napplies_to = "<2.13"\n')
    patch = load_patch(tmp_path / "p.diff")
    assert (patch.id, patch.claims.applies_to) == ("p", "<2.13")
    assert "{'torch/a.py'" not in patch.source
    assert "'torch/a.py': [(1, ['x = 1', 'y = 2'], ['x = 1', 'y = 3'], 3)]" in patch.source
    assert "SpecifierSet('<2.13')" in patch.source
    assert write_patch(tmp_path / "p.diff", "<2.13") == write_patch(tmp_path / "p.diff", "<2.13")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hello\n", "not a diff"),
        ("@@ -1,2 +1,2 @@\n x\n", "not a diff"),
        (DIFF.replace("torch/a.py", "numpy/a.py"), "only Python sources of torch"),
        (DIFF.replace("torch/a.py", "torch/a.cpp"), "only Python sources of torch"),
        (
            DIFF.replace("--- a/torch/a.py", "--- /dev/null")
            .replace("-1,2", "-0,0")
            .replace(" x = 1\n-y = 2", "+x = 1"),
            "adds or removes",
        ),
    ],
)
def test_what_is_no_diff_of_torch_is_refused(text, told):
    with pytest.raises(UsageError, match=told):
        parse_hunks(text, "p.diff")
