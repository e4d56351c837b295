"""A next step as the reader types it: through nox in a checkout, elsewhere by the name of the
command, or by its path if nox has installed it.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from patchgate.model.paths import ROOT, display_path
from patchgate.model.records import Command

# Set by noxfile.py for the commands that it runs.
THROUGH = "PATCHGATE_THROUGH"
# Commands that are sessions of the noxfile, because they need the environments of nox.
_SESSIONS = {"gate", "parts", "corpus", "sweep", "bisect", "accept", "report"}


def is_through_nox() -> bool:
    """True if a nox session started this process."""
    return os.environ.get(THROUGH) == "nox"


def typed(command: Command) -> str:
    """The command as the reader types it."""
    in_checkout = is_through_nox() or ((ROOT / "noxfile.py").is_file() and Path.cwd() == ROOT)
    if in_checkout and command.name in _SESSIONS:
        return " ".join(("nox", "-s", command.name, "--", *command.arguments))
    own = Path(sys.executable).with_name("patchgate")
    if is_through_nox() and own.is_file():  # nox's own environment is not on the PATH of a shell
        return " ".join((display_path(own), command.name, *command.arguments))
    return str(command)


def gate_command(patch: Path) -> str:
    """The command that judges a patch, as the reader types it."""
    return typed(Command(name="gate", arguments=(shlex.quote(display_path(patch)),)))


def _with_path(fixture: re.Match[str]) -> str:
    return display_path(ROOT / fixture[0])


def next_step(advice: str, commands: Sequence[Command]) -> str:
    """Advice and commands as one line. Fixtures in the advice become paths on this machine."""
    advice = re.sub(r"\bfixtures/[\w/.-]*\w", _with_path, advice)
    steps = []
    for command in commands:
        text = "run the same command again" if command.is_again else typed(command)
        steps.append(f"{command.when}: {text}" if command.when else text)
    return "; ".join(filter(None, [advice.removesuffix(".") if steps else advice, *steps]))
