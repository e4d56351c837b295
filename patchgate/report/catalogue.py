"""Every verdict code as one Markdown page, the same texts as `patchgate explain`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from patchgate.model.records import Code


def render_catalogue(codes: Iterable[Code]) -> Iterator[str]:
    """Lines of docs/verdicts.md."""
    yield "# Every verdict code"
    yield ""
    yield "Written from `patchgate explain --markdown`; a test keeps it so. PG1xx api, PG2xx gate, PG3xx kernels,"
    yield "PG4xx graph, PG5xx parity, PG9xx the machine; the README's table names the rest."
    for code in sorted(codes, key=lambda each: each.code):
        fix = "; ".join([code.fix, *map(str, code.commands)])
        yield from ("", f"## {code.code} {code.title}", "", code.what, "", f"Why: {code.why}", "", f"Fix: {fix}")
