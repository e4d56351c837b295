"""The torch releases of a matrix file."""

import pytest
from expecttest import assert_expected_inline
from refusals import refused, write

from patchgate.inputs.matrix import load_matrix

ROW = '[[row]]\ntorch = "2.12.1"\npython = ">=3.10"\ntags = ["nightly"]\n'


def test_rows_come_in_release_order(folder):
    path = write(
        folder,
        "matrix.toml",
        ROW + ROW.replace("2.12.1", "2.9.1") + ROW.replace("2.12.1", "2.10.0"),
    )
    assert [row.torch for row in load_matrix(path)] == ["2.9.1", "2.10.0", "2.12.1"]


def test_a_row_has_its_pythons_and_tags(folder):
    (row,) = load_matrix(write(folder, "matrix.toml", ROW))
    assert (row.python, row.tags) == (">=3.10", ("nightly",))


def test_a_row_without_a_version_is_refused(folder):
    path = write(folder, "matrix.toml", ROW.replace("2.12.1", "newest"))
    assert_expected_inline(
        refused(load_matrix, path),
        """\
matrix.toml:2: `row.torch`: not a version
  got:  torch = 'newest'
  next: torch = "2.12.1\"""",
    )


@pytest.mark.parametrize("key", ["torch", "python", "tags"])
def test_a_row_wants_every_key(folder, key):
    text = "\n".join(line for line in ROW.splitlines() if not line.startswith(key))
    assert f"`row.{key}`: missing" in refused(load_matrix, write(folder, "matrix.toml", text))


def test_a_version_that_is_a_number_is_refused(folder):
    told = refused(load_matrix, write(folder, "matrix.toml", ROW.replace('"2.12.1"', "2.12")))
    assert "`row.torch`: not a string" in told


def test_an_unknown_key_of_a_row_is_refused(folder):
    path = write(folder, "matrix.toml", ROW + "tag = 1\n")
    assert_expected_inline(
        refused(load_matrix, path),
        """\
matrix.toml:5: `row.tag`: unknown key
  got:  tag = 1
  next: did you mean `tags`?""",
    )
