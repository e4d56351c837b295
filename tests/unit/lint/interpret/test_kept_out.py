"""Ways in which a patch keeps code from a release, each with a neighbour that lets it run there."""

from __future__ import annotations

from pathlib import Path

import pytest
from toytorch import TORCHES, found

from patchgate.lint.run import lint

# `torch._inductor.old` is there in 2.10 and in no later release.
_OLD = "import torch._inductor.old"
_NEW = "torch.__version__ >= '2.11'"
_HAS = "hasattr(torch._inductor.ir, 'absent')"


def red(source: str) -> list[str]:
    return [each for each in found(f"import torch\nimport torch._inductor.ir\n{source}") if " red " in each]


@pytest.mark.parametrize(
    ("source", "kept", "runs"),
    [
        (f"assert {{}}\n{_OLD}", f"not ({_NEW})", _NEW),
        (f"def f():\n    assert {{}}\n    {_OLD}", _HAS, "f"),
        (f"import sys\nif {_NEW}:\n    {{}}\n{_OLD}", "sys.exit('too new')", "print('too new')"),
        (f"import pytest\nif {_NEW}:\n    {{}}\n{_OLD}", "pytest.skip('x')", "pytest.mark('x')"),
        (f"def need(new):\n    if {{}}:\n        raise RuntimeError(new)\nneed(1)\n{_OLD}", _NEW, "new == 2"),
        (f"from elsewhere import {{0}}\ndef f():\n    {{0}}()\n    {_OLD}", "require_torch_version", "print_it"),
        (f"import unittest\n@unittest.{{}}({_NEW}, 'x')\ndef f():\n    {_OLD}", "skipIf", "skipUnless"),
        (f"import unittest\n@unittest.{{}}({_HAS}, 'x')\ndef f():\n    {_OLD}", "skipUnless", "skipIf"),
        (f"import pytest\nneeds = pytest.mark.skipif({{}})\n@needs\ndef f():\n    {_OLD}", _NEW, "1 > 2"),
        (f"from elsewhere import {{0}}\n@{{0}}('2.10')\nclass K:\n    def f(self):\n        {_OLD}", "requires_torch_version", "named"),
        (f"def only(text):\n    ok = {{}}\n    return lambda f: f if ok else None\n@only('')\ndef f():\n    {_OLD}", _NEW, "text"),
        (f"if {{}}:\n    def f():\n        {_OLD}", f"not ({_NEW})", _NEW),
        (f"table = {{{{'a': (lambda: torch._inductor.old) if {{}} else None}}}}", f"not ({_NEW})", _NEW),
        (f"class K:\n    def __init__(self):\n        self.old = {{}}\n    def f(self):\n        if self.old:\n            {_OLD}", _HAS, "f()"),
        (f"class K:\n    old = {{}}\n    def f(self):\n        if self.old:\n            {_OLD}", f"not ({_NEW})", _NEW),
        (f"class K:\n    old = {{}}\n    @classmethod\n    def f(cls):\n        if cls.old:\n            {_OLD}", f"not ({_NEW})", _NEW),
        (f"class K:\n    @property\n    def old(self):\n        return {{}}\n    def f(self):\n        if self.old:\n            {_OLD}", f"not ({_NEW})", _NEW),
        (f"class K:\n    def old(self):\n        return {{}}\n    def f(self):\n        if self.old():\n            {_OLD}", f"not ({_NEW})", "f()"),
        (f"class K:\n    def _old(self):\n        {_OLD}\n    def f(self):\n        try:\n            self.{{}}()\n        except ImportError:\n            pass", "_old", "f"),
        (f"import typing as t\nif t.TYPE_CHECKING or {{}}:\n    {_OLD}", "f", None),
        (f"from typing import TYPE_CHECKING\nif {{}} TYPE_CHECKING:\n    pass\nelse:\n    {_OLD}", "not", ""),
        (f"while {{}}:\n    {_OLD}", "False", "True"),
        (f"from torch._inductor import config\nif config.{{}}():\n    {_OLD}", "is_fbcode", "get_hash"),
        (f"match ({{}}):\n    case _:\n        {_OLD}", _NEW, "1"),
        (f"import re\nif [int(x) for x in re.findall(r'\\d+', {{}})] < [2, 11]:\n    {_OLD}", "torch.__version__", "text"),
        (f"old = any({{}}.startswith(v) for v in ['2.9', '2.10'])\nif old:\n    {_OLD}", "torch.__version__", "text"),
        (f"flags = {{{{'old': {{}}}}}}\nif flags['old']:\n    {_OLD}", f"not ({_NEW})", "f()"),
        (f"def f():\n    {_OLD}\ntable = {{{{'{{}}': f}}}}", "2.10", "ten"),
        (f"def f():\n    {_OLD}\ntable = [('{{}}', f)]", "<2.11", "ten"),
        (f"import os\nif os.environ.get('X') or {{}}:\n    {_OLD}", f"not ({_NEW})", "f()"),
        (f"import importlib.util\nif importlib.util.find_spec('torch._inductor.{{}}') is not None:\n    {_OLD}", "old", "ir"),
        (f"if 'absent' in torch._inductor.ir.{{}}:\n    {_OLD}", "__dict__", "__name__"),
    ],
)  # fmt: skip
def test_code_that_is_kept_from_a_release_is_not_red(source: str, kept: str, runs: str | None) -> None:
    assert red(source.format(kept)) == []
    if runs is not None:
        assert red(source.format(runs)) != []


def test_a_helper_with_two_arguments_leaves_the_version_known() -> None:
    helper = "def newer(a, b):\n    return a >= b\nif newer(torch.__version__, '2.10'): pass\n"
    assert red(f"{helper}if torch.__version__ < '2.11':\n    {_OLD}") == []
    assert red(f"{helper}if torch.__version__ < '2.12':\n    {_OLD}") != []


@pytest.mark.parametrize(
    ("gate", "severity"),
    [
        ("'rocm' in torch.__version__", "note"),
        ("torch.__version__.endswith('+nv25')", "note"),
        ("torch.__version__ == '2.11.0a0+git12'", "note"),
        ("torch.__version__ >= '2.15'", "note"),
        ("torch.__version__ >= '9.0'", "red"),
        ("'ten' in torch.__version__", "red"),
    ],
)
def test_a_gate_for_a_build_or_for_a_later_release_is_not_dead(gate: str, severity: str, tmp_path: Path) -> None:
    replacing = "import torch\nfrom torch._inductor.ir import Box\n"
    patch = tmp_path / "patch.py"
    patch.write_text(f"{replacing}if {gate}:\n    Box.should_realize = lambda self, *a, **k: 1\n")
    assert [each.severity.value for each in lint([patch], TORCHES).findings if each.code == "PG120"] == [severity]


def test_who_says_that_a_name_may_be_missing_is_believed() -> None:
    for flag in ("raising", "create"):
        source = f"def f(monkeypatch):\n    monkeypatch.setattr(torch._inductor.sizevars.SizeVarAllocator, 'size_hint', 1, {flag}="
        accepted, other = (False, True) if flag == "raising" else (True, False)
        assert red(f"{source}{accepted})") == []
        assert [each.split(":")[1][:6] for each in red(f"{source}{other})")] == [" PG126"]
