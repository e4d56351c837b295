"""PG123, PG124, PG125, PG132: comparisons of versions whose meaning differs from their text.

Quiet for `.public` and `.release`, for equality of texts, and for bounds with `.dev0`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Finding, Severity, View
from patchgate.model.records import read_codes

COMPARED_AS_TEXT, LOCAL_VERSION, PRERELEASE, SPLIT_MINOR = read_codes("""
PG123 versions compared as text
    A version check compares two plain strings, or lists of strings, by order, or a version that was
    made a number.
    Why: As text, "2.9" is greater than "2.10", and "9" than "10"; as a number 2.10 is 2.1.
    Fix: Compare `packaging.version.Version` objects, or `torch.__version__` itself.
PG124 local version compared
    The comparison gives another answer for 2.11.0 than for 2.11.0+cu130.
    Why: By PEP 440 a local version is greater than its public version and never equal to it; wheels
    carry a local version.
    Fix: Compare `Version(torch.__version__).public`, `.base_version` or `.release`.
PG125 prerelease compared
    For nightlies and release candidates the version check gives another answer than for their
    release.
    Why: 2.12.0.dev sorts below 2.12.0, though it already has most of the changes of 2.12.0.
    Fix: Write the bound as `2.12.0.dev0` (or compare `.release`) when nightlies should count as
    2.12.
PG132 version check separates patch releases
    The version check gives another answer for 2.12.0 than for 2.12.1, and its bound is 2.12.
    Why: 2.12 means 2.12.0, so that `<= 2.12` is false on 2.12.1, whose users get other code.
    Fix: Write `< 2.13` for all of 2.12, or name the patch release that is meant: `<= 2.12.0`.
""")


def check(views: Sequence[View]) -> Iterator[Finding]:
    wrong = {each.span for view in views for each in view.usage.comparisons if each.traps.misorders}
    for view in views:
        for comparison in view.usage.comparisons:
            traps, span, text = comparison.traps, comparison.span, f"`{comparison.text}`"
            if traps.textual:
                severity = Severity.RED if span in wrong else Severity.NOTE
                fix = "compare `Version(...)` on both sides"
                yield view.finding(
                    COMPARED_AS_TEXT,
                    span,
                    f"{text} compares plain strings",
                    severity=severity,
                    fix=fix,
                )
            if traps.numeric:
                message = f"{text} reads the version as a number: 2.10 becomes 2.1"
                yield view.finding(
                    COMPARED_AS_TEXT, span, message, fix="compare `Version(...)` on both sides"
                )
            if traps.local:
                message = f"{text} gives another answer for builds with a local version (`+cu130`)"
                fix = "compare `Version(torch.__version__).public`, or `.release`"
                yield view.finding(LOCAL_VERSION, span, message, fix=fix)
            if traps.splits:
                minor = ".".join(view.version.split(".")[:2])
                message = f"{text} separates {minor}.0 from {minor}.1"
                yield view.finding(SPLIT_MINOR, span, message, severity=Severity.NOTE)
            if traps.nightly_below or traps.nightly_above:
                side = (
                    "counts nightlies as older than their release"
                    if traps.nightly_below
                    else "leaves release candidates out"
                )
                fix = "write the bound with `.dev0` when nightlies should count as the release"
                yield view.finding(
                    PRERELEASE, span, f"{text} {side}", severity=Severity.NOTE, fix=fix
                )
