"""The command `patchgate`: its subcommands, and what a user reads when one of them ends early."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from patchgate import __version__
from patchgate.cli.accept import accept
from patchgate.cli.bisect import ask, bisect
from patchgate.cli.comment import comment
from patchgate.cli.explain import explain
from patchgate.cli.fidelity import fidelity
from patchgate.cli.gate import gate, report
from patchgate.cli.index import index_group
from patchgate.cli.init import init
from patchgate.cli.lint import lint
from patchgate.cli.parts import parts
from patchgate.cli.record import record
from patchgate.cli.sweep import history_command, sweep
from patchgate.model.errors import UsageError
from patchgate.model.records import Command
from patchgate.model.text import escape_control
from patchgate.report.commands import typed


def main() -> NoReturn:
    """The console script."""
    end_by_exit_code(cli, "patchgate")


def end_by_exit_code(command: click.Command, name: str) -> NoReturn:
    """Run a command and exit: bad input is a message and exit code 2, never a traceback."""
    try:
        command.main(prog_name=name, standalone_mode=False)
    except UsageError as error:
        if isinstance(error.next, Command):
            error.next = typed(error.next)
        click.echo(escape_control(f"error: {error}"), err=True)
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted: a part of a run is no result\n  next: the same command again", err=True)
        sys.exit(130)
    sys.exit(0)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """The gate that every patch to the PyTorch compiler passes before merge."""


COMMANDS = (
    gate,
    report,
    explain,
    accept,
    record,
    comment,
    init,
    parts,
    fidelity,
    lint,
    bisect,
    ask,
    sweep,
    history_command,
    index_group,
)
for one in COMMANDS:
    cli.add_command(one)
