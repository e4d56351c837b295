"""A next step is typed as the command that shows it was: through nox, or by its own name."""

import pytest
from patchgate.model.command_line import THROUGH, as_typed

from patchgate.model import command_line as typed
from patchgate.model.errors import UsageError

TEXT = "if meant: nox -s accept -- --reason 'x'; if not: nox -s gate -- p.py; or nox -s row"


@pytest.fixture(autouse=True)
def elsewhere(folder, monkeypatch):
    monkeypatch.delenv(THROUGH, raising=False)


def test_by_its_own_name_where_there_is_no_noxfile():
    told = "if meant: patchgate accept --reason 'x'; if not: patchgate gate p.py; or nox -s row"
    assert (as_typed(TEXT), UsageError("no", next=TEXT).next) == (told, told)


def test_through_nox_where_nox_has_started_it(monkeypatch):
    monkeypatch.setenv(THROUGH, "nox")
    assert as_typed(TEXT) == TEXT


def test_through_nox_in_a_checkout_and_not_below_an_installed_one(folder, monkeypatch):
    monkeypatch.setattr(typed, "ROOT", folder)
    assert as_typed(TEXT) != TEXT
    (folder / "noxfile.py").write_text("")
    assert as_typed(TEXT) == TEXT
