"""Paths as a user would type them."""

from pathlib import Path

import pytest

from patchgate.model.paths import display_path


@pytest.mark.parametrize(("path", "told"), [("a/b.py", "a/b.py"), ("./a/../b.py", "b.py")])
def test_a_path_below_the_working_directory_is_relative_to_it(folder, path, told):
    assert display_path(folder / path) == display_path(path) == told


def test_a_path_elsewhere_stays_whole(folder, monkeypatch):
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    assert Path(display_path(folder / "a.py")) == folder / "a.py"


def test_a_path_is_shown_in_one_line(folder):
    assert display_path(folder / "a\n::error::forged.py") == "a\\n::error::forged.py"
