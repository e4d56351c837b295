"""PG117: an option has different defaults in the releases where the patch runs.

A note, because it may be intended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Finding, Severity, View
from patchgate.lint.interpret.references import Presence, Reference
from patchgate.lint.interpret.torch_names import innermost_module
from patchgate.model.records import read_codes
from patchgate.model.versions import show_releases

(DEFAULT_DIFFERS,) = read_codes("""
PG117 config default differs
    An option that the patch reads has different defaults in the releases where it applies.
    Why: The same patch decides differently from one release to the next.
    Fix: Check that the patch is right for each default; set the option where it matters.
""")


def check(views: Sequence[View]) -> Iterator[Finding]:
    known = [view.version for view in views]
    defaults: dict[str, dict[str, tuple[View, Reference, str]]] = {}
    for view in views:
        for reference in view.usage.references:
            if (
                reference.kind == "config"
                and reference.presence is Presence.PRESENT
                and reference.reachable
            ):
                text = _default(view, reference)
                if text is not None:
                    by_version = defaults.setdefault(reference.dotted, {})
                    by_version.setdefault(view.version, (view, reference, text))
    for dotted, by_version in defaults.items():
        if len({text for _, _, text in by_version.values()}) > 1:
            shown: dict[str, list[str]] = {}
            for version, (_, _, text) in by_version.items():
                shown.setdefault(text, []).append(version)
            ranges = ", ".join(
                f"`{text}` {show_releases(versions, known)}" for text, versions in shown.items()
            )
            for view, reference, _ in by_version.values():
                message = f"default of `{dotted}` differs: {ranges}"
                yield view.finding(DEFAULT_DIFFERS, reference.span, message, severity=Severity.NOTE)


def _default(view: View, reference: Reference) -> str | None:
    name = innermost_module(view.release, reference.dotted)
    module = view.release.module(name)
    text = module.config.get(reference.dotted[len(name) + 1 :]) if module is not None else None
    return " ".join(text.split()) if text is not None and len(text) < 80 else None
