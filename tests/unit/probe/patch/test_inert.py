"""What proves that running a patch did nothing, and what leaves a doubt."""

from pathlib import Path

import pytest

from patchgate.probe.patch.inert import first_doubt

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
    "a generator": "def f():\n    yield 1\n\nx = list(f())\n",
}


def doubt(tmp_path: Path, source: str, skipped: set[int] | None = None, new_modules: set[str] | None = None) -> str:
    """Every line of the file counts as run, but for those `skipped`."""
    path = tmp_path / "patch.py"
    path.write_text(source)
    lines = set(range(1, source.count("\n") + 1)) - (skipped or set())
    return first_doubt(str(path), lines, new_modules or set())


@pytest.mark.parametrize("source", GATED_OUT.values(), ids=GATED_OUT)
def test_what_only_defines_and_compares_did_nothing(tmp_path: Path, source: str) -> None:
    assert doubt(tmp_path, source) == ""


@pytest.mark.parametrize("source", ACTING.values(), ids=ACTING)
def test_anything_else_is_in_doubt(tmp_path: Path, source: str) -> None:
    assert doubt(tmp_path, source)


def test_the_first_statement_in_doubt_is_named(tmp_path: Path) -> None:
    assert doubt(tmp_path, ACTING["calls what it imports"]) == "line 2: calls V.set_choices_handler"


@pytest.mark.parametrize(("skipped", "is_certain"), [({3}, True), (set(), False)])
def test_what_did_not_run_does_not_count(tmp_path: Path, skipped: set[int], is_certain: bool) -> None:
    source = "from torch._inductor import ir\nif __name__ == 'x':\n    ir.x = 1\n"
    assert (doubt(tmp_path, source, skipped) == "") is is_certain


@pytest.mark.parametrize(
    ("module", "is_certain"), [("json", True), ("packaging.tags", True), ("torch._inductor.mkldnn_ir", False)]
)
def test_a_module_that_nothing_had_imported_may_register_something(
    tmp_path: Path, module: str, is_certain: bool
) -> None:
    assert (doubt(tmp_path, "x = 1\n", new_modules={module}) == "") is is_certain
