"""Every check with its question and every verdict code with its texts, as one Markdown page: docs/verdicts.md."""

from __future__ import annotations

from collections.abc import Iterator

from patchgate.checks.registry import all_checks, catalogue


def render_catalogue() -> Iterator[str]:
    """Lines of docs/verdicts.md."""
    yield "# Every check and every verdict code"
    yield ""
    yield "Written by `patchgate explain --markdown`; a test keeps it so. A check is a file in `patchgate/checks`; its"
    yield "codes are explained below; `patchgate explain CODE` says the same."
    yield ""
    yield "| listed as | check | question |"
    yield "| --- | --- | --- |"
    for check in all_checks().values():
        yield f"| {check.family} | {check.name} | {check.question} |"
    for code in catalogue().values():
        fix = "; ".join([code.fix, *map(str, code.commands)])
        yield from ("", f"## {code.code} {code.title}", "", code.what, "", f"Why: {code.why}", "", f"Fix: {fix}")
