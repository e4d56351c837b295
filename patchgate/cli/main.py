"""The command `patchgate`: its subcommands, and the messages when one of them ends early."""

from __future__ import annotations

import atexit
import contextlib
import errno
import io
import os
import shlex
import signal
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import NoReturn, TextIO

import click

from patchgate import __version__
from patchgate.model.errors import UsageError
from patchgate.model.exit_code import MACHINE
from patchgate.model.files import refuse_links, refuse_tracked, write_atomically
from patchgate.model.paths import PACKAGE
from patchgate.model.records import Command
from patchgate.model.text import escape_control, nearest
from patchgate.report.github_annotations import commands_end, is_github
from patchgate.report.next_commands import typed

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# The folder of results, and the file of the traceback if patchgate itself fails.
_RESULTS = Path(".patchgate")
_FAULT = _RESULTS / "fault.txt"


def main() -> NoReturn:
    """The console script."""
    end_by_exit_code(cli, "patchgate")


def end_by_exit_code(command: click.Command, name: str) -> NoReturn:
    """Run a command and exit: with a message and code 2 for bad input, with code 4 for a fault of
    patchgate or of the machine.

    An error never prints a traceback, and never exits with 1, which means red.
    """
    for number in _SIGNALS:
        if (
            signal.getsignal(number) != signal.SIG_IGN
        ):  # nohup and background shells ignore signals: keep that
            signal.signal(number, _stop)
    _open_streams()
    if is_github():
        click.echo(commands_end(True), err=True)
        atexit.register(click.echo, commands_end(False), err=True)
    output = sys.stdout
    try:
        _distrust_working_folder()
        refuse_tracked(_RESULTS)
        refuse_links(_RESULTS)
        command.main(prog_name=name, standalone_mode=False)
        sys.stdout.flush()  # a reader that has gone away is noticed here, and not when Python ends
    except UsageError as error:
        show_usage_error(error)
        sys.exit(2)
    except click.ClickException as error:
        _show_wrong_option(error)
        sys.exit(2)
    except SystemExit as ended:
        if _reader_has_gone(ended, output):
            sys.exit(MACHINE)
        raise
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted: no result\n  next: run the same command again", err=True)
        sys.exit(MACHINE)
    except Exception as error:
        if wrong := bad_input(error):
            show_usage_error(wrong)
            sys.exit(2)
        if not _reader_has_gone(error, output):
            show_failure(error)
        sys.exit(MACHINE)
    finally:
        for number in _SIGNALS:  # the result is printed; only clean-up is left
            signal.signal(number, lambda *_: None)
    sys.exit(0)


def _reader_has_gone(ended: BaseException, output: TextIO) -> bool:
    """True if a command ended because no process reads its output any more, as with `| head -1`.

    Click then replaces standard output and exits with 1; Rich only exits with 1.
    """
    if sys.stdout is output and not any(
        isinstance(each, BrokenPipeError) for each in (ended, ended.__context__)
    ):
        return False
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)  # Python writes the rest of the output when it ends
    return True


def _open_streams() -> None:
    """Open standard streams that the caller has closed: otherwise the next file would get their
    number. Write characters that an encoding lacks as escapes: a result must not depend on a
    locale.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
        elif name == "stdout" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _distrust_working_folder() -> None:
    """Keep Python processes (from 3.11 on) from importing modules of the working folder, which may
    be an untrusted checkout. Raises UsageError if the working folder was deleted.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        os.getcwd()
    except FileNotFoundError:
        raise UsageError(
            "the working folder is not there any more", where=os.environ.get("PWD", "."), next="cd"
        ) from None
    if str(PACKAGE.parent) == os.getcwd():  # our own checkout, perhaps not installed
        os.environ["PYTHONPATH"] = os.pathsep.join(
            filter(None, (os.getcwd(), os.environ.get("PYTHONPATH")))
        )


def bad_input(error: Exception) -> UsageError | None:
    """The message for bad input; None for an error of patchgate itself or of the machine."""
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return UsageError(
            "no file has so long a name", got=str(error.filename), next="another path"
        )
    # A version that a project or an option names may have thousands of digits.
    if isinstance(error, ValueError) and "integer string conversion" in str(error):
        return UsageError(
            "a number of over 4,300 digits", got=str(error)[:60], next="a shorter one"
        )
    # Before Python 3.13, pathlib raises this for a link to itself.
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop"):
        return UsageError("a link to itself", got=str(error), next="another path")
    sqlite3 = sys.modules.get("sqlite3")  # not imported just for this question
    if sqlite3 is not None and isinstance(error, sqlite3.DatabaseError):
        return UsageError(f"a damaged history: {error}", next="another --folder")
    return None


def _stop(number: int, frame: object) -> NoReturn:
    """End a command as Ctrl-C does, also when CI stops its job: verdicts are kept, and no process
    is left behind.
    """
    # A second signal of CI changes nothing; a second Ctrl-C ends at once.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    raise KeyboardInterrupt(signal.Signals(number).name)


def say(line: str) -> None:
    """Print a line that is no result to standard error."""
    click.echo(line, err=True)


def show_usage_error(error: UsageError) -> None:
    """Say where the error is, what it is, and which command to run next."""
    if isinstance(error.next, Command):
        error.next = typed(error.next)
    click.echo(escape_control(f"error: {error}"), err=True)


def _show_wrong_option(error: click.ClickException) -> None:
    """Print an error of click in the form of patchgate's own errors."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "patchgate"
    message = error.format_message().removesuffix(".")
    lines = f"error: {message[:1].lower()}{message[1:]}\n  next: {path} --help"
    click.echo(escape_control(lines), err=True)


def show_failure(error: BaseException) -> None:
    """Print a failure that the user did not cause; the traceback goes into a file."""
    if isinstance(error, KeyboardInterrupt):
        click.echo(f"ended by {error or 'SIGINT'}: results so far are kept", err=True)
        return
    what = " ".join(str(error).split())[:300]
    if isinstance(error, OSError) and error.errno:
        lines = [
            f"error: the machine failed: {what}",
            "  next: check disk, memory and permissions, and run the same command again",
        ]
    else:
        lines = [f"error: patchgate itself failed: {type(error).__name__}: {what}"]
        with contextlib.suppress(OSError):
            write_atomically(_FAULT, "".join(traceback.format_exception(error)))
            lines.append(f"  next: report it with {_FAULT}")
    with contextlib.suppress(OSError):
        click.echo(escape_control("\n".join(lines)), err=True)


# The groups of commands in `--help`.
_GROUPS = {
    "Judge patches": ("gate", "lint", "demo", "sweep", "parts"),
    "Read the result and decide": ("report", "explain", "init", "accept"),
    "Investigate": ("fuzz", "bisect", "ask", "models", "usage", "history", "ecosystem"),
    "Set up": ("doctor", "comment", "index"),
}
_NAMES = [name for names in _GROUPS.values() for name in names]
# Command -> `module:function` in this package, where names of module or function differ.
_ELSEWHERE = {
    "ask": "bisect:ask",
    "comment": "report:comment",
    "demo": "gate:demo",
    "history": "sweep:history_command",
    "index": "index:index_group",
    "usage": "lint:usage",
}


class _Commands(click.Group):
    """Imports a command when it is typed, so that `lint` does not wait for the imports of a
    bisect.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_NAMES)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = formatter.width - max(map(len, _NAMES)) - 6
        for group, names in _GROUPS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            rows = [(name, each.get_short_help_str(width)) for name, each in commands if each]
            with formatter.section(group):
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command. Raises UsageError with the nearest name for an unknown command."""
        name = args[0]
        if name in _NAMES or name.startswith("-"):
            return super().resolve_command(ctx, args)
        is_patch = Path(name.partition("::")[0]).exists() or name.endswith(
            (".py", ".diff", ".patch")
        )
        raise UsageError(
            "no such command",
            where="patchgate",
            got=name,
            next=f"did you mean `patchgate gate {shlex.quote(name)}`?"
            if is_patch
            else nearest(name, sorted(_NAMES)),
        )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _NAMES:
            return None
        module, _, function = _ELSEWHERE.get(cmd_name, cmd_name).partition(":")
        command: click.Command = getattr(
            import_module(f"patchgate.cli.{module}"), function or cmd_name
        )
        return command


_EPILOG = (
    "Start with `patchgate gate path/to/patch.py`, or, without torch, `patchgate lint "
    "path/to/package`. `patchgate explain quick-start` has the line that completes commands in "
    "your shell."
)


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG
)
@click.version_option(__version__)
def cli() -> None:
    """Judge patches to the PyTorch compiler before they are merged."""
