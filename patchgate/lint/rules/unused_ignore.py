"""PG141: a comment `# patchgate: ignore[PG111]` that silences nothing.

A comment with the code of a finding on its line removes that finding.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Sequence

from patchgate.lint.findings import Finding, finding_in_file
from patchgate.lint.interpret.references import Span
from patchgate.model.records import read_codes, record

(UNUSED_IGNORE,) = read_codes("""
PG141 unused ignore
    A `# patchgate: ignore[...]` comment silences nothing on its line.
    Why: It would hide a later, different finding.
    Fix: Remove the comment.
""")
_FORM = re.compile(r"#\s*patchgate:\s*ignore(?:\[([^\]]*)\])?")


@record
class Ignore:
    """One ignore comment, and the codes in its brackets."""

    span: Span
    codes: tuple[str, ...]


def ignores_in(source: str) -> list[Ignore]:
    """Every ignore comment of a file; a string with the same text does not count."""
    if "patchgate:" not in source:
        return []
    ignores = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            match = _FORM.search(token.string) if token.type == tokenize.COMMENT else None
            if match is not None:
                codes = tuple(
                    code.strip() for code in (match.group(1) or "").split(",") if code.strip()
                )
                column = token.start[1] + match.start() + 1
                span = Span(line=token.start[0], column=column, width=len(match.group(0)))
                ignores.append(Ignore(span=span, codes=codes))
    except (tokenize.TokenError, SyntaxError):
        return ignores
    return ignores


def apply_ignores(findings: Sequence[Finding], source: str, path: str) -> list[Finding]:
    """Remove the findings that a comment ignores, and add a finding for each comment that silences
    nothing.
    """
    ignores = ignores_in(source)
    ignored = {(ignore.span.line, code) for ignore in ignores for code in ignore.codes}
    found = {(each.span.line, each.code) for each in findings}
    left = [each for each in findings if (each.span.line, each.code) not in ignored]
    for ignore in ignores:
        silenced = {code for code in ignore.codes if (ignore.span.line, code) in found}
        in_vain = [code for code in ignore.codes if code not in silenced]
        if in_vain or not ignore.codes:
            what = f"silences nothing: {', '.join(in_vain)}" if in_vain else "names no code"
            fix = "remove it" if in_vain else "write `# patchgate: ignore[PG111]`"
            left.append(
                finding_in_file(UNUSED_IGNORE, path, ignore.span, f"ignore {what}", source, fix)
            )
    return sorted(left, key=lambda each: (each.span, each.code))
