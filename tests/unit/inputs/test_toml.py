"""TOML files: what cannot be read, keys that nobody reads, and the line of a key."""

from dataclasses import dataclass

import pytest
from expecttest import assert_expected_inline

from patchgate.inputs.manifest import Claims
from patchgate.inputs.toml import line_of, load_toml_record, read_toml, with_item
from patchgate.model.errors import UsageError
from patchgate.model.serialization import Invalid


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
    assert (error.where, error.what, error.next.split(":")[0]) == (
        "a.toml:2",
        "not TOML",
        "correct that line",
    )


def test_what_is_not_utf8_is_refused(folder):
    error = refused(read_toml, write(folder, b"a = 1\nb = '\xff'\n"))
    assert (error.where, error.what, error.next) == (
        "a.toml:2",
        "not UTF-8",
        "save the file as UTF-8",
    )


@dataclass(frozen=True)
class Inner:
    number: int = 0


@dataclass(frozen=True)
class Outer:
    title: str
    targets: tuple[str, ...] = ()
    inner: tuple[Inner, ...] = ()


def test_a_file_is_read_into_a_record(folder):
    path = write(folder, b"title = 'x'\ntargets = ['a']\n[[inner]]\nnumber = 1\n")
    assert load_toml_record(Outer, path) == Outer(
        title="x", targets=("a",), inner=(Inner(number=1),)
    )


def test_what_the_file_leaves_out_may_have_a_default(folder):
    assert load_toml_record(Outer, write(folder, b""), defaults={"title": "y"}) == Outer(title="y")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            b"title = 'x'\ntargts = []\n",
            "a.toml:2: `targts`: unknown key\n  got:  targts = []\n  next: did you mean `targets`?",
        ),
        (
            b"zzz = 1\n",
            "a.toml:1: `zzz`: unknown key\n  got:  zzz = 1\n  next: known keys: inner, targets, "
            "title",
        ),
        (
            b"targets = []\n",
            'a.toml:1: `title`: missing\n  got:  no such key\n  next: title = "..."',
        ),
        (
            b"title = 'x'\n[[inner]]\nnumber = 1\n[[inner]]\nnumber = true\n",
            "a.toml:5: `inner.number`: not a whole number\n  got:  number = True\n  next: number = "
            "1",
        ),
        (
            b"title = 'x'\n[[inner]]\nnumber = 1\n[[inner]]\nnumbr = 1\n",
            "a.toml:5: `inner.numbr`: unknown key\n  got:  numbr = 1\n  next: did you mean "
            "`number`?",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_line_and_a_way_out(folder, text, told):
    assert str(refused(load_toml_record, Outer, write(folder, text))) == told


def test_a_check_of_the_whole_record_names_the_key(folder):
    def check(record):
        raise Invalid("no such target", path=("targets",), next="another")

    path = write(folder, b"title = 'x'\ntargets = ['a']\n")
    told = str(refused(load_toml_record, Outer, path, check))
    assert told == "a.toml:2: no such target\n  got:  targets = ['a']\n  next: another"


@pytest.mark.parametrize(("start", "number"), [("a", 1), ("b", 4), ("c", 5), ("z", 1), ("bb", 2)])
def test_the_line_of_a_key_is_the_first_that_begins_with_it(start, number):
    assert line_of("a = 1\nbb = 1\n# b\n  b = 2\n[c]\nb = 3\n", (start,)) == number


@pytest.mark.parametrize(
    ("start", "table", "number"),
    [
        ("title", "symptom", 4),
        ("title", "", 1),
        ("fact", "symptom", 5),
        ("absent", "symptom", 3),
        ("x", "none", 1),
    ],
)
def test_a_key_of_a_table_is_looked_for_inside_it(start, table, number):
    assert (
        line_of(
            "title = 1\nfact = 2\n[symptom]\ntitle = 3\nfact = 4\n",
            (table, start) if table else (start,),
        )
        == number
    )


@pytest.mark.parametrize(
    "text", ["title = 1\nsymptom = {title = 2}\n", "title = 1\n[[symptom]]\n x = 2\n"]
)
def test_a_key_that_begins_no_line_of_its_table_is_where_the_table_is(text):
    assert line_of(text, ("symptom", "title")) == 2


def test_a_key_of_very_many_levels_is_named(folder):
    (folder / "patch.toml").write_text(f"a{'.a' * 3000} = 1\n")
    with pytest.raises(UsageError, match="a table of very many levels"):
        load_toml_record(Claims, folder / "patch.toml")


@pytest.mark.parametrize(
    ("text", "longer"),
    [
        ('p = ["a"]\n[x]\ny = []\n', 'p = ["a", "b"]\n[x]\ny = []\n'),
        ("p = []\n", 'p = ["b"]\n'),
        ('p = ["a]", # ]\n]\nx = 1', 'p = ["a]", # ]\n    "b",\n]\nx = 1'),
        ("p = [\n  'a'\n]\n", "p = [\n  'a',\n  \"b\"\n]\n"),
        ("x = 1\n", 'x = 1\np = ["b"]\n'),
        ("p = ['a' # no comma\n]\n", "p = ['a', # no comma\n    \"b\"\n]\n"),
        ("p = ['a'\n# no comma\n]\n", None),
    ],
)
def test_an_item_is_added_to_a_list_and_nothing_else_is_touched(text, longer):
    assert with_item(text, ("p",), "b") == longer
    head = "[tool.q]\np = []\n[tool.patchgate]\n"
    below = f"{head}{longer}" if longer else None
    assert with_item(f"{head}{text}", ("tool", "patchgate", "p"), "b") == below
