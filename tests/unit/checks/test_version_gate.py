"""A patch applies exactly where claimed: PG201, PG202, PG210 and PG211."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from packaging.version import Version

from patchgate.checks.framework.patch_outcome import does_not_run
from patchgate.checks.version_gate import (
    judge_support,
    judge_versions,
    supported_releases,
    versions_around,
)
from patchgate.inputs.manifest import Claims, Patch
from patchgate.inputs.matrix import load_matrix
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Case, Cause, Command, Failure, Verdict
from patchgate.report.next_commands import next_step

TORCH = "2.11.0"
CASE = Case(torch=TORCH, patch="mine")
AGAIN = Command(name="gate", arguments=("patch.py",))


def patch(**claims: Any) -> Patch:
    return Patch(id="mine", path="/p/patch.py", source="", claims=Claims(title="Mine", **claims))


def answers(
    applies: Callable[[str], bool], failing: Iterable[str] = ()
) -> dict[str, dict[str, Any]]:
    """Make the answers of the patch under each faked version; it applies if `applies` says so."""
    told: dict[str, dict[str, Any]] = {
        version: {"changed": ["torch.a"] if applies(version) else []}
        for version in versions_around(TORCH)
    }
    failure = {"cause": "raised", "stage": "patch", "signature": "ImportError: no name"}
    return told | {version: {"failure": failure} for version in failing}


def versions(
    applies: Callable[[str], bool], failing: Iterable[str] = (), **claims: Any
) -> list[Verdict]:
    return list(
        judge_versions(CASE, patch(**claims), answers(applies, failing), "patch.toml:2", AGAIN)
    )


def test_of_a_patch_that_replaces_nothing_its_settings_show_where_it_applies():
    def judged(kind: str, **claims: Any) -> list[Verdict]:
        effect = {"kind": kind, "name": "X", "older": [], "what": "X", "line": 1}
        told = {
            version: {"changed": [], "effects": [effect] if version.startswith("2.11.") else []}
            for version in versions_around(TORCH)
        }
        return list(judge_versions(CASE, patch(**claims), told, "patch.toml:2", AGAIN))

    for kind in ("environment", "config"):
        (verdict,) = judged(kind, applies_to=">=2.11.0.dev0,<2.12.0.dev0")
        assert (verdict.code, verdict.kind) == ("PG211", Kind.PASS)
        assert [verdict.code for verdict in judged(kind, applies_to="==2.11.0")] == [
            "PG201",
            "PG201",
        ]
        assert [verdict.code for verdict in judged(kind, applies_to=">=2.11.0.dev0")] == ["PG202"]
    # A patch that is asked about the release's own version alone says nothing of another version.
    (verdict,) = judged("threads", applies_to=">=2.11.0.dev0,<2.12.0.dev0")
    assert (verdict.code, verdict.kind) == ("PG211", Kind.NOTE)
    # With targets they alone show it.
    assert [
        verdict.code for verdict in judged("config", applies_to="==2.11.*", targets=("torch.a",))
    ] == ["PG202"]


def test_of_a_patch_that_changes_nothing_no_version_tells_whether_it_applies():
    (verdict,) = versions(lambda version: False, applies_to=">=2.11")
    assert (verdict.code, verdict.kind, verdict.actual[:16]) == (
        "PG211",
        Kind.NOTE,
        "not visible: the",
    )


def is_release(version: str) -> bool:
    return version.startswith("2.11.0") and not any(word in version for word in ("a0", "rc", "dev"))


def test_the_faked_versions_are_the_builds_of_a_release_and_its_neighbours():
    assert versions_around("2.11.0") == (
        "2.11.0",
        "2.11.0+cu130",
        "2.11.0+cpu",
        "2.11.0.post1",
        "2.11.0a0+git1234",
        "2.11.0rc5",
        "2.11.0.dev20260101",
        "2.11.1",
        "2.10.0",
        "2.10.1",
        "2.12.0",
        "2.12.0.dev20260101",
    )


def test_a_release_without_a_third_part_has_neighbours_too():
    assert versions_around("2.11")[0] == "2.11.0"


def test_what_came_before_a_new_major_release_is_not_made_up():
    assert all(Version(version).major == 3 for version in versions_around("3.0.0"))
    assert "3.1.0" in versions_around("3.0.0")


def test_a_gate_that_holds_is_one_green_verdict():
    (verdict,) = versions(
        lambda version: version.startswith(("2.11", "2.12.0")), applies_to=">=2.11.0.dev0"
    )
    assert (verdict.code, verdict.kind, verdict.actual) == (
        "PG211",
        Kind.PASS,
        "12 versions as claimed",
    )


def test_applying_outside_the_claim_is_named_with_its_versions():
    (verdict,) = versions(
        lambda version: version[:4] in ("2.11", "2.12"), applies_to="<2.12.0,>=2.11.0.dev0"
    )
    assert (verdict.code, verdict.where) == ("PG201", "patch.toml:2")
    assert (
        verdict.actual
        == "applies on 2.12.0.dev20260101 to 2.12.0 (2 of 12 versions that were tried)"
    )


def test_build_before_a_claimed_release_is_a_note():
    (verdict,) = versions(lambda version: version.startswith("2.11"), applies_to=">=2.11,<2.12")
    assert (verdict.code, verdict.kind, verdict.colour) == ("PG201", Kind.WARNING, Colour.GREY)
    assert "2.11.0.dev20260101 to 2.11.0rc5" in verdict.actual


def test_not_applying_inside_the_claim_is_named_with_its_versions():
    (verdict,) = versions(lambda version: version == "2.11.0", applies_to="==2.11.0")
    assert (verdict.code, verdict.actual) == (
        "PG202",
        "does not apply on 2.11.0+cpu to 2.11.0+cu130 (2 of 12 versions that were tried)",
    )


def test_a_gate_may_be_wrong_in_both_ways():
    codes = [
        verdict.code
        for verdict in versions(lambda version: version == "2.10.0", applies_to="==2.11.0")
    ]
    assert codes == ["PG201", "PG202"]


def test_without_a_claim_it_is_only_told_where_the_patch_applies():
    (verdict,) = versions(lambda version: version in ("2.11.0", "2.11.1"))
    assert (verdict.code, verdict.kind) == ("PG211", Kind.NOTE)
    assert verdict.actual == "changes torch or its settings on 2.11.0, 2.11.1"


def test_without_a_claim_a_setting_counts_as_a_change():
    setting = {"changed": [], "effects": [{"kind": "config", "name": "torch.x", "older": []}]}
    (verdict,) = judge_versions(CASE, patch(), {TORCH: setting}, "patch.toml:2", AGAIN)
    assert verdict.actual == "changes torch or its settings on 2.11.0"
    (verdict,) = versions(lambda version: False)
    assert verdict.actual == "changes nothing of torch"


def test_a_faked_version_under_which_the_patch_does_not_run_is_noted_and_left_out():
    note, verdict = versions(
        is_release, ("2.12.0", "2.10.0"), applies_to="==2.11.0,!=2.11.0.post1"
    )[:2]
    assert (note.kind, note.colour) == (Kind.NOTE, Colour.GREEN)
    assert (
        note.actual
        == "cannot tell for 2.10.0, 2.12.0: the patch does not run there on torch 2.11.0"
    )
    assert (verdict.code, verdict.actual) == (
        "PG201",
        "applies on 2.11.0.post1 (1 of 10 versions that were tried)",
    )


@pytest.mark.parametrize(
    ("version", "signature", "source", "codes"),
    [
        ("2.11.0a0+git1234", "ValueError: invalid literal", "int(version)", ["PG210", "PG211"]),
        ("2.11.0+cpu", "packaging.version.InvalidVersion: x", "x()", ["PG210", "PG211"]),
        ("2.11.0rc5", "ValueError: refused", "raise ValueError('refused')", ["PG211", "PG211"]),
        ("2.11.0rc5", "AttributeError: no such name", "older()", ["PG211", "PG211"]),
        ("2.11.0.post1", "ValueError: invalid literal", "int(version)", ["PG211", "PG211"]),
        ("2.12.0", "ValueError: invalid literal", "int(version)", ["PG211", "PG211"]),
    ],
)
def test_a_patch_that_cannot_read_the_version_of_a_build_is_red(version, signature, source, codes):
    failure = {"cause": "raised", "stage": "patch", "signature": signature}
    failing = {version: {"failure": {**failure, "where": "/p/patch.py:1"}}}
    mine = replace(patch(applies_to=">=2.11.0.dev0"), source=f"{source}\n")
    told = answers(lambda each: Version(each) >= Version("2.11.0.dev0")) | failing
    judged = list(judge_versions(CASE, mine, told, "patch.toml:2", AGAIN))
    assert [verdict.code for verdict in judged] == codes


def test_a_patch_that_does_not_run_under_its_own_version_has_one_verdict(folder):
    (verdict,) = versions(is_release, ("2.11.0", "2.12.0"), applies_to="==2.11.0")
    assert (verdict.code, verdict.actual, next_step(verdict.advice, verdict.commands)) == (
        "PG210",
        "ImportError: no name, during `patch`",
        "correct the patch; then: patchgate gate patch.py",
    )


@pytest.mark.parametrize("cause", Cause)
def test_a_patch_that_does_not_run_is_red_unless_the_machine_failed(cause):
    failure = Failure(cause=cause, stage="patch", signature="boom", where="patch.py:3")
    verdict = does_not_run(CASE, failure, patch(), AGAIN)
    grey = {Cause.MACHINE: "PG905", Cause.MISSING: "PG228"}
    assert (verdict.code, verdict.colour) == (
        (grey[cause], Colour.GREY) if cause in grey else ("PG210", Colour.RED)
    )
    assert (verdict.where, verdict.actual) == ("patch.py:3", failure.text)


def test_a_patch_for_releases_that_nobody_supports_is_red():
    told = list(
        judge_support(CASE, patch(applies_to="<2.10"), ["2.11.0", "2.12.1"], "patch.toml:2")
    )
    assert [(v.code, v.where) for v in told] == [("PG220", "patch.toml:2")]
    assert told[0].actual == "<2.10 holds none of 2.11.0, 2.12.1"


def test_a_backport_for_releases_that_its_project_supports_is_green_and_says_where_it_applies():
    supported = ["2.6.0", "2.9.0", "2.9.1", "2.10.0", "2.11.0"]
    (told,) = judge_support(
        CASE, patch(applies_to="<2.10"), supported, "patch.toml:2", "torch>=2.6 in pyproject.toml"
    )
    assert (told.colour, told.expected) == (
        Colour.GREEN,
        "applies on a release of torch>=2.6 in pyproject.toml",
    )
    assert told.actual.startswith("applies on 2.6.0, 2.9.0 to 2.9.1, and not on ")
    assert list(judge_support(CASE, patch(applies_to=">=2"), [TORCH], "patch.toml:2")) == []


@pytest.mark.parametrize(
    ("table", "first", "stated"),
    [
        ('torch_range = ">=2.8,<2.12"', "2.8.0", "torch>=2.8,<2.12 in pyproject.toml"),
        ("", "", ""),
    ],
)
def test_the_project_states_which_releases_a_patch_is_for(folder, table, first, stated):
    (folder / "pyproject.toml").write_text(f"[tool.patchgate]\n{table}\n")
    (folder / "mine.py").write_text("")
    supported, where = supported_releases(folder / "mine.py")
    assert where == stated
    if first:
        assert supported[0] == first
        assert "2.13.0" not in supported
    else:
        assert supported == [release.torch for release in load_matrix()]


def test_a_patch_may_apply_by_setting_an_option_only():
    option = "torch.config.tag"
    told = {
        "changed": [],
        "effects": [{"kind": "config", "name": option, "older": [], "what": "", "line": 1}],
    }
    settings = dict.fromkeys(versions_around(TORCH), told)
    (verdict,) = judge_versions(
        CASE, patch(applies_to=">=2", targets=(option,)), settings, "patch.toml:2", AGAIN
    )
    assert verdict.code == "PG211"


@pytest.mark.parametrize("claims", [{}, {"applies_to": "==2.12.1"}, {"applies_to": ">=2.12"}])
def test_a_patch_for_one_release_that_is_supported_is_not(claims):
    assert list(judge_support(CASE, patch(**claims), ["2.11.0", "2.12.1"], "patch.toml:2")) == []


@pytest.mark.parametrize(
    ("missing", "setting", "typed"),
    [
        (
            ("acme", "tqdm"),
            "install what is missing next to torch; `requires` in ",
            ["patchgate gate --requires acme --requires tqdm"],
        ),
        ((), 'install = "." in [tool.patchgate] of ', []),
    ],
)
def test_what_is_not_installed_is_named_all_at_once_with_one_command(missing, setting, typed):
    failure = Failure(cause=Cause.MISSING, stage="patch", signature="RuntimeError", missing=missing)
    verdict = does_not_run(CASE, failure, patch(), AGAIN)
    assert verdict.advice.startswith(setting)
    assert list(map(str, verdict.commands)) == typed
    assert not verdict.is_judged


@pytest.mark.parametrize(
    ("required", "code"), [("torch-npu==2.10", "PG228"), ("torch==2.10", "PG210")]
)
def test_a_device_that_a_required_package_adds_to_torch_is_missing(tmp_path, required, code):
    (tmp_path / "setup.py").touch()
    (tmp_path / "requirements.txt").write_text(required)
    failure = Failure(
        cause=Cause.RAISED,
        stage="patch",
        signature="AttributeError: no npu",
        missing=("torch.npu",),
    )
    verdict = does_not_run(CASE, failure, replace(patch(), path=str(tmp_path / "fix.py")), AGAIN)
    assert verdict.code == code
    assert ("--requires torch_npu" in str(verdict.commands)) is (code == "PG228")
