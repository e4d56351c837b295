"""Turns `nox -l --json -s row` on standard input into a JSON list of the torch releases that carry a tag."""

from __future__ import annotations

import json
import sys
from typing import Any


def releases(sessions: list[dict[str, Any]], tag: str) -> list[str]:
    """Torch releases of the sessions with `tag`, in the matrix's order."""
    return [session["call_spec"]["torch"] for session in sessions if tag in session["tags"]]


if __name__ == "__main__":
    print(json.dumps(releases(json.load(sys.stdin), sys.argv[1])))
