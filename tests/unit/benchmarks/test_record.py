"""Recordings of a real GPU: golden's format beside it, never under another device's name."""

from dataclasses import replace

import pytest
from click.testing import CliRunner
from expecttest import assert_expected_inline

from benchmarks.record import record, record_device, record_padding
from patchgate.inputs.golden import read_golden
from patchgate.model.errors import UsageError
from patchgate.model.records import Case, Cause, Failure, Observation
from patchgate.runner.run_settings import Run, save_run

RELEASES = ["2.11.0", "2.12.1", "2.13.0"]


def seen(
    torch="2.11.0",
    device="cuda",
    workload="stack",
    patch=None,
    name="NVIDIA H200",
    failure=None,
    **facts,
):
    case = Case(torch=torch, device=device, workload=workload, patch=patch)
    return Observation(
        case=case, facts=facts, failure=failure, environment={"device": name, "torch": torch}
    )


def kept(folder, *observations):
    return [
        path.name for path in record_device(observations, "h200", "NVIDIA H200", folder, RELEASES)
    ]


def refused(folder, *observations):
    with pytest.raises(UsageError) as error:
        kept(folder, *observations)
    return str(error.value)


def test_a_recording_is_golden_of_the_profile(tmp_path):
    observed = [seen(loads=6), seen(patch="mine", loads=4), seen(workload="mlp", loads=1)]
    assert kept(tmp_path, *observed) == ["mlp.h200.txt", "stack.h200.txt", "MACHINES.md"]
    golden = read_golden(tmp_path / "recorded" / "stack.h200.txt", "stack", "h200")
    assert golden.sections.keys() == {"unpatched", "mine"}


def test_what_is_simulated_or_failed_is_not_recorded(tmp_path):
    failure = Failure(cause=Cause.RAISED, stage="compile", signature="boom")
    observed = [
        seen(device="h200", workload="mlp", loads=1),
        seen(workload="conv", failure=failure),
        replace(seen(workload="stack_shapes", guards=3), environment={"torch": "2.11.0"}),
        seen(loads=6),
    ]
    assert kept(tmp_path, *observed) == ["stack.h200.txt", "MACHINES.md"]


def test_a_range_never_reaches_over_a_release_that_was_not_recorded(tmp_path):
    kept(tmp_path, seen(loads=6))
    kept(tmp_path, seen("2.13.0", loads=6))
    golden = read_golden(tmp_path / "recorded" / "stack.h200.txt", "stack", "h200")
    assert [str(span) for span in golden.sections["unpatched"]["loads"]] == ["2.11.0", "2.13.0"]


def test_each_machine_is_named_once(tmp_path):
    kept(tmp_path, seen(loads=6), seen(workload="mlp", loads=1))
    kept(tmp_path, seen("2.12.1", loads=6), seen(loads=6))
    assert_expected_inline(
        (tmp_path / "recorded" / "MACHINES.md").read_text(),
        """\
# Where the recordings were taken

- device NVIDIA H200, torch 2.11.0
- device NVIDIA H200, torch 2.12.1
""",
    )


def test_without_a_real_device_there_is_nothing_to_record(tmp_path):
    assert_expected_inline(
        refused(tmp_path, seen(device="h200", loads=6)),
        """\
record: nothing was observed on a real GPU
  got:  no case on device cuda
  next: patchgate gate PATCH --device cuda""",
    )


def test_another_device_is_refused_and_nothing_is_written(tmp_path):
    assert_expected_inline(
        refused(tmp_path, seen(loads=6), seen(name="NVIDIA A100", loads=6)),
        """\
--profile: another device
  got:  NVIDIA A100
  next: h200 is NVIDIA H200""",
    )
    assert list(tmp_path.iterdir()) == []


def test_what_a_device_decided_of_its_products_goes_into_its_profile(tmp_path):
    profile = tmp_path / "h200.toml"
    profile.write_text('name = "NVIDIA H200"\n\n[padding]\n"mm:a" = "kept"\n')
    decided = [
        {"padding.mm:b": "padded", "padding.mm:c": "kept"},
        {"padding.mm:c": "padded", "padding.mm:a": "padded"},
    ]
    observed = [seen(workload=name, **facts) for name, facts in zip("xy", decided, strict=True)]
    record_padding([*observed, seen(device="h200", **{"padding.mm:d": "kept"})], profile)
    assert_expected_inline(
        profile.read_text(),
        """\
name = "NVIDIA H200"

[padding]
"mm:a" = "kept"
"mm:b" = "padded"
""",
    )


@pytest.mark.parametrize(
    ("arguments", "where"),
    [(["--profile", "h200"], "record"), (["--profile", "none"], "fixtures/devices")],
)
def test_recording_wants_a_real_device_and_a_known_profile(folder, arguments, where):
    run = Run(folder=str(folder / "out"), patch="mine.py", rows={"2.11.0": "python"})
    save_run(run)
    run.store.save(seen(device="h200", loads=6))
    result = CliRunner().invoke(record, ["--folder", "out", *arguments])
    assert isinstance(result.exception, UsageError)
    assert result.exception.where.endswith(where)
