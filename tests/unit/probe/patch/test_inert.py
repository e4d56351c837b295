"""What proves that running a patch did nothing, and what leaves a doubt."""

import contextlib
import importlib
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from patchgate.probe.patch.inert import Doubts

TORCH = {
    "__init__": "",
    "ir": "class StorageBox:\n    pass\n\nclass Pointwise:\n    pass\n",
    "lowering": "lowerings = {}\n\ndef register_lowering(*args):\n    return lambda function: function\n",
    "virtualized": "V = None\n",
    "config": "import os\nfrom os import environ\npatch = get = None\n",
    "mkldnn_ir": "",
}

GATED_OUT = {
    "a version": "import torch\nfrom packaging.version import Version\n"
    "OLD = Version(torch.__version__) < Version('2')\n",
    "parts of a string": "import torch\nparts = torch.__version__.split('+')[0]\nold = parts.startswith('1.')\n",
    "a specifier": "import torch\nfrom packaging.specifiers import SpecifierSet\n"
    "fits = SpecifierSet('<2').contains(torch.__version__)\n",
    "a name that may be missing": "from torch._inductor import ir\nis_there = hasattr(ir.StorageBox, 'num_reads')\n",
    "an import that may fail": "try:\n    from torch._inductor import ir\nexcept ImportError:\n    ir = None\n",
    "a logger": "import logging\nlogger = logging.getLogger(__name__)\nlogger.debug('not here: %s', 1)\n",
    "its own function": "def is_old(text):\n    return int(text.split('.')[0]) < 2\n\nold = is_old('2.11')\n",
    "counting": "n = 0\nnames = []\nfor x in (1, 2):\n    n += x\n    names += [x]\n",
    "an exception that is shown": "try:\n    import nowhere\nexcept ImportError as e:\n    print(e, e.name)\n",
    "a mark that it looks for": "def f(): pass\nis_mine = getattr(f, '_mine', False)\n",
    "a class": "class Cost:\n    limit: int = 4\n",
    "a decorated function": "import functools\n@functools.lru_cache(maxsize=None)\ndef f():\n    return 1\n",
}
ACTING = {
    "sets an attribute": "from torch._inductor import ir\nir.x = 1\n",
    "sets an item": "from torch._inductor import lowering\nlowering.lowerings['x'] = 1\n",
    "deletes": "from torch._inductor import ir\ndel ir.StorageBox\n",
    "calls what it imports": "from torch._inductor.virtualized import V\nV.set_choices_handler(None)\n",
    "calls a builtin": "from torch._inductor import ir\nsetattr(ir, 'x', 1)\n",
    "hands a builtin on": "each = tuple(zip([setattr], [1]))\n",
    "hides a builtin": "f = exec\n",
    "calls a result": "def f():\n    return f\n\nf()()\n",
    "calls a method of torch": "from torch._inductor import config\nconfig.get('x')\n",
    "a decorator of torch's": "from torch._inductor.lowering import register_lowering\n"
    "@register_lowering(1)\ndef f(): pass\n",
    "a base class": "from torch._inductor.ir import Pointwise\nclass Mine(Pointwise):\n    x = 1\n",
    "a metaclass": "import abc\nclass Mine(metaclass=abc.ABCMeta):\n    x = 1\n",
    "a context": "from torch._inductor import config\nwith config.patch(x=1):\n    pass\n",
    "what processes read differently": "import torch\nsimulated = torch.cuda.is_available\n",
    "the environment": "import os\nwanted = os.environ\n",
    "the process": "import sys\njudged = 'patchgate' in sys.modules\n",
    "a module by another name": "import sys\njudged = getattr(sys, 'modules')\n",
    "a name with two meanings": "from re import match as call\n"
    "from torch._inductor.config import patch as call\ncall(1)\n",
    "the project's own module": "from . import helpers\n",
    "every name": "from torch._inductor.ir import *\n",
    "the frames of an exception": "try:\n    raise ValueError\nexcept ValueError as e:\n    g = e.__traceback__\n",
    "a frame by its name": "g = getattr((x for x in ()), 'gi_frame')\n",
    "the object of an exception": "try:\n    [].x\nexcept AttributeError as e:\n    g = e.obj\n",
    "the globals of a function": "def f(): pass\ng = f.__globals__\n",
    "an operator of its own": "from torch._inductor import lowering\nclass Mine:\n    def __eq__(self, other):\n"
    "        other |= {'x': 1}\n        return True\n\nx = Mine() == lowering.lowerings\n",
    "a list of Python's": "import logging\nh = logging.getLogger().handlers\nh += [1]\n",
    "what is collected later": "class Mine:\n    def __del__(self): pass\n",
    "what is looked up later": "def __getattr__(name): pass\n",
    "a handler in doubt": "import torch\ntry:\n    x = [][1]\nexcept torch.OutOfMemoryError:\n    pass\n"
    "except Exception:\n    pass\n",
    "another encoding": "# coding: utf-7\n# +AAo-import torch\n# +AAo-torch.x +AD0 1\n",
    "the limit of recursion": "class Mine:\n    def __repr__(self):\n        import torch\n        torch.x = 1\n\n"
    "x = Mine()\nfor i in range(5000):\n    x = [x]\n"
    "    try:\n        y = repr(x)\n    except Exception:\n        pass\n",
    "a generator": "def f():\n    yield 1\n\nx = list(f())\n",
}


def doubt(tmp_path: Path, source: str, *installers: str) -> str:
    """Why the file was not run to its end, in a process that ends there; empty where it was."""
    path = tmp_path / "patch.py"
    path.write_bytes(source.encode())
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:

        def stop(text: str) -> NoReturn:
            os.write(writing, text.encode())
            os._exit(0)

        try:
            doubts = Doubts(str(path), stop, installers)
            with contextlib.suppress(Exception):
                doubts.run(types.ModuleType("patch"))
            if doubts.text:
                stop(doubts.text)
        finally:
            stop("changed" if hasattr(sys.modules["torch"], "x") else "ended")
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return "" if answer == "ended" else answer


@pytest.fixture(autouse=True)
def toy_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules of torch's names, all of them loaded but one."""
    package = tmp_path / "path" / "torch" / "_inductor"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("__version__ = '2.11.0'\n")
    for name, text in TORCH.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "path"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    for name in TORCH.keys() - {"mkldnn_ir"}:
        importlib.import_module("torch._inductor" if name == "__init__" else f"torch._inductor.{name}")
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        del sys.modules[name]


@pytest.mark.parametrize("source", GATED_OUT.values(), ids=GATED_OUT)
def test_what_only_defines_and_compares_does_nothing(tmp_path: Path, source: str) -> None:
    assert doubt(tmp_path, source) == ""


@pytest.mark.parametrize("source", ACTING.values(), ids=ACTING)
def test_anything_else_is_stopped_before_it_runs(tmp_path: Path, source: str) -> None:
    assert doubt(tmp_path, source).startswith("line ")


@pytest.mark.parametrize(
    ("source", "call", "is_certain"),
    [
        ("def install(x=1): pass\n", "install(True)", True),
        ("from torch import set_flush_denormal as install\n", "install(True)", False),
        ("import torch\n", "torch.set_flush_denormal(True)", False),
        ("x = 1\n", "torch:set_flush_denormal(True)", False),
        ("def install(): pass\ninstall = 1\n", "install()", False),
    ],
)
def test_what_the_manifest_calls_is_a_function_of_the_file(
    tmp_path: Path, source: str, call: str, is_certain: bool
) -> None:
    vars(sys.modules["torch"])["set_flush_denormal"] = len
    assert (doubt(tmp_path, source, call) == "") is is_certain


def test_the_first_statement_in_doubt_is_named(tmp_path: Path) -> None:
    assert doubt(tmp_path, ACTING["calls what it imports"]) == "line 2: calls V.set_choices_handler"


@pytest.mark.parametrize(("condition", "is_certain"), [("__name__ == 'x'", True), ("__name__ == 'patch'", False)])
def test_what_does_not_run_does_not_count(tmp_path: Path, condition: str, is_certain: bool) -> None:
    source = f"from torch._inductor import ir\nif {condition}:\n    ir.x = 1\n"
    assert (doubt(tmp_path, source) == "") is is_certain


@pytest.mark.parametrize(
    "trick",
    [
        "import sys\nsys.settrace(None)\n",
        "try:\n    import sys\n    sys.settrace(None)\nexcept BaseException:\n    pass\n",
        "class Trick:\n    def __getitem__(self, key):\n        import sys\n        sys.settrace(None)\n\n"
        "x = Trick()[0]\n",
        "def untraced(item):\n    raise KeyError(__import__('sys').settrace(None))\n\n"
        "try:\n    x = sorted([1], key=untraced)\nexcept KeyError:\n    pass\n",
    ],
)
def test_the_trace_cannot_be_ended_by_what_is_traced(tmp_path: Path, trick: str) -> None:
    assert doubt(tmp_path, f"{trick}import torch\ntorch.x = 1\n").startswith("line ")


@pytest.mark.parametrize(
    ("statement", "is_certain"),
    [
        ("import json.tool", True),
        ("import packaging.tags", True),
        ("import torch._inductor.ir", True),
        ("import torch._inductor.mkldnn_ir", False),
        ("from torch._inductor import mkldnn_ir", False),
        ("from torch._inductor import ir, nothing_like_it", True),
        ("import pytest_plugin_of_nobody", True),
        ("import pip", False),
    ],
)
def test_a_module_that_nothing_has_imported_may_register_something(
    tmp_path: Path, statement: str, is_certain: bool
) -> None:
    source = f"try:\n    {statement}\nexcept ImportError:\n    pass\n"
    assert (doubt(tmp_path, source) == "") is is_certain


TRICKS = {
    "a module's own imports": "import re\nre.enum.sys.settrace(None)\n",
    "two imports of a name": "import sys as m\nm.settrace(None)\nimport re as m\n",
    "text that typing evaluates": "import typing\ndef f(x: '1 / 0'):\n    pass\n\ntyping.get_type_hints(f)\n",
    "a function that max calls": "from torch._inductor import lowering\nx = max([1], key=lowering.register_lowering)\n",
    "one that it calls under another name": "from torch._inductor import lowering\nf = lowering.register_lowering\n"
    "x = max([1], key=f)\n",
    "one that its own function returns": "from torch._inductor import lowering\ndef f():\n"
    "    return lowering.register_lowering\n\nx = sorted([1], key=f())\n",
    "code that wraps swaps": "import functools\nfrom torch._inductor.lowering import register_lowering\n"
    "def f():\n    pass\n\n"
    "x = max([register_lowering], key=functools.wraps(f, assigned=('__code__',)))\n",
    "an operator of a class": "from torch._inductor.lowering import register_lowering\nclass A:\n"
    "    __add__ = register_lowering\n\nx = A() + 1\n",
    "an operator that is imported": "class A:\n"
    "    from torch._inductor.lowering import register_lowering as __add__\n\nx = A() + 1\n",
    "a table that is added to": "from torch._inductor.lowering import lowerings\nlowerings |= {1: 2}\n",
    "a module that others have loaded": "import torch._inductor\nis_loaded = hasattr(torch._inductor, 'ir')\n",
    "a name in such a module": "import torch._inductor\nbox = torch._inductor.ir.StorageBox\n",
    "a module in torch's": "from torch._inductor import config\nis_judged = 'x' in config.os.environ\n",
    "a table in torch's": "from torch._inductor import config\nis_judged = 'x' in config.environ\n",
}


@pytest.mark.parametrize("source", TRICKS.values(), ids=TRICKS)
def test_a_way_around_the_list_of_what_is_harmless_is_closed(tmp_path: Path, source: str) -> None:
    assert doubt(tmp_path, source).startswith("line ")


HONEST = {
    "an original that is saved": "from torch._inductor import ir\noriginal = ir.StorageBox\n",
    "a name that is asked for": "from torch._inductor import ir\nis_there = hasattr(ir.StorageBox, 'realize')\n",
    "a wrapper that is defined": "import functools\nfrom torch._inductor import lowering\n"
    "original = lowering.register_lowering\n@functools.wraps(original)\ndef mine(*args):\n    return original(*args)\n",
    "versions in order": "newest = max(['2.9', '2.10'], key=len)\nparts = sorted(newest.split('.'), key=int)\n",
}


@pytest.mark.parametrize("source", HONEST.values(), ids=HONEST)
def test_what_reads_torch_and_does_nothing_with_it_does_nothing(tmp_path: Path, source: str) -> None:
    assert doubt(tmp_path, source) == ""
