"""`patchgate index`: what each command says, and its usage errors; wheels come from memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from toyindex import index_of

from patchgate.cli.index import index_group
from patchgate.lint.index import wheel
from patchgate.lint.index.wheel import Fetched, Wanted
from patchgate.model.errors import UsageError

A = {"torch.fx.a": "def f(x): ...\n"}
B = {"torch.fx.a": "def f(x, y): ...\n"}


def fetch(project: str, requirement: str, wanted: Wanted) -> Fetched:
    if project == "triton":
        assert requirement == "~=3.8.0"
        return Fetched(
            version="3.8.1",
            files=[("triton/runtime/jit.py", "class JITFunction: ...\n")],
            bytes_read=5,
        )
    assert (
        requirement in ("==2.8", "==2.8.0")
        and wanted("torch/fx/a.py")
        and not wanted("torch/testing/a.py")
    )
    return Fetched(
        version="2.8.0",
        files=[("torch/fx/a.py", "def f(x, y, z): ...\n")],
        requires=('Requires-Dist: triton~=3.8.0; platform_system == "Linux"',),
        bytes_read=10_000_000,
        whole=True,
    )


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    index_of(tmp_path, {"2.6.0": A, "2.7.0": B})
    monkeypatch.setattr(wheel, "fetch", fetch)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(index_group, [*arguments, "--folder", str(tmp_path)])

    return run


def test_list(run) -> None:  # type: ignore[no-untyped-def]
    assert run("list").output == "2.6.0  1 modules\n2.7.0  1 modules\n"


def test_diff(run) -> None:  # type: ignore[no-untyped-def]
    assert run("diff", "2.6.0", "2.7.0").output == "torch.fx.a\n  ~ f(x) -> f(x, y)\n"
    assert run("diff", "2.6.0", "2.6.0").output == "no change from 2.6.0 to 2.6.0\n"
    assert "did you mean `2.7.0`?" in str(run("diff", "2.6.0", "2.7.1").exception)
    assert isinstance(run("diff", "2.6.0", "2.7.0", "torch.fx.absent").exception, UsageError)


def test_a_name_that_is_none_is_not_without_change() -> None:
    def said(*arguments: str) -> str:
        return str(CliRunner().invoke(index_group, arguments).exception)

    near = "did you mean `torch._inductor`?"
    assert near in said("diff", "2.12.1", "2.13.0", "torch._inductr")
    assert near in said("drift", "torch._inductr.ir")
    misspelt = "torch._inductor.ir.StorageBox.shuld_realize"
    assert "StorageBox.should_realize_on_reuse`?" in said("drift", misspelt)


def test_drift(run) -> None:  # type: ignore[no-untyped-def]
    assert run("drift", "torch.fx.a.f").output == (
        "torch.fx.a.f\n  2.6.0 -> 2.7.0: signature f(x) -> f(x, y)\n"
    )
    assert (
        run("drift", "torch.fx.a.f", "--torch", ">=2.7").output
        == "torch.fx.a.f: no change from 2.7.0 to 2.7.0\n"
    )
    assert isinstance(run("drift", "torch.fx.a.g").exception, UsageError)
    for torch in ("x", ">=9", "2.7.3"):
        refused = run("drift", "torch.fx.a.f", "--torch", torch).exception
        assert isinstance(refused, UsageError)
        assert refused.where == "--torch"
    assert run("drift", "torch.fx.a.f", "--torch", "2.7").output.endswith("from 2.7.0 to 2.7.0\n")


def test_add(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    lines = run("add", "2.8").output.splitlines()
    assert lines[:2] == [
        "torch 2.8.0: 1 sources, 10.0 MB downloaded whole: the package index does not support "
        "range requests",
        "triton 3.8.1: 1 sources, 0.0 MB read by ranges",
    ]
    assert run("list").output.splitlines()[-1] == "2.8.0  2 modules, triton 3.8.1"
    assert (tmp_path / "api" / "torch.fx.a.jsonl").read_text() == (
        '["","def","f","function","",["x"],{"2.6.0":["2ae2f2"]}]\n'
        '["","def","f","function","",["x","y"],{"2.7.0":["2ae2f2"]}]\n'
        '["","def","f","function","",["x","y","z"],{"2.8.0..":["2ae2f2"]}]\n'
    )
    once = {file: file.read_bytes() for file in tmp_path.rglob("*.json*")}
    run("add", "2.8.0")
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.json*")} == once


def test_usage_errors(tmp_path: Path) -> None:
    empty = CliRunner().invoke(index_group, ["list", "--folder", str(tmp_path)])
    assert "no index there" in str(empty.exception)
    wrong = CliRunner().invoke(index_group, ["add", "newest", "--folder", str(tmp_path)])
    assert "not a version" in str(wrong.exception)
