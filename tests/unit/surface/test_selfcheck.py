"""False alarms: torch's own torch/_inductor, each file read as if it were a patch. Needs sources, not torch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from toyrelease import ToyRelease

from patchgate.surface.findings import Severity
from patchgate.surface.lint import lint_source

PACKAGES = ("_inductor", "_dynamo", "fx", "_functorch", "_subclasses", "_higher_order_ops")
# Every finding that is known to be one, and why. Anything else is a false alarm or a bug of torch's.
EXPLAINED = {
    "torch._inductor.fb": "a package of the maintainers' own, never shipped; its imports run only under is_fbcode()",
    "`fb` missing": "the same package, reached by mock.patch in mock_cache.py",
}


def site_packages() -> Path:
    python = os.environ.get("PATCHGATE_ROW_2_11_0")
    if not python:
        pytest.skip("PATCHGATE_ROW_2_11_0 (a python with torch 2.11.0) is not set")
    found = sorted(Path(python).parent.parent.glob("lib/python*/site-packages/torch/_inductor"))
    if not found:
        pytest.skip(f"no torch below {python}")
    return found[0].parent.parent


def test_torch_itself_gives_less_than_one_finding_in_ten_thousand_lines() -> None:
    root = site_packages()
    texts = {
        ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): file.read_text()
        for package in PACKAGES
        for file in (root / "torch" / package).rglob("*.py")
    }
    release = ToyRelease("2.11.0", texts)
    own = {name: text for name, text in texts.items() if name.startswith("torch._inductor")}
    findings = [each for name, text in own.items() for each in lint_source(text, name, (release,))[0]]
    red = [each for each in findings if each.severity is Severity.RED]
    lines = sum(text.count("\n") for text in own.values())
    assert len(findings) < lines / 10_000
    assert [each.message for each in red if not any(reason in each.message for reason in EXPLAINED)] == []
