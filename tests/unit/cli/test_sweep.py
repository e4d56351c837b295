"""`patchgate sweep` and `history` from end to end, on rows that have no environment: no torch is
needed for that.
"""

import sys

import pytest

from patchgate.cli import main as cli
from patchgate.runs.history.store import History


@pytest.fixture
def command(folder, monkeypatch, capsys):
    (folder / "mine.py").write_text("x = 1\n")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["patchgate", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return (ended.value.code, *capsys.readouterr())

    return run


def sweep(command, *arguments):
    return command(
        "sweep", "mine.py", "--problem", "2.11.0=no wheel", "--folder", "out", *arguments
    )


def test_a_sweep_leaves_verdicts_a_history_and_a_page(command, folder):
    status, printed, wrong = sweep(command)
    assert (status, wrong) == (4, "")
    assert printed.splitlines()[0] == "[1/1] mine on torch 2.11.0: no environment, 0 red of 1"
    assert {path.name for path in (folder / "out").iterdir()} == {
        "verdicts.json",
        "history.sqlite",
        "report.html",
    }


def test_the_second_run_is_compared_with_the_first(command):
    assert "changed since" not in sweep(command, "--run", "one")[1]
    assert "nothing changed since the last run" in sweep(command, "--run", "two")[1]
    assert "nothing changed since the last run" in command("history", "--folder", "out")[1]


def test_machines_that_share_a_name_share_a_run(command, folder):
    sweep(command, "--run", "one", "--shard", "1/1")
    sweep(command, "--run", "one", "--shard", "1/1")
    assert "changed since" not in command("history", "--folder", "out")[1]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--shard", "5/4"], "error: --shard: not a shard"),
        (["--torch", "new"], "error: --torch: not a release of torch"),
        (["--workload", "residual_stak"], "error: --workload: no workload `residual_stak`"),
        (["--device", "h20"], "error: --device: no device `h20`"),
    ],
)
def test_bad_usage_is_reported(command, arguments, told):
    status, _, wrong = sweep(command, *arguments)
    assert (status, wrong.splitlines()[0]) == (2, told)


def test_a_patch_without_a_fact_is_not_left_out_in_silence(command):
    sweep(command)
    status, printed, wrong = command("history", "--patch", "nosuch", "--folder", "out")
    assert (status, printed, wrong.splitlines()[0]) == (2, "", "error: --patch: of which fact?")


@pytest.mark.parametrize(("table", "count"), [("", 6), ('releases = ["2.10.1", "2.11.0"]\n', 2)])
def test_without_a_row_every_release_is_made_or_those_of_the_table(command, folder, table, count):
    (folder / "patchgate.toml").write_text(f"patches = ['mi*.py']\n{table}")
    status, printed, _ = command("sweep", "--folder", "out")
    assert (status, printed.splitlines()[0].partition("]")[0]) == (4, f"[1/{count}")
    assert "no environment" in printed.splitlines()[0]


def test_without_a_patch_nothing_is_judged_and_that_is_said(command, folder):
    status, _, wrong = command("sweep", "--folder", "out")
    assert (status, wrong.splitlines()[0]) == (2, "error: .: no patch to judge")
    assert not (folder / "out").exists()


@pytest.mark.parametrize("arguments", [[], ["stack.h200.loads"]])
def test_a_history_without_a_run_says_so(command, folder, arguments):
    status, printed, wrong = command("history", *arguments, "--folder", "out")
    assert (status, printed, (folder / "out").exists()) == (2, "", False)
    assert wrong == (
        "error: out/history.sqlite: no run in this history; another --folder may have one\n"
        "  next: patchgate sweep PATCH\n"
    )


def test_a_history_whose_sweep_was_killed_at_once_has_no_run_either(command, folder):
    History(folder / "out" / "history.sqlite").close()
    assert command("history", "--folder", "out")[0] == 2


def test_a_folder_that_cannot_be_made_is_refused(command, folder):
    status, _, wrong = command(
        "sweep", "mine.py", "--problem", "2.11.0=no", "--folder", "mine.py/out"
    )
    assert (status, wrong.splitlines()[0]) == (
        2,
        "error: --folder: no folder that can be written to",
    )
