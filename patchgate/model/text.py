"""Text of a patch, of torch or of a file, as what it is: nothing in it moves, recolours or turns what is beside it.

Decides which characters are shown as their escapes. Refuses to know where the text goes.
"""

from __future__ import annotations

import unicodedata

# Control and format characters (escape sequences, bells, orders of writing), halves of a pair, other line ends.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_KEPT = "\n\t"


def visible(text: str) -> str:
    r"""`text` with each character that nobody sees as its escape: \x1b, \u202e; line ends and tabs stay."""
    if text.isprintable():
        return text
    return "".join(_escaped(one) if one not in _KEPT and unicodedata.category(one) in _UNSEEN else one for one in text)


def _escaped(one: str) -> str:
    return one.encode("unicode_escape").decode()
