"""Notes which lines of torch call functions that a patch has replaced."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

# A call counts as the patch's own if a frame of the patch is among this many callers: what it
# calls may have decorators, which may call each other.
_NEAR = 5


@dataclass
class OriginalCalls:
    """The code of originals, and the lines of torch that called them.

    Code is known by its identity, since a hash of code is slow to compute.
    """

    patch: str = ""  #: path of the patch's file
    packages: str = ""  #: path of the folder in which torch is installed
    names: dict[int, str] = field(default_factory=dict)  #: code of an original -> the changed name
    decorators: set[int] = field(default_factory=set)  #: code around originals, which calls them
    replacements: set[int] = field(default_factory=set)  #: code of replacements, torch's too
    lines: dict[str, str] = field(default_factory=dict)  #: changed name -> the line that called it

    def note(self, code: CodeType, callers: Iterable[tuple[CodeType, int | None]]) -> None:
        """Note the first line of torch that calls an original, unless the patch does so itself.

        `callers` are the code and the line of each frame above, the innermost first.
        """
        above = list(islice(callers, _NEAR))
        if any(self._is_the_patchs(each) for each, _ in above):
            return
        for each, line in above:
            if id(each) not in self.decorators:
                file = os.path.relpath(each.co_filename, self.packages)
                if file.startswith(f"torch{os.sep}"):
                    self.lines.setdefault(self.names[id(code)], f"{file}:{line}")
                return

    def _is_the_patchs(self, code: CodeType) -> bool:
        return code.co_filename == self.patch or id(code) in self.replacements


def callers_of(frame: FrameType) -> Iterator[tuple[CodeType, int | None]]:
    """Yield the code and the line of each frame above, the innermost first."""
    above = frame.f_back
    while above:
        yield above.f_code, above.f_lineno
        above = above.f_back


def inlined_by(translator: Any) -> Iterator[tuple[CodeType, int | None]]:
    """Yield the same for Dynamo, which inlines a function instead of calling it."""
    above = translator.parent
    while above:
        yield above.f_code, above.lineno
        above = above.parent


def find_originals(patch: str, held: Mapping[str, Collection[str]]) -> OriginalCalls:
    """Find the code of the originals that are still held (`held`, as `holders` in `Applied`). A
    function with a closure is left out, because it shares its code with others of its factory.
    """
    import torch

    from patchgate.probe.patch.snapshot import resolve, with_wrapped

    calls = OriginalCalls(patch, str(Path(torch.__file__).parents[1]))
    for name, places in held.items():
        for place in places:
            with suppress(LookupError, AttributeError):
                function = _at(place)
                while wrapped := getattr(function, "__wrapped__", None):
                    calls.decorators.add(id(getattr(function, "__code__", None)))
                    function = wrapped
                if isinstance(function, FunctionType) and not function.__closure__:
                    calls.names[id(function.__code__)] = name
    for name in held:
        with suppress(LookupError):
            functions = with_wrapped(resolve(name))
            codes = {id(each.__code__) for each in functions if isinstance(each, FunctionType)}
            calls.replacements |= codes - calls.names.keys() - calls.decorators
    return calls


def _at(place: str) -> Any:
    """The object with a name, or in a table (`module.table[key]`). Raises LookupError."""
    from patchgate.probe.patch.snapshot import resolve

    owner, is_entry, key = place.partition("[")
    found = resolve(owner)
    return {f"{each}]": entry for each, entry in found.items()}[key] if is_entry else found
