"""On which torch versions something holds -> the PEP 440 specifier that says so.

Asks at each release, at each version that the patch names, and just beside them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from packaging.version import InvalidVersion, Version


def versions_named(tree: ast.AST) -> set[str]:
    """Versions that a source writes down: `"2.11.0"`, `"2.12.0.dev0"`, `(2, 11)`."""
    return set(_named(tree))


def _named(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        text = None
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            text = node.value
        elif isinstance(node, ast.Tuple) and len(node.elts) > 1:
            parts = [each.value for each in node.elts if isinstance(each, ast.Constant)]
            if len(parts) == len(node.elts) and all(type(part) is int for part in parts):
                text = ".".join(map(str, parts))
        if text is not None:
            try:
                Version(text)
            except InvalidVersion:
                continue
            yield text


def points_around(releases: Sequence[str], named: set[str]) -> list[str]:
    """The versions to ask about: each release, each named version, and what is near them; oldest first."""
    near = [text for each in (*releases, *named) for text in _near(Version(each))]
    points = {Version(text): text for text in near}
    points |= {Version(text): text for text in (*releases, *sorted(named))}
    return [points[version] for version in sorted(points)]


def _near(version: Version) -> Iterator[str]:
    """The release after it, and its first nightly, which PEP 440 puts before it."""
    yield f"{version.major}.{version.minor}.{version.micro + 1}"
    if not version.micro:
        yield f"{version.major}.{version.minor}.0.dev0"


def specifier(points: Sequence[str], holds: Callable[[str], bool], releases: Sequence[str]) -> str | None:
    """The bounds of the one stretch of `points` (oldest first) on which it holds; "" for all of them.

    None where it holds nowhere, or on several stretches, which no two bounds can say.
    """
    answers = [holds(point) for point in points]
    if all(answers):
        return ""
    turns = [at for at in range(1, len(points)) if answers[at] != answers[at - 1]]
    if not any(answers) or len(turns) > 2 or (len(turns) == 2 and answers[0]):
        return None
    first, last = answers.index(True), len(answers) - 1 - answers[::-1].index(True)
    if first == last and Version(points[first]) in map(Version, releases):
        return f"=={points[first]}"
    low = [f">={points[first]}"] if first else []
    high = [f"<{_before(points[last + 1])}"] if last + 1 < len(points) else []
    return ",".join(low + high)


def _before(text: str) -> str:
    """`<2.14` leaves out the nightlies of 2.14 too, so it is the short way to say `<2.14.0.dev0`."""
    version = Version(text)
    return f"{version.major}.{version.minor}" if text == f"{version.major}.{version.minor}.0.dev0" else text
