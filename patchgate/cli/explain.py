"""`patchgate explain`: what a verdict code means, why it matters and how to fix it."""

from __future__ import annotations

from difflib import get_close_matches

import click

from patchgate.checks.framework.find_checks import every_code
from patchgate.cli.parameters import argument, option, options
from patchgate.model.errors import UsageError
from patchgate.model.records import Command
from patchgate.report.explain import render_catalogue, show_code
from patchgate.report.terminal import to_stdout


@click.command()
@options
def explain(
    *,
    code: str | None = argument(),
    markdown: bool = option(help="All of them as a page: docs/verdicts.md."),
) -> None:
    """Explain a code, with an example; without CODE, list all."""
    codes = every_code()
    if markdown:
        click.echo("\n".join(render_catalogue()))
        return
    if code is None:
        for known in codes.values():
            click.echo(f"{known.code}  {known.title}")
        return
    if code.upper() not in codes:
        close = tuple(get_close_matches(code.upper(), codes, n=1, cutoff=0.7))
        raise UsageError(
            "no such code",
            where="explain",
            got=code,
            next=Command(name="explain", arguments=close)
            if close
            else "patchgate explain   (lists all)",
        )
    to_stdout(lambda console: show_code(console, codes[code.upper()]))
