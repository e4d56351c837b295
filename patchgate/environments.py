"""Torch environments for a search or a sweep: those that are there, others made when first asked for.

Decides how one is made (uv, as nox does) and that it is taken away again.
Refuses to know what is run in it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

# numpy: torch warns without it; packaging: what version checks in patches are written with;
# setuptools: torch 2.10 asks it for a C++ compiler.
BESIDE_TORCH = ("numpy", "packaging", "setuptools")


class NotInstallable(Exception):
    """There is no such release for this machine; `str` says why."""


@dataclass
class Environments:
    """`rows` maps a torch release to the interpreter of an environment that is there already."""

    rows: dict[str, str]
    made: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    _folder: tempfile.TemporaryDirectory[str] | None = None

    def python(self, torch: str) -> str:
        """The interpreter for a release. Raises NotInstallable, each time with the reason of the first."""
        if torch in self.rows or torch in self.made:
            return self.rows.get(torch) or self.made[torch]
        if torch not in self.failed:
            try:
                self.made[torch] = self._make(torch)
                return self.made[torch]
            except NotInstallable as error:
                self.failed[torch] = str(error)
        raise NotInstallable(self.failed[torch])

    def _make(self, torch: str) -> str:
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="patchgate-rows-")
        home = Path(self._folder.name) / torch
        uv = shutil.which("uv", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))
        if uv is None:
            raise NotInstallable("no `uv` to make an environment with (pip install uv)")
        python = str(home / "bin" / "python")
        _call(uv, "venv", "--quiet", "--python", sys.executable, str(home))
        _call(uv, "pip", "install", "--quiet", "--python", python, f"torch=={torch}", *BESIDE_TORCH)
        return python

    def close(self) -> None:
        """Take away what was made."""
        if self._folder is not None:
            self._folder.cleanup()


def _call(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        said = [re.sub(r"^\W+", "", line) for line in ended.stderr.splitlines() if line.strip()]
        raise NotInstallable(" ".join(said)[:300] or f"{command[0]} ended with status {ended.returncode}")
