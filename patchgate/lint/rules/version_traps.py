"""PG123, PG124, PG125: comparisons of versions that do not mean what they say.

Quiet for `.public` and `.release`, for equality of texts, and for bounds with `.dev0`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Remark, Severity, View


def check(views: Sequence[View]) -> Iterator[Remark]:
    wrong = {each.span for view in views for each in view.usage.comparisons if each.traps.misorders}
    for view in views:
        for each in view.usage.comparisons:
            traps, text = each.traps, f"`{each.text}`"
            if traps.textual:
                severity = Severity.RED if each.span in wrong else Severity.NOTE
                yield Remark(
                    code="PG123",
                    version=view.version,
                    span=each.span,
                    message=f"{text} orders plain strings",
                    severity=severity,
                    fix="compare `Version(...)` on both sides",
                )
            if traps.local:
                yield Remark(
                    code="PG124",
                    version=view.version,
                    span=each.span,
                    message=f"{text} gives another answer for builds with a local version (`+cu130`)",
                    fix="compare `Version(torch.__version__).public`, or `.release`",
                )
            if traps.nightly_below or traps.nightly_above:
                side = "still counts nightlies as older" if traps.nightly_below else "leaves candidates out"
                yield Remark(
                    code="PG125",
                    version=view.version,
                    span=each.span,
                    message=f"{text} {side}",
                    severity=Severity.NOTE,
                    fix="write the bound with `.dev0` when nightlies should count as the release",
                )
