"""PG117: an option has different defaults in the releases where the patch runs. A note: it may be meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Remark, Severity, View
from patchgate.lint.interpret.lookup import module_of
from patchgate.lint.interpret.references import Live, Presence, Touch


def check(views: Sequence[View]) -> Iterator[Remark]:
    defaults: dict[str, dict[str, tuple[View, Touch, str]]] = {}
    for view in views:
        for touch in view.usage.touches:
            if touch.kind == "config" and touch.presence is Presence.PRESENT and touch.live is Live.LIVE:
                text = _default(view, touch)
                if text is not None:
                    defaults.setdefault(touch.dotted, {}).setdefault(view.version, (view, touch, text))
    for dotted, answers in defaults.items():
        if len({text for _, _, text in answers.values()}) < 2:
            continue
        for view, touch, text in answers.values():
            yield Remark(
                code="PG117",
                version=view.version,
                spot=touch.spot,
                message=f"default of `{dotted}` is `{text}`",
                severity=Severity.NOTE,
            )


def _default(view: View, touch: Touch) -> str | None:
    name = module_of(view.release, touch.dotted)
    module = view.release.module(name)
    text = module.config.get(touch.dotted[len(name) + 1 :]) if module is not None else None
    return " ".join(text.split()) if text is not None and len(text) < 80 else None
