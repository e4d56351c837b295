"""The files of an index, each read when a question needs it, once for all releases.

Decides which file answers what. Refuses to follow names from one module to another.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache, cached_property
from pathlib import Path

from patchgate.lint.index.read import Stored, block_of, call_site, caller, heading, lines_with, qualified
from patchgate.lint.index.records import CallSite
from patchgate.lint.index.release_set import Spans


class IndexFiles:
    """The files below one folder, each read at most once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        lines = [line.split(" ") for line in self._text("releases.txt").splitlines()]
        self.triton = {version: (rest or [""])[0] for version, *rest in lines}
        self.spans = Spans(list(self.triton))
        self._stored: dict[str, Stored] = {}

    def _text(self, path: str) -> str:
        file = self.folder / path
        return file.read_text(encoding="utf-8") if file.is_file() else ""

    @cached_property
    def lives(self) -> dict[str, int]:
        """Module -> its releases."""
        parts = (line.partition("\t") for line in self._text("modules.txt").splitlines())
        return {name: self.spans.mask(span) if tab else self.spans.all for name, tab, span in parts}

    def stored(self, name: str) -> Stored:
        if name not in self._stored:
            self._stored[name] = Stored(self._text(f"api/{name}.txt"), self.spans)
        return self._stored[name]

    @cached_property
    def imports(self) -> dict[str, str]:
        return self._shared("imports")

    @cached_property
    def call_lists(self) -> dict[str, str]:
        return self._shared("calls")

    def _shared(self, kind: str) -> dict[str, str]:
        files = sorted((self.folder / kind).glob("*.txt"))
        return {file.stem: file.read_text(encoding="utf-8") for file in files}

    @cache  # noqa: B019  an index lives as long as the process
    def imported(self, module: str) -> tuple[tuple[int, str, str, str], ...]:
        """(releases, `from`, `lazy` or `held`, local name or keeper, origin) for each import of a module."""
        package = ".".join(module.split(".")[:2])
        text = self.imports.get(package, "")
        return tuple(each for line in block_of(text, module) for each in self._import_line(module, line))

    def _import_line(self, module: str, line: str) -> list[tuple[int, str, str, str]]:
        words, tab, span = line.partition("\t")
        kind, owner, *names = words.split(" ")
        mask = self.spans.mask(span) if tab else self.lives[module]
        before = "" if owner == "." else f"{owner}."
        pairs = (name.partition("=") for name in names)
        return [
            (mask, kind, before + local if local == "*" else local, before + (name or local))
            for local, _, name in pairs
        ]

    @cache  # noqa: B019
    def binders(self, name: str, kind: str = "from") -> tuple[tuple[int, str, str], ...]:
        """(releases, holder, origin) wherever something of that last name is imported by value, or `held`."""
        found = []
        for text in self.imports.values():
            places = {each for needle in (f" {name}", f"={name}") for each in lines_with(text, needle)}
            for start, stop in sorted(places):
                line, module = text[start:stop], heading(text, "module", start)[0]
                if line.startswith(f"{kind} "):
                    for mask, _, local, origin in self._import_line(module, line):
                        if origin.endswith(f".{name}"):
                            found.append((mask, f"{module}.{local}", origin))
        return tuple(found)

    @cache  # noqa: B019
    def calls_in(self, module: str) -> tuple[tuple[int, str, CallSite], ...]:
        """(releases, last name of the callee, call) for each call in a module."""
        found: list[tuple[int, str, CallSite]] = []
        owner = function = ""
        for line in block_of(self.call_lists.get(".".join(module.split(".")[:2]), ""), module):
            if line.startswith("class: "):
                owner = line[7:]
                continue
            name, mask, calls = self._calls_line(line, module)
            function = qualified(owner, name) if name else function
            found += [(mask, each.partition("/")[0], call_site(module, function, each)) for each in calls]
        return tuple(found)

    def _calls_line(self, line: str, module: str) -> tuple[str, int, list[str]]:
        words, tab, span = line.partition("\t")
        name, *calls = words.split(" ")
        return name, self.spans.mask(span) if tab else self.lives[module], calls

    @cache  # noqa: B019
    def called(self, name: str) -> tuple[tuple[int, CallSite], ...]:
        """(releases, call) for each call by that last name."""
        found, needle = [], f" {name}/"
        for text in self.call_lists.values():
            for start, stop in lines_with(text, needle):
                module, function = caller(text, start)
                _, mask, calls = self._calls_line(text[start:stop], module)
                found += [(mask, call_site(module, function, each)) for each in calls if each.startswith(needle[1:])]
        return tuple(found)

    @cached_property
    def derived(self) -> dict[str, list[tuple[int, str, str]]]:
        """Last name of a base -> (releases, class, base)."""
        found: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
        module = ""
        for line in self._text("classes.txt").splitlines():
            if line.startswith("module: "):
                module = line[8:]
                continue
            words, tab, span = line.partition("\t")
            name, *bases = words.split(" ")
            for base in bases:
                mask = self.spans.mask(span) if tab else self.spans.all
                found[base.rpartition(".")[2]].append((mask, f"{module}.{name}", base))
        return found
