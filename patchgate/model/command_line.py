"""How a command is typed where it is shown: through nox in a checkout, by its own name anywhere else.

Decides the wording of a next step's commands. Texts are written as for nox, which gives the rows by itself.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from patchgate.model.paths import ROOT

# Set by noxfile.py for the commands that it runs.
THROUGH = "PATCHGATE_THROUGH"
_SESSION = re.compile(r"\bnox -s (gate|parts|corpus|sweep|bisect|fidelity|accept|report) -- ")


def through_nox() -> bool:
    return os.environ.get(THROUGH) == "nox"


def as_typed(text: str) -> str:
    """`text` with `nox -s gate -- ...` as `patchgate gate ...` where nox would find no sessions of ours."""
    here = through_nox() or ((ROOT / "noxfile.py").is_file() and Path.cwd() == ROOT)
    return text if here else _SESSION.sub(r"patchgate \1 ", text)
