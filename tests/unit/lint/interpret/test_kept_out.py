"""Ways in which a patch keeps code from a release, each with a neighbour that lets it run there."""

from __future__ import annotations

from pathlib import Path

import pytest
from toytorch import TORCHES, found

from patchgate.lint.run import lint

# OLD is there in 2.10 and in no later release. Of each case the first line has what stands for HERE
# so that OLD is kept from these, and what stands for it so that OLD runs there (none: nothing
# does).
_WORDS = {
    "OLD": "import torch._inductor.old",
    "NEW": "torch.__version__ >= '2.11'",
    "HAS": "hasattr(torch._inductor.ir, 'absent')",
}
_CASES = """
not (NEW) | NEW
assert HERE
OLD

HAS | f
def f():
    assert HERE
    OLD

sys.exit('too new') | print('too new')
import sys
if NEW:
    HERE
OLD

pytest.skip('x') | pytest.mark('x')
import pytest
if NEW:
    HERE
OLD

NEW | new == 2
def need(new):
    if HERE:
        raise RuntimeError(new)
need(1)
OLD

require_torch_version | print_it
from elsewhere import HERE
def f():
    HERE()
    OLD

hasattr(torch, '_npu') | hasattr(torch, 'npu')
if HERE:
    OLD

f | cls.forward
import inspect
def g(cls, f):
    if 'a' not in inspect.signature(HERE).parameters:
        raise ValueError
    OLD

torch.__version__ | '2.7'
import re
def release(version=HERE) -> tuple[int, ...]:
    found = re.search('(.)[.](.)', version)
    return tuple(int(found.group(each)) for each in (1, 2))
if release() < (2, 11):
    OLD

max_torch='2.10' | max_torch=Ellipsis
from helpers import RunIf
@RunIf(HERE)
def f():
    OLD

min_torch_version='>=2.7' | reason='2.7'
from helpers import RunIf
@RunIf(HERE)
def f():
    OLD

skipIf | skipUnless
import unittest
@unittest.HERE(NEW, 'x')
def f():
    OLD

skipUnless | skipIf
import unittest
@unittest.HERE(HAS, 'x')
def f():
    OLD

NEW | 1 > 2
import pytest
needs = pytest.mark.skipif(HERE)
@needs
def f():
    OLD

requires_torch_version | named
from elsewhere import HERE
@HERE('2.10')
class K:
    def f(self):
        OLD

NEW | text
def only(text):
    ok = HERE
    return lambda f: f if ok else None
@only('')
def f():
    OLD

not (NEW) | NEW
if HERE:
    def f():
        OLD

not (NEW) | NEW
table = {'a': (lambda: torch._inductor.old) if HERE else None}

HAS | f()
class K:
    def __init__(self):
        self.old = HERE
    def f(self):
        if self.old:
            OLD

not (NEW) | NEW
class K:
    old = HERE
    def f(self):
        if self.old:
            OLD

not (NEW) | NEW
class K:
    old = HERE
    @classmethod
    def f(cls):
        if cls.old:
            OLD

not (NEW) | NEW
class K:
    @property
    def old(self):
        return HERE
    def f(self):
        if self.old:
            OLD

not (NEW) | f()
class K:
    def old(self):
        return HERE
    def f(self):
        if self.old():
            OLD

_old | f
class K:
    def _old(self):
        OLD
    def f(self):
        try:
            self.HERE()
        except ImportError:
            pass

f | none
import typing as t
if t.TYPE_CHECKING or HERE:
    OLD

not TYPE_CHECKING | TYPE_CHECKING
from typing import TYPE_CHECKING
if HERE:
    pass
else:
    OLD

False | True
while HERE:
    OLD

is_fbcode | get_hash
from torch._inductor import config
if config.HERE():
    OLD

NEW | 1
match (HERE):
    case _:
        OLD

torch.__version__ | text
import re
if [int(x) for x in re.findall('.', HERE)] < [2, 11]:
    OLD

torch.__version__ | text
old = any(HERE.startswith(v) for v in ['2.9', '2.10'])
if old:
    OLD

not (NEW) | f()
flags = {'old': HERE}
if flags['old']:
    OLD

2.10 | ten
def f():
    OLD
table = {'HERE': f}

<2.11 | ten
def f():
    OLD
table = [('HERE', f)]

not (NEW) | f()
import os
if os.environ.get('X') or HERE:
    OLD

old | ir
import importlib.util
if importlib.util.find_spec('torch._inductor.HERE') is not None:
    OLD

None | none
from torch._inductor import config
def f():
    for name in ('some.option',):
        entry = getattr(config, '_config', {}).get(name)
        if entry is HERE:
            raise RuntimeError(name)
    OLD

not (NEW) | NEW
for each in (1, 2):
    if not (HERE):
        raise RuntimeError(each)
OLD

_config | threshold
from torch._inductor import config
if 'old_option' in config.HERE:
    OLD

to_dict() | threshold
from torch._inductor import config
if 'old_option' in config.HERE:
    OLD

__dict__ | __name__
if 'absent' in torch._inductor.ir.HERE:
    OLD
"""


def red(source: str) -> list[str]:
    return [
        each
        for each in found(f"import torch\nimport torch._inductor.ir\n{source}")
        if " red " in each
    ]


@pytest.mark.parametrize("case", _CASES.strip().split("\n\n"))
def test_code_that_is_kept_from_a_release_is_not_red(case: str) -> None:
    first, source = case.split("\n", 1)
    kept, runs = first.split(" | ")
    for stands_for, is_red in ((kept, False), (runs, True)):
        text = source.replace("HERE", stands_for)
        for word, meaning in _WORDS.items():
            text = text.replace(word, meaning)
        assert bool(red(text)) is is_red or stands_for == "none"


def test_a_helper_with_two_arguments_leaves_the_version_known() -> None:
    helper = "def newer(a, b):\n    return a >= b\nif newer(torch.__version__, '2.10'): pass\n"
    gated = helper + "if torch.__version__ < '{}':\n    import torch._inductor.old\n"
    assert red(gated.format("2.11")) == []
    assert red(gated.format("2.12")) != []


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
def test_a_gate_for_a_build_or_for_a_later_release_is_not_dead(
    gate: str, severity: str, tmp_path: Path
) -> None:
    replacing = "import torch\nfrom torch._inductor.ir import Box\n"
    patch = tmp_path / "patch.py"
    patch.write_text(f"{replacing}if {gate}:\n    Box.should_realize = lambda self, *a, **k: 1\n")
    assert [
        each.severity.value for each in lint([patch], TORCHES).findings if each.code == "PG120"
    ] == [severity]


def test_who_says_that_a_name_may_be_missing_is_believed() -> None:
    patched = (
        "monkeypatch.setattr(torch._inductor.sizevars.SizeVarAllocator, 'size_hint', 1, {}={})"
    )
    for flag, accepted in (("raising", False), ("create", True)):
        assert red(patched.format(flag, accepted)) == []
        assert [each.split(":")[1][:6] for each in red(patched.format(flag, not accepted))] == [
            " PG126"
        ]
