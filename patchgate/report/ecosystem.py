"""Render the findings of lint in many projects as a page in Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from patchgate.lint.ecosystem import Project
from patchgate.lint.findings import Finding, When, first_after
from patchgate.lint.run import Report
from patchgate.model.versions import in_order

Judged = tuple[Project, Report, str]
# The page shows at most this many findings of a project.
_FIRST = 3
_SOON = (When.NOW, When.NEXT)


def as_markdown(judged: Sequence[Judged]) -> str:
    """The page: first the projects that are broken now, then the projects that the next release
    breaks.
    """
    lines = [
        "| project | files | newest torch | broken now | next that breaks | places | needs |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    ordered = sorted(judged, key=lambda each: [-len(_of(each[1], when)) for when in _SOON])
    lines += [_row(project, report) for project, report, _ in ordered]
    for project, report, root in ordered:
        soon = [each for when in _SOON for each in _of(report, when)]
        if soon:
            lines += ["", f"## {project.repository}", ""]
            lines += [_line(project, each, root) for each in soon[:_FIRST]]
            lines += [f"* and {len(soon) - _FIRST} more"] if len(soon) > _FIRST else []
    return "\n".join(lines) + "\n"


def _of(report: Report, when: When) -> list[Finding]:
    return [each for each in report.findings if each.when is when]


def _row(project: Project, report: Report) -> str:
    now, later, low = (_of(report, each) for each in (*_SOON, When.LOWER_BOUND))
    breaks = in_order(each.releases[0] for each in later)
    needed = in_order(first_after(each.releases, report.releases) for each in low)
    cells = (
        f"[{project.repository}]({_link(project)})",
        f"{len(report.files)}",
        report.releases[-1] if report.releases else "none indexed",
        f"{len(now)}",
        breaks[0] if breaks else "",
        f"{len(later)}",
        f">= {needed[-1]}" if needed else "",
    )
    return f"| {' | '.join(cells)} |"


def _line(project: Project, finding: Finding, root: str) -> str:
    path = finding.path.removeprefix(root)
    place = f"[{path}:{finding.span.line}]({_link(project)}/{path}#L{finding.span.line})"
    return f"* {place} {finding.code} {finding.message} [{finding.shown_releases}]"


def _link(project: Project) -> str:
    return f"https://github.com/{project.repository}/blob/{project.commit}"


def as_json(judged: Sequence[Judged]) -> str:
    return json.dumps({"schema": 1, "projects": list(map(_project, judged))}, indent=1) + "\n"


def _project(judged: Judged) -> dict[str, object]:
    project, report, root = judged
    return {
        **asdict(project),
        "releases": list(report.releases),
        "files": len(report.files),
        "findings": [
            {
                "when": each.when.value,
                "code": each.code,
                "path": each.path.removeprefix(root),
                "line": each.span.line,
                "name": each.name,
                "message": each.message,
                "releases": list(each.releases),
            }
            for each in report.findings
            if each.when is not None
        ],
    }
