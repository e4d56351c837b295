"""`patchgate explain`: what a verdict code means, why it matters and how to fix it."""

from __future__ import annotations

import click

from patchgate.checks.codes import every_code
from patchgate.model.errors import UsageError
from patchgate.model.text import did_you_mean
from patchgate.report.explain import render_catalogue, show_code
from patchgate.report.terminal import to_stdout


@click.command()
@click.argument("code", required=False)
@click.option("--markdown", is_flag=True, help="All of them as a page: docs/verdicts.md.")
def explain(code: str | None, markdown: bool) -> None:
    """Tell what a verdict code means, why it matters and how to fix it; without CODE, list all."""
    codes = every_code()
    if markdown:
        click.echo("\n".join(render_catalogue()))
        return
    if code is None:
        for known in codes.values():
            click.echo(f"{known.code}  {known.title}")
        return
    if code.upper() not in codes:
        close = did_you_mean(code.upper(), codes)
        raise UsageError("no such code", where="explain", got=code, next=close or "patchgate explain   (lists all)")
    to_stdout(lambda console: show_code(console, codes[code.upper()]))
