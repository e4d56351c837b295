"""TOML files: what cannot be read, and keys that nobody reads."""

import pytest
from expecttest import assert_expected_inline

from patchgate.inputs.toml import read_toml, refuse_unknown
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
