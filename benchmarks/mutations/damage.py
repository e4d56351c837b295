"""Changes a file as nobody would: its bytes, lines, tokens and values."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

#: Bytes that readers dislike, at any place.
PIECES = [
    *(
        b"",
        b"\0",
        b"\xff\xfe",
        b"\n",
        b"\r",
        b"\t",
        b'"',
        b"'",
        b"[",
        b"]",
        b"{",
        b"}",
        b"=",
        b"..",
        b"#",
        b",",
    ),
    *(
        b"[" * 5000,
        b"{" * 3000,
        b'{"a":' * 3000,
        b"9" * 5000,
        b"1e999",
        b"NaN",
        b"-0",
        b"\\ud800",
        "é".encode(),
    ),
    *(
        b"true",
        b"null",
        b"2.11.0..2.6.0",
        b"(" * 3000,
        b"a" * 20_000,
        b"@@ -1,1 +1,1 @@\n",
        b"+++ b/x\n",
        b"-" * 999,
    ),
]
# Values of TOML and JSON, and of Python as far as it reads alike.
_VALUE = re.compile(r'"[^"\n]*"|\b\d[\w.]*\b|\btrue\b|\bfalse\b|\bnull\b|\[[^\[\]\n]*\]')
_ODD_VALUES = (
    *(
        '""',
        "0",
        "-1",
        "1.5",
        "true",
        "null",
        "[]",
        "{}",
        "[[1]]",
        "{a = 1}",
        '{"a": 1}',
        "9" * 400,
    ),
    *("nan", "-inf", "1e400", "1e-400", "2026-11-26", "07:00:00", "0x10", '"' + "a" * 300 + '"'),
    *('"../../x"', '"/"', '"."', '"~"', '"*"', '"**/["', '"a b"', '"a::b(c"', '"\\u0000"', '"\\n"'),
    *(
        '"2.11"',
        '">=2.9,<2"',
        '"==2.*"',
        '"1!2.0+x"',
        '"-2 % .. nan %"',
        '"torch."',
        '"é"',
        "[1, 'a']",
    ),
    *('["", ""]', "[true]", '["/"]', '"\\ud800"', "-0.0", '"{0}%s"', "[" * 40 + "]" * 40),
)
_TOKEN = re.compile(rb"\w+|\s+|[^\w\s]")


def mutated(data: bytes, chance: random.Random) -> bytes:
    """One to four changes, of the same level or of several."""
    for _ in range(chance.randint(1, 4)):
        data = chance.choice(_LEVELS)(data, chance)
    return data


def _bytes(data: bytes, chance: random.Random) -> bytes:
    """A byte, a stretch that goes or comes twice, a cut, or a piece that readers dislike."""
    at, to = sorted(chance.randint(0, len(data)) for _ in range(2))
    kind = chance.randrange(5)
    if kind == 0 and data:
        at = min(at, len(data) - 1)
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    if kind == 1:
        return data[:at] + data[to:]
    if kind == 2:
        return data[:to] + data[at:to][:5000] + data[to:]
    if kind == 3:
        return data[:to]
    return data[:at] + chance.choice(PIECES) + data[at:]


def _lines(data: bytes, chance: random.Random) -> bytes:
    """A line that goes, comes twice or stands elsewhere; rarely all in another order."""
    return b"".join(_moved(data.splitlines(keepends=True), chance))


def _tokens(data: bytes, chance: random.Random) -> bytes:
    return b"".join(_moved(_TOKEN.findall(data), chance))


def _moved(parts: list[bytes], chance: random.Random) -> list[bytes]:
    if not parts:
        return parts
    one, other = chance.randrange(len(parts)), chance.randrange(len(parts))
    kind = chance.randrange(9)
    if kind < 2:
        del parts[one]
    elif kind < 4:
        parts[one] = parts[other]
    elif kind < 6:
        parts[one], parts[other] = parts[other], parts[one]
    elif kind < 8:
        parts.insert(one, parts[other])
    else:
        chance.shuffle(parts)
    return parts


def _values(data: bytes, chance: random.Random) -> bytes:
    """An odd value, or one from elsewhere in the file, in the place of a value."""
    text = data.decode("utf-8", "surrogateescape")
    found = list(_VALUE.finditer(text))
    if not found:
        return data
    at = chance.choice(found)
    value = chance.choice(_ODD_VALUES) if chance.random() < 0.7 else chance.choice(found)[0]
    return (text[: at.start()] + value + text[at.end() :]).encode("utf-8", "surrogateescape")


_LEVELS: tuple[Callable[[bytes, random.Random], bytes], ...] = (_bytes, _lines, _tokens, _values)
