"""`# patchgate: ignore[PG111]` comments.

Decides which findings they silence, and which of them silence nothing. Knows no rule.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass

from patchgate.lint.findings import Finding, Severity, lines_of
from patchgate.lint.interpret.references import Span

_FORM = re.compile(r"#\s*patchgate:\s*ignore(?:\[([^\]]*)\])?")


@dataclass(frozen=True, kw_only=True)
class Ignore:
    span: Span
    codes: tuple[str, ...]


def ignores_in(source: str) -> list[Ignore]:
    """Every ignore comment of a file; strings that look like one are none."""
    if "patchgate:" not in source:
        return []
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            match = _FORM.search(token.string) if token.type == tokenize.COMMENT else None
            if match is not None:
                codes = tuple(code.strip() for code in (match.group(1) or "").split(",") if code.strip())
                column = token.start[1] + match.start() + 1
                span = Span(line=token.start[0], column=column, width=len(match.group(0)))
                found.append(Ignore(span=span, codes=codes))
    except (tokenize.TokenError, SyntaxError):
        return found
    return found


def apply_ignores(findings: Sequence[Finding], source: str, path: str) -> list[Finding]:
    """What is left of `findings`, and one finding for each code that an ignore names in vain."""
    kept = list(findings)
    lines = lines_of(source)
    for ignore in ignores_in(source):
        here = [each for each in kept if each.span.line == ignore.span.line]
        silenced = {each.code for each in here if each.code in ignore.codes}
        kept = [each for each in kept if each not in here or each.code not in silenced]
        in_vain = [code for code in ignore.codes if code not in silenced]
        if in_vain or not ignore.codes:
            what = f"silences nothing: {', '.join(in_vain)}" if in_vain else "names no code"
            kept.append(
                Finding(
                    code="PG141",
                    severity=Severity.RED,
                    path=path,
                    span=ignore.span,
                    releases=(),
                    shown_releases="",
                    message=f"ignore {what}",
                    fix="remove it" if in_vain else "write `# patchgate: ignore[PG111]`",
                    line=lines[ignore.span.line - 1],
                )
            )
    return sorted(kept, key=lambda each: (each.span, each.code))
