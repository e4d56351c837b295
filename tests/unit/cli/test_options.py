"""A row is asked before anything runs on it: is it there, is it Python, has it torch, and the torch
of its label.
"""

import os
import sys

import pytest
from expecttest import assert_expected_inline

from patchgate.cli import options
from patchgate.cli.options import cases_at_once
from patchgate.model.errors import UsageError
from patchgate.runs.plan import problems_of, rows_of


@pytest.fixture
def interpreter(folder):
    """Makes a program that says what an interpreter would."""

    def make(text, name="python"):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        os.chmod(folder / name, 0o755)
        return str(folder / name)

    return make


def having(torch):
    return f"""echo '{{"torch": "{torch}", "home": "here"}}'"""


@pytest.mark.parametrize(
    ("label", "has"),
    [
        ("2.12.1", "2.12.1"),
        ("2.13.0", "2.13.0+cpu"),
        ("2.13.0+cpu", "2.13.0+cpu"),
        ("2.13.0+git0123456789ab", "2.13.0"),
        ("2.16.0.dev20261120", "2.16.0.dev20261120+cu130"),
    ],
)
def test_a_row_with_the_torch_of_its_label_is_taken(interpreter, label, has):
    python = interpreter(having(has))
    assert rows_of([f"{label}={python}"]) == {label: python}


@pytest.mark.parametrize("has", ["2.12.1", "2.11.1", "2.11.0.dev20260101", "none"])
def test_a_row_with_another_torch_is_refused(interpreter, has):
    with pytest.raises(UsageError, match=r"another torch than 2\.11\.0"):
        rows_of([f"2.11.0={interpreter(having(has))}"])


def test_a_wrong_label_is_reported_with_the_right_one(interpreter):
    interpreter(having("2.12.1+cpu"), "a python")
    with pytest.raises(UsageError) as told:
        rows_of(["2.11.0=./a python"])
    assert_expected_inline(
        str(told.value).replace(os.getcwd(), "HERE"),
        """\
--row: this interpreter has another torch than 2.11.0
  got:  2.11.0=HERE/a python, which has torch 2.12.1+cpu
  next: --row 2.12.1='HERE/a python', or the interpreter that has torch 2.11.0""",
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("exit 0", "not a Python that reports its torch"),
        ("echo oh >&2; exit 1", "not a Python that reports its torch"),
        ("head -c 9 /dev/urandom", "not a Python that reports its torch"),
    ],
)
def test_what_is_no_python_is_refused(interpreter, text, what):
    with pytest.raises(UsageError, match=what):
        rows_of([f"2.11.0={interpreter(text)}"])


def test_an_interpreter_that_is_not_there_is_refused(folder):
    with pytest.raises(UsageError, match="no interpreter that can be started"):
        rows_of([f"2.11.0={folder}/nowhere/python"])


def test_a_python_without_torch_is_refused_also_beside_a_folder_of_that_name(folder):
    (folder / "torch").mkdir()
    with pytest.raises(UsageError, match="no torch in this environment"):
        rows_of([f"2.11.0={sys.executable}"])


def test_whoever_starts_it_stands_elsewhere(interpreter, folder):
    interpreter(having("2.11.0"))
    assert rows_of(["2.11.0=./python"]) == {"2.11.0": f"{folder}/python"}


@pytest.mark.parametrize("text", ["2.11.0", "=python", "2.11.0=", "newest=python"])
def test_what_is_no_row_is_refused(text):
    for read in (rows_of, problems_of):
        with pytest.raises(UsageError, match="not TORCH=VALUE"):
            read([text])


def test_the_reason_of_a_problem_may_hold_anything():
    assert problems_of(["2.11.0=a = b"]) == {"2.11.0": "a = b"}


@pytest.mark.parametrize(
    ("cores", "gib", "files", "cases"),
    [
        (16, 128, {}, 16),
        (16, 8, {}, 4),
        (1, 1, {}, 2),
        (12, 512, {"cpu.max": "max 100000", "memory.max": "max"}, 12),
        (64, 512, {}, 16),
        (64, 512, {"cpu.max": "400000 100000"}, 4),
        (64, 512, {"memory.max": str(12 << 30)}, 6),
    ],
)
def test_as_many_cases_run_as_there_are_cores_and_memory_for(
    tmp_path, monkeypatch, cores, gib, files, cases
):
    sizes = {"SC_PHYS_PAGES": gib << 18, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(cores))
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    monkeypatch.setattr(options, "_CONTAINER", tmp_path)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert cases_at_once() == cases
