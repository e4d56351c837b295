"""PG123, PG124, PG125, PG132: comparisons that do not mean what they say, and their right spellings."""

from __future__ import annotations

import pytest
from toytorch import codes, found


def test_text_order_is_red_where_it_is_wrong() -> None:
    source = 'import torch\nif str(torch.__version__) < "2.9": pass\n'
    assert codes(source) == ["PG123"]
    assert "PG123" not in codes('import torch\nif torch.__version__ < "2.9": pass\n')


@pytest.mark.parametrize(
    ("check", "is_red"),
    [
        ('torch.__version__.split(".")[:2] < ["2", "9"]', True),
        ('tuple(torch.__version__.split(".")[:2]) >= ("2", "9")', True),
        ('["2", "9"] <= torch.__version__.split(".")', True),
        ('torch.__version__.split(".")[1] < "9"', True),
        ('(torch.__version__.split(".")[0], torch.__version__.split(".")[1]) < ("2", "9")', True),
        ('[int(part) for part in torch.__version__.split(".")[:2]] < [2, 9]', False),
        ('tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 9)', False),
        ("Version(torch.__version__).release[:2] < (2, 9)", False),
        ('torch.__version__.split(".")[:2] == ["2", "9"]', False),
    ],
)
def test_parts_of_a_version_are_compared_as_text_too(check: str, is_red: bool) -> None:
    source = f"import torch\nfrom packaging.version import Version\nif {check}: pass\n"
    red = [each for each in found(source) if "PG123 red" in each]
    assert len(red) == is_red
    assert "PG123" not in codes(source) or is_red


def test_a_version_as_a_number_is_red_where_it_is_wrong() -> None:
    number = "float('.'.join(torch.__version__.split('.')[:2]))"
    wrong = [
        f"2: PG123 red `{number} >= 2.9` reads the version as a number: 2.10 becomes 2.1 [every "
        "release]"
    ]
    assert [
        each for each in found(f"import torch\nif {number} >= 2.9: pass\n") if "PG120" not in each
    ] == wrong
    for right in (
        f"{number} < 3.0",
        f"{number} >= 2",
        "float(torch.__version__.split('.')[1]) >= 9",
    ):
        assert codes(f"import torch\nif {right}: pass\n") == []


def test_a_version_that_is_cut_to_three_characters_is_wrong_in_every_release_from_2_10() -> None:
    cut = found("import torch\nnumber = float(torch.__version__[:3])\nif number < 2.5: pass\n")
    assert [each.rpartition("[")[2] for each in cut if "PG123" in each] == ["every release]"]
    assert "PG123" not in codes(
        "import torch\nnumber = float(torch.__version__[:4])\nif number < 2.05: pass\n"
    )


def test_upper_bounds_that_nightlies_slip_under() -> None:
    gate = (
        "import torch\nfrom packaging.version import Version\nif Version(torch.__version__) < "
        "Version('{}'): pass\n"
    )
    assert codes(gate.format("2.13.0")) == ["PG125"]
    assert codes(gate.format("2.13.0.dev0")) == []


@pytest.mark.parametrize(
    ("check", "splits"),
    [
        ('Version(torch.__version__.split("+")[0]) <= Version("2.11")', True),
        ('Version(torch.__version__.split("+")[0]) > Version("2.11")', True),
        ('Version(Version(torch.__version__).public) == Version("2.11")', True),
        ('Version("2.11") >= Version(torch.__version__.split("+")[0])', True),
        ('Version(torch.__version__) < Version("2.11")', False),
        ('Version(torch.__version__.split("+")[0]) <= Version("2.11.1")', False),
        ('Version(torch.__version__.split("+")[0]) <= Version("2.11.0")', False),
        ('Version(torch.__version__.split("+")[0]) >= Version("2.11")', False),
        ('Version("2.11") <= Version(torch.__version__)', False),
        ('SpecifierSet("<=2.11").contains(torch.__version__)', True),
        ('Version(torch.__version__) in SpecifierSet(">=2.9,<=2.11")', True),
        ('SpecifierSet(">=2.11,<2.12").contains(torch.__version__)', False),
        ('SpecifierSet("==2.11.*").contains(torch.__version__)', False),
        ('SpecifierSet("<=2.11.1").contains(torch.__version__)', False),
        ('Version(".".join(torch.__version__.split(".")[:2])) <= Version("2.11")', False),
        ('Version("2.11.0") >= Version(".".join(torch.__version__.split(".")[:2]))', False),
        ("Version(torch.__version__).release[:2] <= (2, 11)", False),
    ],
)
def test_a_bound_of_two_numbers_separates_patch_releases(check: str, splits: bool) -> None:
    imports = "import torch\nfrom packaging.version import Version\n"
    imports += "from packaging.specifiers import SpecifierSet\n"
    source = f"{imports}if {check}: pass\n"
    lines = [each for each in found(source) if "PG132" in each]
    message = f"4: PG132 note `{check}` separates 2.11.0 from 2.11.1 [2.11]".replace('"', "'")
    assert lines == [message] * splits
