"""The command `patchgate`: its subcommands, and what a user reads when one of them ends early."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NoReturn

import click

from patchgate import __version__
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


# Command -> where it is: a module of this package, and a function of it where the two names differ.
_COMMANDS = {
    **{name: name for name in ("gate", "explain", "accept", "record", "comment", "init", "parts", "fidelity", "lint")},
    **{name: name for name in ("bisect", "sweep")},
    "report": "gate:report",
    "ask": "bisect:ask",
    "history": "sweep:history_command",
    "index": "index:index_group",
    "usage": "lint:usage",
}


class _Commands(click.Group):
    """Imports a command when it is typed: `lint` must not wait for what a bisect needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module, _, function = _COMMANDS.get(cmd_name, "").partition(":")
        if not module:
            return None
        command: click.Command = getattr(import_module(f"patchgate.cli.{module}"), function or cmd_name)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """The gate that every patch to the PyTorch compiler passes before merge."""
