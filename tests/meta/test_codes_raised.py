"""Every code of the catalogue is raised by some module or named by some test of a judge.

The catalogue itself and its own tests do not count. The detector is also seen failing.
"""

import re
from pathlib import Path

from patchgate.checks.codes import CODES

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ("codes", "_shipped", "meta", "report")


def named_below(*folders):
    """The codes in the text of every Python file that is no part of the catalogue."""
    files = [path for folder in folders for path in folder.rglob("*.py") if not set(CATALOGUE) & set(path.parts)]
    return {code for path in files for code in re.findall(r"\bPG\d{3}\b", path.read_text("utf-8"))}


def test_every_code_is_raised_or_tested():
    assert CODES.keys() - named_below(ROOT / "patchgate", ROOT / "tests") == set()


def test_no_module_raises_a_code_that_is_not_in_the_catalogue():
    assert named_below(ROOT / "patchgate") - CODES.keys() == set()


def test_a_code_that_only_the_catalogue_names_is_found(tmp_path):
    for name, text in {"codes/gate.py": "PG201 PG202", "judge/gate.py": '"PG201"', "judge/near.py": "PG2021"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert named_below(tmp_path) == {"PG201"}
