"""Every rule has a test file of its own, and runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgate.lint.rules import RULES


@pytest.mark.parametrize("rule", [each.__module__.rpartition(".")[2] for each in RULES])
def test_a_rule_has_a_test_file_of_its_own(rule: str) -> None:
    assert (Path(__file__).parent / "rules" / f"test_{rule}.py").is_file()


def test_every_file_of_a_rule_is_asked() -> None:
    import patchgate.lint.rules as package

    files = {file.stem for file in Path(str(package.__file__)).parent.glob("*.py")}
    # `missing` is what the rules about missing names share.
    assert files - {"__init__", "missing"} == {each.__module__.rpartition(".")[2] for each in RULES}
