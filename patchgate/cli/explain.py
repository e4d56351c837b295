"""`patchgate explain`: what a verdict code means, why it matters and how to fix it; the pages that
messages name.
"""

from __future__ import annotations

import click

from patchgate.checks.framework.find_checks import every_code
from patchgate.cli.parameters import argument, option, options
from patchgate.model.errors import UsageError
from patchgate.model.files import read_text
from patchgate.model.paths import PAGES
from patchgate.model.records import Command
from patchgate.report.explain import render_catalogue, show_code
from patchgate.report.next_commands import typed
from patchgate.report.terminal import to_stdout


@click.command()
@options
def explain(
    *,
    code: str | None = argument(),
    markdown: bool = option(help="All codes as one page, with the check of each."),
) -> None:
    """Explain a code, with an example; without CODE, list all.

    A name such as `claims` or `workloads` prints the page of that name.
    """
    codes = every_code()
    if markdown:
        click.echo("\n".join(render_catalogue()))
        return
    if code is None:
        for known in codes.values():
            click.echo(f"{known.code}  {known.title}")
        return
    if code in PAGES:
        click.echo(read_text(PAGES[code], "install patchgate again"), nl=False)
        return
    if code.upper() not in codes:
        # Codes are numbers: a code with a similar spelling has an unrelated meaning.
        number = f"PG{''.join(filter(str.isdecimal, code))}"
        meant = tuple(known for known in codes if number.startswith(known))
        command = Command(name="explain", arguments=meant)
        step = command if meant else f"{typed(command)}   (lists all)"
        raise UsageError("no such code", where="explain", got=code, next=step)
    to_stdout(lambda console: show_code(console, codes[code.upper()]))
