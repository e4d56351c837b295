"""The command's door: help, an interruption, next steps as they are typed, and `python -m`."""

import contextlib
import os
import subprocess
import sys

import pytest

from patchgate.cli import report
from patchgate.cli.main import end_by_exit_code
from patchgate.model.errors import UsageError
from patchgate.model.paths import PACKAGE
from patchgate.model.policy import Kind
from patchgate.report.next_commands import THROUGH
from patchgate.runner.cache_keys import read_environment


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"], ["gate", "--help"]])
def test_asking_for_help_is_no_error(command, arguments):
    status, printed, wrong = command(*arguments)
    assert (status, bool(printed), wrong) == (0, True, "")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "gate",
            [
                "Exit codes: 0 nothing red, 1 red",
                "reported as not judged, and why",
                "cases that run in parallel",
            ],
        ),
        ("bisect", ["patchgate bisect --fact '", "in an environment that is made for it"]),
    ],
)
def test_help_says_what_cannot_be_guessed(command, name, told):
    printed = " ".join(command(name, "--help")[1].split())
    assert [text for text in told if text not in printed] == []


def test_an_interruption_is_no_verdict(command, monkeypatch):
    def interrupt(path):
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "runs_in", interrupt)
    status, _, wrong = command("report")
    assert (status, wrong.lstrip()) == (
        4,
        "interrupted: no result\n  next: run the same command again\n",
    )


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            OSError(28, "No space left on device", "out"),
            "error: the machine failed: [Errno 28] No space left on device",
        ),
        (
            ValueError("a defect\nof ours"),
            "error: patchgate itself failed: ValueError: a defect of ours",
        ),
        (RecursionError("too deep"), "error: patchgate itself failed: RecursionError: too deep"),
        (MemoryError(), "error: patchgate itself failed: MemoryError"),
    ],
)
def test_a_fault_of_ours_is_neither_a_traceback_nor_red(command, monkeypatch, folder, fault, said):
    def fail(path):
        raise fault

    monkeypatch.setattr(report, "runs_in", fail)
    status, printed, wrong = command("report")
    assert (status, printed) == (4, "")
    assert wrong.startswith(said)
    assert "Traceback" not in wrong
    assert (folder / ".patchgate" / "fault.txt").is_file() is not isinstance(fault, OSError)


def test_a_job_that_is_ended_ends_as_by_ctrl_c(folder):
    source = "import click, os, signal\nfrom patchgate.cli.main import end_by_exit_code\n"
    source += (
        "@click.command()\ndef wait():\n    os.kill(os.getpid(), signal.SIGTERM)\n    "
        "signal.pause()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", f"{source}end_by_exit_code(wait, 'x')"],
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr.split(":")[0].strip()) == (4, "interrupted")


def test_the_module_is_the_command(folder):
    ended = subprocess.run(
        [sys.executable, "-m", "patchgate", "explain", "none"],
        capture_output=True,
        text=True,
        env=dict(os.environ),
    )
    assert (ended.returncode, ended.stderr.splitlines()[0]) == (2, "error: explain: no such code")


@pytest.mark.parametrize(
    ("through", "typed"), [("", "patchgate gate PATCH"), ("nox", "nox -s gate -- PATCH")]
)
def test_the_next_step_of_an_error_is_typed_as_the_command_was(
    command, monkeypatch, through, typed
):
    monkeypatch.setenv(THROUGH, through)
    status, printed, wrong = command("report", "--folder", "none")
    assert (status, printed, wrong.splitlines()[-1]) == (2, "", f"  next: {typed}")


def test_a_comment_is_printed_of_results_elsewhere(command, results):
    results(Kind.REGRESSED)
    status, printed, _ = command("comment", "out", "out")
    head = [
        "<!-- patchgate -->",
        "### ✗ ` mine.py ` on torch 2.11.0",
        "",
        "1 cause, 1 red result, 0 green",
    ]
    assert (status, printed.splitlines()[:4]) == (0, head)


@pytest.mark.skipif(
    sys.version_info < (3, 11), reason="Python 3.10 looks in the working folder whatever it is told"
)
def test_no_module_of_the_working_folder_stands_in_for_one_of_ours(tmp_path):
    """It may be a stranger's checkout, and what starts pytest, xdist or an interpreter of a row
    stands in it.
    """
    (tmp_path / "pluggy.py").write_text("open('ran', 'w')")
    starts = "subprocess.call([sys.executable, '-m', 'pytest', '--version'])"
    ours = (
        f"import click, subprocess, sys; from {end_by_exit_code.__module__} import "
        "end_by_exit_code as end"
    )
    code = (
        f"import sys; del sys.path[0]; {ours}; end(click.Command('x', callback=lambda: "
        f"sys.exit({starts})), 'x')"
    )
    # Another test of this process may have called a command, which sets it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    environment["PYTHONPATH"] = str(PACKAGE.parent)
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert (ended.returncode, sorted(tmp_path.iterdir())) == (0, [tmp_path / "pluggy.py"]), (
        ended.stderr
    )


def test_what_asks_an_interpreter_takes_no_module_of_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "platform.py").write_text("open('ran', 'w')")
    monkeypatch.chdir(tmp_path)
    with contextlib.suppress(UsageError):  # it may have no torch
        read_environment.__wrapped__(sys.executable)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain"],
        ["explain", "--markdown"],
        ["explain", "PG501"],
        ["--version"],
    ],
)
def test_a_reader_that_goes_away_is_no_red_verdict(folder, arguments):
    """As `| head -1` does: click ends with 1 then, and Python with 120."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "patchgate", *arguments]
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (4, "")


@pytest.mark.parametrize(
    "link", [".patchgate", ".patchgate/unpatched", ".patchgate/gate/mine/observations"]
)
def test_a_link_among_results_is_refused_before_anything_is_written(command, folder, link):
    (folder / "theirs").mkdir()
    (folder / "theirs" / "kept.json").write_text("{}")
    (folder / link).parent.mkdir(parents=True, exist_ok=True)
    (folder / link).symlink_to(folder / "theirs")
    status, _, wrong = command("gate", "mine.py")
    assert (status, wrong.splitlines()[0]) == (2, f"error: {link}: a link among results")
    assert [path.name for path in (folder / "theirs").iterdir()] == ["kept.json"]


def test_a_file_of_a_patch_s_own_that_is_a_link_is_none_of_ours(command, folder):
    deep = folder / ".patchgate" / "cpp" / "patched" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "lib.so").symlink_to(folder / "mine.py")
    assert command("--version")[0] == 0
    assert command("explain", "PG501")[0] == 0


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("gat", "did you mean `gate`?"),
        ("mine.py", "did you mean `patchgate gate mine.py`?"),
        ("away/other.py", "did you mean `patchgate gate away/other.py`?"),
        ("zzz", "one of: accept, ask,"),
    ],
)
def test_what_is_no_command_gets_the_one_that_was_meant(command, typed, meant):
    status, printed, wrong = command(typed)
    assert (status, printed, wrong.splitlines()[0]) == (2, "", "error: patchgate: no such command")
    assert meant in wrong


@pytest.mark.parametrize("typed", [("gate",), ("lint",), ("sweep",), ("report", "--folder")])
def test_a_name_that_no_file_can_have_is_wrong_usage(command, typed):
    code, _, wrong = command(*typed, "a" * 300 + ".py")
    assert code == 2
    assert "machine failed" not in wrong


def test_a_link_to_itself_is_wrong_usage(command, folder):
    (folder / "round.py").symlink_to("round.py")
    code, _, wrong = command("gate", "--problem", "2.11.0=x", "round.py")
    assert (code, wrong.splitlines()[0]) in {
        (2, "error: a link to itself"),
        (2, "error: round.py: no such patch"),  # from Python 3.13 on
    }


def typed_in_bash(line):
    """Run `patchgate explain PG203` as `"$@"` of a line of bash."""
    ours = f"{sys.executable} -m patchgate explain PG203".split()
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "PYTHONIOENCODING": "ascii"}
    return subprocess.run(
        ["bash", "-c", line, "bash", *ours], capture_output=True, text=True, env=environment
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_changes_no_exit_code(folder, closed):
    ended = typed_in_bash(f'"$@" {closed}')
    assert (ended.returncode, ended.stderr) == (0, "")
    assert bool(ended.stdout) is (">&-" not in closed.replace("2>&-", ""))


def test_a_closed_stream_is_not_the_next_file_that_is_opened(folder):
    code = "from patchgate.cli.main import _open_streams as f; f(); print(open('out', 'w').fileno() > 2)"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    line = f'{sys.executable} -c "{code}" <&- 2>&-'
    printed = subprocess.run(["bash", "-c", line], stdout=subprocess.PIPE, env=environment)
    assert printed.stdout == b"True\n"


def test_what_an_encoding_lacks_is_written_as_an_escape(folder):
    code = "from patchgate.cli.main import _open_streams as f; f(); print(chr(0x2717))"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "PYTHONIOENCODING": "ascii"}
    printed = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment)
    assert printed.stdout == b"\\u2717\n"


def test_a_working_folder_that_was_deleted_is_wrong_usage(folder):
    ended = typed_in_bash('mkdir gone; cd gone; rmdir ../gone; "$@"')
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: ") and "is not there any more" in ended.stderr


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e400", "-1", "2e6"])
def test_a_time_limit_is_a_time(command, seconds):
    code, _, wrong = command("gate", "mine.py", "--time-limit", seconds)
    assert (code, "--time-limit" in wrong) == (2, True)


def test_a_version_of_thousands_of_digits_is_wrong_usage(command, folder):
    (folder / "p.py").write_text("import torch\ntorch._inductor.x = 1\n")
    code, _, wrong = command("lint", "--torch", f"=={'9' * 5000}", "p.py")
    assert (code, "4,300 digits" in wrong) == (2, True)
