"""Lint findings as SARIF 2.1.0, for code scanning. Decides the mapping; the catalogue gives the rules."""

from __future__ import annotations

import json
from pathlib import Path

from patchgate.checks.codes.lint import CODES
from patchgate.lint.findings import Finding, Severity
from patchgate.lint.run import Report


def as_sarif(report: Report) -> str:
    rules = [
        {
            "id": code.code,
            "shortDescription": {"text": code.title},
            "fullDescription": {"text": f"{code.what} {code.why}"},
            "help": {"text": code.fix},
        }
        for code in CODES
    ]
    run = {
        "tool": {"driver": {"name": "patchgate", "rules": rules}},
        "results": [_result(each) for each in report.findings],
    }
    return json.dumps({"version": "2.1.0", "$schema": _SCHEMA, "runs": [run]}, indent=1) + "\n"


_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def _result(each: Finding) -> dict[str, object]:
    releases = f" [{each.shown_releases}]" if each.shown_releases else ""
    fix = f"; {each.fix}" if each.fix else ""
    region = {
        "startLine": each.spot.line,
        "startColumn": each.spot.column,
        "endColumn": each.spot.column + each.spot.width,
    }
    artifact = {"uri": Path(each.path).as_posix()}
    return {
        "ruleId": each.code,
        "level": "error" if each.severity is Severity.RED else "note",
        "message": {"text": f"{each.message}{releases}{fix}"},
        "locations": [{"physicalLocation": {"artifactLocation": artifact, "region": region}}],
    }
