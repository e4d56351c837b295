"""False alarms: torch's own torch/_inductor, each file read as if it were a patch.

Needs sources, not torch.
"""

from __future__ import annotations

import os
from pathlib import Path
from zlib import crc32

import pytest

from patchgate.lint.index.release import load
from patchgate.lint.run import lint_source

# Every finding that is known to be one, and why. Anything else is a false alarm or a bug of
# torch's.
EXPLAINED = {
    "module `torch._inductor.fb.": (
        "a package of the maintainers' own, never shipped; runs only under is_fbcode()"
    ),
    "`fb` missing on `torch._inductor`": "the same package, reached by mock.patch in mock_cache.py",
    "`fb` missing on `triton`": "its twin in the maintainers' own triton, in mock_cache.py too",
    (
        "PG114 `compile` is a class method"
    ): "a note, and it holds: compile_utils.py puts a plain function there for calls"
    " on the class alone",
    (
        "PG111 `self_device_time_total` missing on `torch.autograd.profiler_util.EventList`"
    ): "a note, and it holds: the annotation names the list where it means an element of it",
    (
        "PG113 replacement of `CUDACodeCache.compile` takes `extra_args`"
    ): "a note, and it holds: the same function takes"
    " the arguments and calls the original without them",
}


def site_packages() -> Path:
    python = os.environ.get("PATCHGATE_ROW_2_11_0")
    if not python:
        pytest.skip("PATCHGATE_ROW_2_11_0 (a python with torch 2.11.0) is not set")
    found = sorted(Path(python).parent.parent.glob("lib/python*/site-packages/torch/_inductor"))
    if not found:
        pytest.skip(f"no torch below {python}")
    return found[0].parent.parent


# One file in four before a merge, by its name, and the others at night.
@pytest.mark.parametrize(
    "quarter", [0, *(pytest.param(each, marks=pytest.mark.nightly) for each in (1, 2, 3))]
)
def test_torch_itself_gives_less_than_one_finding_in_ten_thousand_lines(quarter: int) -> None:
    root = site_packages()
    files = {
        each.relative_to(root).as_posix(): each
        for each in (root / "torch" / "_inductor").rglob("*.py")
    }
    own = {
        path: file.read_text()
        for path, file in files.items()
        if crc32(path.encode()) % 4 == quarter
    }
    release = load("2.11.0")
    findings = [
        each for path, text in own.items() for each in lint_source(text, path, (release,))[0]
    ]
    lines = sum(text.count("\n") for text in own.values())
    assert len(findings) < lines / 10_000
    told = [f"{each.path}: {each.code} {each.message}" for each in findings]
    assert [each for each in told if not any(reason in each for reason in EXPLAINED)] == []
