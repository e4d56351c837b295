"""Lint findings as JSON, for programs.

Decides the field names; `schema` grows when one of them changes its meaning.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from patchgate.lint.findings import Finding
from patchgate.lint.run import Report

SCHEMA = 1


def as_json(report: Report) -> str:
    data = {
        "schema": SCHEMA,
        "files": list(report.files),
        "releases": list(report.releases),
        "findings": [_finding(each) for each in report.findings],
        "names": [asdict(each) for each in report.names],
    }
    return json.dumps(data, indent=1) + "\n"


def _finding(each: Finding) -> dict[str, object]:
    return {
        "code": each.code,
        "severity": each.severity.value,
        "path": each.path,
        "line": each.spot.line,
        "column": each.spot.column,
        "width": each.spot.width,
        "releases": list(each.releases),
        "range": each.shown_releases,
        "message": each.message,
        "fix": each.fix,
        "evidence": each.evidence,
        "detail": each.detail,
    }
