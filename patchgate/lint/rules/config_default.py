"""PG117: an option has different defaults in the releases where the patch runs. A note: it may be meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Remark, Severity, View
from patchgate.lint.interpret.references import Presence, Reference
from patchgate.lint.interpret.torch_names import module_of


def check(views: Sequence[View]) -> Iterator[Remark]:
    defaults: dict[str, dict[str, tuple[View, Reference, str]]] = {}
    for view in views:
        for reference in view.usage.references:
            if reference.kind == "config" and reference.presence is Presence.PRESENT and reference.reachable:
                text = _default(view, reference)
                if text is not None:
                    defaults.setdefault(reference.dotted, {}).setdefault(view.version, (view, reference, text))
    for dotted, answers in defaults.items():
        if len({text for _, _, text in answers.values()}) < 2:
            continue
        for view, reference, text in answers.values():
            yield Remark(
                code="PG117",
                version=view.version,
                span=reference.span,
                message=f"default of `{dotted}` is `{text}`",
                severity=Severity.NOTE,
            )


def _default(view: View, reference: Reference) -> str | None:
    name = module_of(view.release, reference.dotted)
    module = view.release.module(name)
    text = module.config.get(reference.dotted[len(name) + 1 :]) if module is not None else None
    return " ".join(text.split()) if text is not None and len(text) < 80 else None
