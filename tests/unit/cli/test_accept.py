"""`patchgate accept` and `patchgate record` as they are typed."""

import pytest
from click.testing import CliRunner
from expecttest import assert_expected_inline

from patchgate.cli.main import cli
from patchgate.model.errors import UsageError
from patchgate.model.records import Case, Observation
from patchgate.runner.run import Run, save_run


@pytest.fixture
def observed(folder, monkeypatch):
    """A run that observed one case, in a place where a person is."""
    for name in ("CI", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    run = Run(folder=str(folder / "out"), patch="mine.py", rows={"2.11.0": "python"})
    save_run(run)
    run.store.save(Observation(case=Case(torch="2.11.0", device="h200", workload="stack"), facts={"loads": 6}))
    return folder


def accept(*arguments):
    return CliRunner().invoke(cli, ["accept", "--folder", "out", "--golden", "golden", *arguments])


def test_the_diff_is_shown_before_the_reason_is_asked_for(observed):
    result = accept()
    assert_expected_inline(
        result.output,
        """\
--- golden/stack.h200.txt
+++ golden/stack.h200.txt
@@ -0,0 +1,5 @@
+# stack on h200
+schema 1
+
+[unpatched]
+loads  2.11.0  6
""",
    )
    assert isinstance(result.exception, UsageError)
    assert result.exception.where == "--reason"
    assert not (observed / "golden").exists()


def test_with_a_reason_golden_and_its_history_are_written(observed):
    result = accept("--reason", "first")
    assert result.exit_code == 0
    assert result.output.splitlines()[-1] == "1 files below golden changed; read the diff, then commit them"
    assert {path.name for path in (observed / "golden").iterdir()} == {"stack.h200.txt", "HISTORY.md"}


def test_accepting_twice_changes_nothing_the_second_time(observed):
    accept("--reason", "first")
    assert accept("--reason", "second").output == "golden already says what the last run observed\n"


@pytest.mark.parametrize("name", ["CI", "PYTEST_XDIST_WORKER"])
def test_where_nobody_reads_nothing_is_shown_or_written(observed, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    result = accept("--reason", "first")
    assert (result.output, result.exception.where) == ("", f"${name}")
    assert not (observed / "golden").exists()


@pytest.mark.parametrize(
    ("arguments", "where"), [(["--profile", "h200"], "record"), (["--profile", "none"], "fixtures/devices")]
)
def test_recording_wants_a_real_device_and_a_known_profile(observed, arguments, where):
    result = CliRunner().invoke(cli, ["record", "--folder", "out", *arguments])
    assert isinstance(result.exception, UsageError)
    assert result.exception.where.endswith(where)
