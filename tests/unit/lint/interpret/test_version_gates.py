"""Version checks are worth in each release what Python would make of them."""

from __future__ import annotations

import ast

import pytest
from toyindex import toy_releases
from toytorch import codes, found

from patchgate.lint.interpret.statements import interpret

RELEASES = toy_releases({version: {} for version in ("2.9.1", "2.10.0", "2.11.0", "2.12.1")})
HEAD = """
import torch, importlib.metadata
from packaging import version
from packaging.version import Version, parse
from packaging.specifiers import SpecifierSet
from torch.torch_version import TorchVersion
from somewhere import is_torch_equal, is_torch_equal_or_newer
TORCH = Version(torch.__version__)
def is_211():
    return Version(torch.__version__).release[:2] == (2, 11)
def at_least(text):
    return parse(torch.__version__) >= parse(text)
"""


def holds_in(test: str) -> dict[str, bool | None]:
    tree = ast.parse(f"{HEAD}\nif {test}:\n    pass\n")
    return {torch.version: interpret(tree, torch).gates[-1].holds for torch in RELEASES}


@pytest.mark.parametrize(
    ("test", "releases"),
    [
        ('Version(torch.__version__).public == "2.11.0"', ["2.11.0"]),
        ('Version(torch.__version__).base_version == "2.11.0"', ["2.11.0"]),
        ('TORCH >= Version("2.11")', ["2.11.0", "2.12.1"]),
        ('torch.__version__ >= "2.10"', ["2.10.0", "2.11.0", "2.12.1"]),
        ("torch.__version__ >= (2, 11)", ["2.11.0", "2.12.1"]),
        ('version.parse("2.10") <= TORCH < version.parse("2.12")', ["2.10.0", "2.11.0"]),
        (
            'tuple(int(p) for p in torch.__version__.split(".")[:2]) >= (2, 11)',
            ["2.11.0", "2.12.1"],
        ),
        ('tuple(map(int, torch.__version__.split(".")[:2])) == (2, 10)', ["2.10.0"]),
        ('torch.__version__.startswith("2.11")', ["2.11.0"]),
        ('TORCH in SpecifierSet("~=2.11")', ["2.11.0", "2.12.1"]),
        ('SpecifierSet("<2.11").contains(str(TORCH.public))', ["2.9.1", "2.10.0"]),
        ("TORCH.minor == 11 and TORCH.major == 2", ["2.11.0"]),
        ('is_torch_equal("2.11.0")', ["2.11.0"]),
        ('not is_torch_equal_or_newer("2.11.0")', ["2.9.1", "2.10.0"]),
        ("is_211()", ["2.11.0"]),
        ('at_least("2.11")', ["2.11.0", "2.12.1"]),
        ('Version(importlib.metadata.version("torch")).release >= (2, 12)', ["2.12.1"]),
        (
            'Version(importlib.metadata.distribution("torch").version).release >= (2, 12)',
            ["2.12.1"],
        ),
        ('TorchVersion(torch.__version__) > "2.11.5"', ["2.12.1"]),
        ('torch.torch_version.__version__ > "2.11.5"', ["2.12.1"]),
        ('torch.version.__version__ > "2.9"', ["2.9.1"]),  # texts, and "2.1" comes before "2.9"
    ],
)
def test_a_gate_holds_in_exactly_these_releases(test: str, releases: list[str]) -> None:
    assert [version for version, truth in holds_in(test).items() if truth] == releases


def test_helpers_known_by_name_have_traps_too() -> None:
    helper = (
        "from somewhere import is_torch_equal_or_newer, is_torch_version\nimport torch\nif "
        "{}: pass\n"
    )
    assert codes(helper.format("is_torch_equal_or_newer('2.11.0')")) == ["PG125"]
    assert codes(helper.format("is_torch_equal_or_newer('2.11.0.dev0')")) == []
    assert codes(helper.format("is_torch_version('<', '2.11.0')")) == ["PG125"]
    assert codes(helper.format("is_torch_version('<=', '2.11.0')")) == ["PG124"]
    assert codes(helper.format("is_torch_version('<', '2.11.0', base=True)")) == []


def test_equality_with_a_local_version_is_not_decided_but_reported() -> None:
    assert holds_in('TORCH == Version("2.11.0")')["2.11.0"] is None
    gate = (
        "import torch\nfrom packaging.version import Version\nif Version(torch.__version__){}: "
        "pass\n"
    )
    assert codes(gate.format(' == Version("2.11.0")')) == ["PG124"]
    assert codes(gate.format('.public == "2.11.0"')) == []


@pytest.mark.parametrize(
    "test", ["unknown()", "torch.cuda.is_available()", 'Version("x")', "1 / 0 > TORCH", "TORCH[0]"]
)
def test_what_cannot_be_known_is_no_gate(test: str) -> None:
    tree = ast.parse(f"{HEAD}\nif {test}:\n    pass\n")
    assert all(interpret(tree, torch).gates == [] for torch in RELEASES)


@pytest.mark.parametrize("callee", ["[1]", "(1, [2])", '{"a": [1]}["a"]'])
def test_a_call_of_what_is_no_function_is_not_known(callee: str) -> None:
    tree = ast.parse(
        f'{HEAD}\nnothing = {callee}("a")\nif nothing:\n    pass\nif TORCH >= Version("2.11"):\n   '
        " pass\n"
    )
    assert [gate.holds for gate in interpret(tree, RELEASES[0]).gates] == [False]


@pytest.mark.parametrize(
    "body",
    [
        "    try:\n        import torch\n        return {}\n    except Exception as error:\n       "
        " return False",
        "    major, minor = torch.__version__.split('.')[:2]\n    return int(major) == 2 and "
        "int(minor) < 11",
        "    major, minor, *rest = map(int, torch.__version__.split('.')[:2])\n    return minor < "
        "11",
        "    *rest, minor, micro = torch.__version__.split('+')[0].split('.')\n    return "
        "int(minor) < 11",
    ],
)
def test_a_function_that_compares_in_a_try_or_by_parts(body: str) -> None:
    gate = (
        f"import torch\ndef is_old():\n{body.format('torch.__version__ < (2, 11)')}\nif "
        "is_old(): pass\n"
    )
    assert _holding(gate) == ["2.9.1", "2.10.0"]


def test_a_function_whose_try_may_end_otherwise_decides_nothing() -> None:
    body = (
        "    try:\n        return unknown(torch.__version__)\n    except Exception:\n        "
        "return False"
    )
    assert _holding(f"import torch\ndef is_old():\n{body}\nif is_old(): pass\n") == []
    unpacked = "major, minor = unknown(torch.__version__)\n"
    assert _holding(f"import torch\n{unpacked}if minor == 10: pass\n") == []


def _holding(source: str) -> list[str]:
    tree = ast.parse(source)
    return [
        torch.version
        for torch in RELEASES
        if any(gate.holds for gate in interpret(tree, torch).gates)
    ]


def test_a_try_that_leaves_either_way_ends_the_function() -> None:
    source = (
        "import torch\nfrom torch._inductor import sizevars\ndef install():\n    if "
        "torch.__version__ < (2, 11):\n{}"
    )
    source += "    sizevars.SizeVarAllocator.optimization_hint\ninstall()\n"
    left = "        try:\n            return print()\n        except ImportError:\n            {}\n"
    assert [
        each for each in found(source.format(left.format("return None"))) if "red" in each
    ] == []
    assert [
        each
        for each in found(source.format(left.replace("ImportError", "OSError").format("pass")))
        if "red" in each
    ]


def test_after_a_failed_import_whose_handler_leaves_nothing_runs() -> None:
    source = "from torch._inductor import sizevars\ndef install():\n    try:\n"
    source += (
        "        from torch._inductor.new import helper\n    except ImportError:\n        {}\n"
    )
    source += "    sizevars.SizeVarAllocator.optimization_hint\ninstall()\n"
    assert [each for each in found(source.format("return")) if "red" in each] == []
    assert [each for each in found(source.format("pass")) if "red" in each]
