"""Make text from a patch, torch or a file safe to print; write times and counts; find the known
name that is nearest to a misspelt name.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

# Unicode categories: control and format characters (escape sequences, bells, changes of writing
# direction), unpaired surrogates, line and paragraph separators.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_ALLOWED = "\n\t"


def escape_control(text: str) -> str:
    r"""`text` with each invisible character as its escape (\x1b, \u202e); line feeds and tabs
    stay.
    """
    if text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode()
        if unicodedata.category(char) in _INVISIBLE and char not in _ALLOWED
        else char
        for char in text
    )


def time_text(seconds: float) -> str:
    """`40 s` or `2 min`."""
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def counted(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun}{'s' * (number != 1)}"


def did_you_mean(name: str, known: Iterable[str], before: str = "") -> str:
    """The question "did you mean `NAME`?" with the nearest of the `known` names; empty if no name
    is near. `before` is written in front of the name.
    """
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1)
    return f"did you mean `{before}{close[0]}`?" if close else ""


def nearest(name: str, known: Iterable[str], label: str = "one of") -> str:
    """A suggestion for a name that is not among the known ones."""
    known = list(known)
    return did_you_mean(name, known) or f"{label}: {', '.join(known)}"
