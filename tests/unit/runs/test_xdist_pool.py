"""Cases are spread over pytest-xdist's workers: each once, with its result, or an error that says which has none."""

import json
import os
import subprocess
import sys

import pytest

WORK = """
import os

def work_on(settings):
    def work(case):
        if case == "bad":
            raise ValueError("no such case")
        if case == "dies":
            os._exit(1)
        return {"case": case, "settings": settings}
    return work
"""
CALL = """
import json, sys
from patchgate.runs.xdist_pool import carry_out

done, lost = [], {}
cases, workers = json.loads(sys.argv[1])
keep = {"lost": lost.__setitem__} if "--keep" in sys.argv else {}
results = carry_out(
    "work", {"torch": "2.11.0"}, cases, workers=workers, done=lambda case, result: done.append(case), **keep
)
print(json.dumps([results, done, lost]))
"""


@pytest.fixture
def carried_out(tmp_path):
    """Carries out cases in a process of its own, as a command does; gives (results, order, error)."""
    (tmp_path / "work.py").write_text(WORK)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}

    def call(*cases, workers, options=()):
        command = [sys.executable, "-c", CALL, json.dumps([cases, workers]), *options]
        ended = subprocess.run(command, env=environment | {"PYTHONPATH": path}, capture_output=True, text=True)
        results, done, lost = json.loads(ended.stdout) if ended.returncode == 0 else (None, None, None)
        return results, done, lost if options else ended.stderr

    return call


def test_every_case_has_its_result_and_is_reported_once(carried_out):
    cases = [f"a case: {number}/[{number}]" for number in range(5)]
    results, done, error = carried_out(*cases, workers=2)
    assert error == ""
    assert results == {case: {"case": case, "settings": {"torch": "2.11.0"}} for case in cases}
    assert sorted(done) == cases


def test_a_case_that_raises_is_named_with_its_reason(carried_out):
    results, _, error = carried_out("good", "bad", workers=1)
    assert results is None
    assert "RuntimeError: bad ended without a result" in error
    assert "no such case" in error


def test_cases_that_are_lost_are_named_with_their_own_reasons_and_the_others_go_on(carried_out):
    results, done, lost = carried_out("good", "bad", "dies", "another", workers=2, options=["--keep"])
    assert sorted(results) == sorted(done) == ["another", "good"]
    assert "no such case" in lost["bad"]
    assert "crashed" in lost["dies"]
