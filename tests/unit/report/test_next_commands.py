"""A next step is typed as the command that shows it was: through nox, or by its own name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from patchgate.model.records import Command
from patchgate.report import next_commands
from patchgate.report.next_commands import THROUGH, is_through_nox, next_step, typed

ACCEPT = Command(name="accept", arguments=("--reason", "'x'"), when="if meant")
GATE = Command(name="gate", arguments=("p.py",), when="if not")
EXPLAIN = Command(name="explain", arguments=("PG301",))


@pytest.fixture(autouse=True)
def elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(THROUGH, raising=False)


def test_by_its_own_name_where_there_is_no_noxfile():
    assert typed(ACCEPT) == "patchgate accept --reason 'x'"
    assert next_step("read it", (ACCEPT, GATE)) == (
        "read it; if meant: patchgate accept --reason 'x'; if not: patchgate gate p.py"
    )
    assert not is_through_nox()


def test_a_fixture_is_named_by_the_path_at_which_it_lies(folder, monkeypatch):
    monkeypatch.setattr(next_commands, "ROOT", folder / "_shipped")
    assert next_step("As fixtures/patches/one does. Read `x`.", ()) == (
        "As _shipped/fixtures/patches/one does. Read `x`."
    )


def test_through_nox_where_nox_has_started_it(monkeypatch):
    monkeypatch.setenv(THROUGH, "nox")
    assert typed(GATE) == "nox -s gate -- p.py"
    assert next_step("", (ACCEPT,)) == "if meant: nox -s accept -- --reason 'x'"
    assert is_through_nox()


def test_through_nox_in_a_checkout_and_not_below_an_installed_one(folder, monkeypatch):
    monkeypatch.setattr(next_commands, "ROOT", folder)
    assert typed(GATE) == "patchgate gate p.py"
    (folder / "noxfile.py").write_text("")
    assert typed(GATE) == "nox -s gate -- p.py"


def test_what_is_no_session_of_nox_is_called_where_nox_has_installed_it(folder, monkeypatch):
    (folder / "bin").mkdir()
    monkeypatch.setattr("sys.executable", str(folder / "bin" / "python"))
    monkeypatch.setenv(THROUGH, "nox")
    assert typed(EXPLAIN) == "patchgate explain PG301"
    (folder / "bin" / "patchgate").write_text("")
    assert typed(EXPLAIN) == "bin/patchgate explain PG301"
    monkeypatch.delenv(THROUGH)
    assert typed(EXPLAIN) == "patchgate explain PG301"


@pytest.mark.parametrize("name", sorted(next_commands._SESSIONS))
def test_what_is_typed_through_nox_is_a_session(name):
    noxfile = Path(__file__).parents[3] / "noxfile.py"
    assert f"def {name}(" in noxfile.read_text("utf-8")


@pytest.mark.parametrize(
    ("advice", "given", "step"),
    [
        ("", (), ""),
        ("mend it", (), "mend it"),
        ("", (EXPLAIN,), "patchgate explain PG301"),
        ("mend it", (EXPLAIN,), "mend it; patchgate explain PG301"),
        ("", (GATE, EXPLAIN), "if not: patchgate gate p.py; patchgate explain PG301"),
    ],
)
def test_words_and_commands_are_one_line(advice, given, step):
    assert next_step(advice, given) == step


def test_the_command_that_was_typed_is_not_repeated_with_all_its_options():
    again = Command(
        name="gate", arguments=("mine.py", "--row 2.11.0=python"), when="then", is_again=True
    )
    assert next_step("Correct it.", [again]) == "Correct it; then: run the same command again"
    assert "--row 2.11.0=python" in next_step("Correct it.", [replace(again, is_again=False)])
