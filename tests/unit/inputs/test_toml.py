"""TOML files: what cannot be read, and keys that nobody reads."""

import pytest
from expecttest import assert_expected_inline

from patchgate.inputs.toml import line_of, read_toml, refuse_unknown
from patchgate.model.errors import UsageError


def refused(call, *arguments):
    with pytest.raises(UsageError) as error:
        call(*arguments)
    return error.value


def write(folder, data):
    path = folder / "a.toml"
    path.write_bytes(data)
    return path


def test_a_file_is_read_into_tables(folder):
    assert read_toml(write(folder, b"a = 1\n[b]\nc = [2]\n")) == {"a": 1, "b": {"c": [2]}}


def test_a_missing_file_is_refused(folder):
    assert_expected_inline(
        str(refused(read_toml, folder / "none.toml")),
        """\
none.toml: cannot be read
  got:  No such file or directory""",
    )


def test_what_is_not_toml_is_refused_with_its_line(folder):
    error = refused(read_toml, write(folder, b"a = 1\nb = \n"))
    assert (error.where, error.what, error.next.split(":")[0]) == ("a.toml:2", "not TOML", "mend that line")


def test_what_is_not_utf8_is_refused(folder):
    error = refused(read_toml, write(folder, b"a = 1\nb = '\xff'\n"))
    assert (error.where, error.what, error.next) == ("a.toml:2", "not TOML", "save the file as UTF-8")


def test_known_keys_pass_in_silence(folder):
    path = write(folder, b"a = 1\n")
    assert refuse_unknown(path, read_toml(path), {"a", "b"}) is None


def test_an_unknown_key_is_refused_with_its_line_and_the_nearest_known_one(folder):
    path = write(folder, b"title = 'x'\ntargts = []\n")
    assert_expected_inline(
        str(refused(refuse_unknown, path, read_toml(path), {"title", "targets"}, "patch.")),
        """\
a.toml:2: unknown key `patch.targts`
  got:  targts = ...
  next: did you mean `targets`?""",
    )


def test_an_unknown_key_with_no_neighbour_is_told_what_there_is(folder):
    path = write(folder, b"zzz = 1\n")
    assert_expected_inline(
        str(refused(refuse_unknown, path, read_toml(path), {"title", "targets"})),
        """\
a.toml:1: unknown key `zzz`
  got:  zzz = ...
  next: known keys: targets, title""",
    )


@pytest.mark.parametrize(("start", "number"), [("a", 1), ("b", 4), ("[c]", 5), ("z", 1), ("bb", 2)])
def test_the_line_of_a_key_is_the_first_that_begins_with_it(start, number):
    assert line_of("a = 1\nbb = 1\n# b\n  b = 2\n[c]\nb = 3\n", start) == number


@pytest.mark.parametrize(
    ("start", "table", "number"),
    [("title", "symptom", 4), ("title", "", 1), ("fact", "symptom", 5), ("absent", "symptom", 3), ("x", "none", 1)],
)
def test_a_key_of_a_table_is_looked_for_inside_it(start, table, number):
    assert line_of("title = 1\nfact = 2\n[symptom]\ntitle = 3\nfact = 4\n", start, table) == number


@pytest.mark.parametrize("text", ["title = 1\nsymptom = {title = 2}\n", "title = 1\n[[symptom]]\n x = 2\n"])
def test_a_key_that_begins_no_line_of_its_table_is_where_the_table_is(text):
    assert line_of(text, "title", "symptom") == 2
