"""Damaged inputs: each is read or refused in words, and none ends in a traceback.

A hundred thousand of them by `python -m benchmarks.mutations`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.mutations.__main__ import fault_of, faults, mutation
from benchmarks.mutations.readers import KINDS, workloads_of, written
from patchgate.inputs.golden import read_golden
from patchgate.inputs.patch import load_claims, load_patch
from patchgate.model.errors import UsageError
from patchgate.model.paths import WORKLOADS

# Mutations of each kind.
COUNT = 40


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_input_is_read_or_refused_in_words(kind):
    assert faults(kind, 1, range(COUNT)) == []


def test_a_mutation_is_made_again_by_its_number(tmp_path):
    first, again, other = (mutation("manifest", 1, number, tmp_path) for number in (7, 7, 8))
    assert first == again != other


@pytest.mark.parametrize("hurt", [KeyError, RecursionError, MemoryError, OSError])
def test_an_error_without_words_is_a_finding(hurt, tmp_path):
    def read(folder: Path, data: bytes) -> None:
        raise hurt(data)

    assert hurt.__name__ in fault_of(read, tmp_path, b"x")


def test_a_reader_that_does_not_end_is_a_finding(tmp_path, monkeypatch):
    def read(folder: Path, data: bytes) -> None:
        while True:
            pass

    monkeypatch.setattr("benchmarks.mutations.__main__.SECONDS", 0.05)
    assert "no end within" in fault_of(read, tmp_path, b"x")


# Each ended in a traceback once.
FOUND = {
    "a number beyond every float": (
        "journal",
        b'{"key": "k"}\n{"name": "a", "seconds": ' + b"9" * 400 + b"}\n",
    ),
    "a tolerance beyond every float": (
        "workload",
        (WORKLOADS / "pointwise.py").read_bytes() + b"READS = (" + b"9" * 400 + b",)\n",
    ),
    "signs beyond the parser": ("requirements", b"-" * 9000),
    "digits beyond a version's": ("requirements", b"torch==2." + b"9" * 5000),
    "brackets beyond JSON": ("digests", b'{"a":' * 3000),
    "half a character": (
        "again run.json",
        b'{"folder": "", "patch": "x", "rows": {}, "project": {"root": "\\ud800"}}',
    ),
    "a name beyond a file's": (
        "again run.json",
        b'{"folder": "", "patch": "' + b"a" * 5000 + b'", "rows": {"2.11.0": "python"}}',
    ),
    "a workload beyond a file's name": (
        "again observations/pointwise.h200.2.11.0.mine.json",
        b'{"case": {"torch": "2.11.0", "device": "h200", "workload": "'
        + b"a" * 300
        + b'"}, "facts": {"loads": 1}}',
    ),
    "facts of no release": (
        "again observations/pointwise.h200.2.11.0.mine.json",
        b'{"case": {"torch": "", "device": "h200", "workload": "pointwise", "patch": "vllm-42686"}}',
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_once_ended_in_a_traceback(name, tmp_path):
    kind, data = FOUND[name]
    assert fault_of(KINDS[kind][0], tmp_path / "read", data) == ""


@pytest.mark.parametrize("kind", ["manifest", "golden", "workload", "diff"])
def test_a_pipe_that_nobody_writes_hangs_nobody(kind, tmp_path):
    names = {
        "manifest": "patch.toml",
        "golden": "golden.txt",
        "workload": "workloads/mine.py",
        "diff": "change.diff",
    }
    path = tmp_path / names[kind]
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    readers = {
        "manifest": lambda: load_claims(path),
        "golden": lambda: read_golden(path, "pointwise", "h200"),
        "workload": lambda: workloads_of(written(tmp_path / "patch.py", b"x = 1\n").parent),
        "diff": lambda: load_patch(path),
    }
    with pytest.raises(UsageError):
        readers[kind]()
