"""A patch is read as Python reads it: the same text where Python runs it, and refused where Python
refuses it.
"""

import ast
import codecs
import py_compile

import pytest

from patchgate.inputs.patch import load_patch
from patchgate.inputs.patch_source import (
    Unreadable,
    line_of_change,
    mentioned_operators,
    parse,
    read_lossy,
    read_source,
)
from patchgate.model.errors import UsageError

TEXT = "# a comment\nname = 'gr\u00fc\u00df'\n"
CODED = f"# -*- coding: latin-1 -*-\n{TEXT}"
READ = {
    "utf-8": TEXT.encode(),
    "byte-order-mark": codecs.BOM_UTF8 + TEXT.encode(),
    "coding-line": CODED.encode("latin-1"),
    "windows-lines": TEXT.replace("\n", "\r\n").encode(),
    "empty": b"",
}
REFUSED = {
    "latin-1-without-a-coding-line": (TEXT.encode("latin-1"), 2, "can't decode byte 0xfc"),
    "unknown-coding": (b"# coding: no-such\nx = 1\n", 1, "unknown encoding"),
    "utf-16": (TEXT.encode("utf-16"), 1, "can't decode byte 0xff"),
    "codec-of-no-text": (b"# coding: rot13\nx = 1\n", 1, "not a text encoding"),
    "codec-that-refuses": (b"# coding: undefined\nx = 1\n", 1, "undefined encoding"),
    "nul": (b"x = 1\n\0\n", 1, "null bytes"),
}


@pytest.mark.parametrize("data", READ.values(), ids=READ)
def test_what_python_runs_is_read_as_python_reads_it(folder, data):
    (folder / "patch.py").write_bytes(data)
    text = read_source(folder / "patch.py")
    assert ast.dump(parse(text)) == ast.dump(ast.parse(data))
    assert "\r" not in text and not text.startswith("\ufeff")
    assert load_patch(folder / "patch.py").source == text


@pytest.mark.parametrize(("data", "line", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_python_refuses_is_unreadable(folder, data, line, reason):
    path = folder / "patch.py"
    path.write_bytes(data)
    with pytest.raises(py_compile.PyCompileError):
        py_compile.compile(str(path), cfile=str(folder / "x"), doraise=True)
    with pytest.raises(Unreadable) as error:
        parse(read_source(path))
    assert error.value.line == line
    assert reason in error.value.reason
    assert load_patch(path).source == read_lossy(path)  # that it does not run is a verdict


def test_a_diff_has_no_coding_line(folder):
    (folder / "patch.diff").write_bytes(b"# coding: no-such\n\xff\n")
    assert read_source(folder / "patch.diff") == "# coding: no-such\n\ufffd\n"


def test_a_file_that_cannot_be_read_is_reported_with_its_path(folder):
    with pytest.raises(UsageError, match=r"gone\.py: cannot be read"):
        read_source(folder / "gone.py")


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import torch.nn.functional as F\nF.gelu", ["torch.nn.functional.gelu"]),
        ("from torch.nn import functional\nX = (functional.gelu,)", ["torch.nn.functional.gelu"]),
        ("import torch\naten = torch.ops.aten\naten.mm.default", ["torch.ops.aten.mm.default"]),
        ("import operator\noperator.add", ["operator.add"]),
        ("import math\nmath.sqrt", []),
        ("node.target == 'view'", ["torch.Tensor.view"]),
        ("node.target == 'a view'", []),
        ("def f(x):\n    return x.softmax(-1)", ["torch.Tensor.softmax"]),
    ],
)
def test_operators_that_a_source_mentions(source, names):
    assert set(names) <= {*mentioned_operators(parse(source))}
    assert bool(names) is bool(mentioned_operators(parse(source)))


_HEAD = '"""A sentence."""\nimport torch\nfrom torch._inductor import config, decomposition\n'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("aten = torch.ops.aten\ndecomposition.decompositions[aten.gelu.default] = print\n", 5),
        ("def install():\n    config.post_grad_custom_post_pass = print\n", 5),
        ("mine = decomposition.decompositions\nmine[1] = print\n", 5),
        ('x = 1\nsetattr(config, "joint_custom_pre_pass", print)\n', 5),
        # An assignment tells more than a call.
        ("torch.manual_seed(0)\n\nconfig.debug = True\n", 6),
        ("x = 1\n@decomposition.register_decomposition(1)\ndef mine(x):\n    return x\n", 5),
        ("x = 1\ndecomposition.register_decomposition(1)(print)\n", 5),
        # Its own tensor is nothing of torch.
        ("x = torch.ones(2)\nx[0] = 2\nx.mine = 1\nprint(x)\n", 1),
        ("def broken(:\n", 1),
        ("", 1),
    ],
)
def test_the_place_of_a_patch_is_the_line_that_first_changes_torch(text, line):
    assert line_of_change(f"{_HEAD}{text}") == line
