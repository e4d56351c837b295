"""An index and its releases: the meaning of a name in a release, and the code that imports it,
holds it, derives from it and calls it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar

from patchgate.lint.index.format import IndexFiles
from patchgate.lint.index.records import (
    ON_REQUEST,
    WITH_TORCH,
    CallSite,
    Module,
    ReleaseRecords,
    in_extension,
)
from patchgate.lint.index.resolve import Found, member, module_of, resolve
from patchgate.lint.index.sources import Sources
from patchgate.model.paths import GOLDEN

FOLDER = GOLDEN / "surface"
Answer = TypeVar("Answer")
#: (a function whose first argument is a release, its other arguments)
Question = tuple[Callable[..., Any], tuple[Hashable, ...]]


def releases() -> tuple[str, ...]:
    """Every indexed release, oldest first."""
    return opened(FOLDER).sets.releases


def load(version: str, sources: Sources | None = None) -> Release:
    """One release, with the texts that `sources` has. Raises KeyError if it is not indexed."""
    return opened(FOLDER).release(version, sources)


@lru_cache(maxsize=4)
def opened(folder: Path) -> Index:
    return Index(folder)


class Index(IndexFiles):
    """The files of one folder, and the releases in them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._releases = {version: Release(self, version) for version in self.sets.releases}

    def release(self, version: str, sources: Sources | None = None) -> Release:
        known = self._releases[version]
        return known if sources is None else Release(self, version, sources)


class Release:
    """One release of an index."""

    def __init__(self, index: Index, version: str, sources: Sources | None = None) -> None:
        self.index, self.version, self._sources = index, version, sources
        self._bit = index.sets.bits[version]
        self._answers: dict[Question, Any] = {}
        self._recording = threading.local()

    @property
    def questions(self) -> set[Question] | None:
        """The questions that this thread has recorded; None if it does not record questions."""
        return getattr(self._recording, "questions", None)

    @questions.setter
    def questions(self, questions: set[Question] | None) -> None:
        self._recording.questions = questions

    @contextmanager
    def recorded(self) -> Iterator[set[Question]]:
        """Record the questions that are asked inside the context. An outer recording gets these
        questions too.
        """
        around, self.questions = self.questions, set()
        try:
            yield self.questions
        finally:
            meanwhile, self.questions = self.questions or set(), around
            if around is not None:
                around |= meanwhile

    def ask(self, question: Callable[..., Answer], *about: Hashable) -> Answer:
        """Answer `question(release, *about)`, computed once."""
        key = (question, about)
        if self.questions is not None:
            self.questions.add(key)
        if key not in self._answers:
            self._answers[key] = question(self, *about)
        answer: Answer = self._answers[key]
        return answer

    def answers_as(self, other: Release, questions: Iterable[Question]) -> bool:
        """True if both releases give the same answers to all these questions."""
        return all(
            self.ask(question, *about) == other.ask(question, *about)
            for question, about in questions
        )

    @cache  # noqa: B019
    def others(self) -> tuple[Release, ...]:
        """All releases of the index, oldest first, including this one, with the same sources."""
        known = self.index.sets.releases
        return tuple(
            self if each == self.version else self.index.release(each, self._sources)
            for each in known
        )

    def records(self) -> ReleaseRecords:
        """All records of the release, in the form in which they were built."""
        names = [name for name, releases in self.index.modules.items() if releases & self._bit]
        records = ReleaseRecords(version=self.version, triton=self.index.triton[self.version])
        for name in names:
            module = self.module(name)
            assert module is not None
            records.modules[name] = module
            calls = self.index.calls_in(name)
            records.calls[name] = [
                (callee, site) for mask, callee, site in calls if mask & self._bit
            ]
        return records

    @cache  # noqa: B019  a release lives as long as the process
    def module(self, name: str) -> Module | None:
        if name not in self.modules():
            return None
        if not self.index.modules.get(name, 0) & self._bit:
            return Module(name=name)  # a package outside the scope that holds modules inside it
        return self.index.read_module(name, self._bit)

    @property
    def triton(self) -> str:
        """The version of triton that the release requires; empty if it requires none."""
        return self.index.triton.get(self.version, "")

    def modules(self) -> frozenset[str]:
        return self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        return self.index.modules_in(self._bit)

    @cache  # noqa: B019
    def resolve(self, dotted: str) -> Found | None:
        return resolve(self, dotted)

    @cache  # noqa: B019
    def loaded_with(self, modules: frozenset[str]) -> frozenset[str]:
        """The modules that are loaded after an import of torch and `modules`, including their
        packages and everything that they import.
        """
        known, loaded = self.modules(), set[str]()
        todo = [*WITH_TORCH, *modules]
        while todo:
            name = todo.pop()
            while name and name not in known:
                name = name.rpartition(".")[0]
            if name and name not in loaded and not in_extension(name) and name != ON_REQUEST:
                loaded.add(name)
                todo.append(name.rpartition(".")[0])
                todo += (
                    each
                    for each, mask in self.index.modules_imported_by(name).items()
                    if mask & self._bit
                )
        return frozenset(loaded)

    def member(self, class_dotted: str, name: str) -> Found | None:
        """Find `name` on a class or on one of its bases."""
        return member(self, class_dotted, name)

    def holders(self, dotted: str) -> tuple[str, ...]:
        """The names in other modules that are bound to the object that `dotted` names."""
        return self._bound(dotted, "from")

    def registries(self, dotted: str) -> tuple[str, ...]:
        """The full names, MODULE.NAME, of the registries and tables that have the function."""
        return self._bound(dotted, "held")

    def _bound(self, dotted: str, kind: str) -> tuple[str, ...]:
        wanted = self._origin(dotted)
        name = dotted.rpartition(".")[2]
        bound = (each for each in self.index.bindings(name, kind) if each[0] & self._bit)
        return tuple(
            sorted({holder for _, holder, origin in bound if self._origin(origin) == wanted})
        )

    def subclasses(self, class_dotted: str) -> tuple[str, ...]:
        found: dict[str, None] = {}
        todo = [class_dotted]
        while todo:
            wanted = self._origin(todo.pop(0))
            for mask, name, base in self.index.derived_from(wanted.rpartition(".")[2]):
                if mask & self._bit and name not in found and self._origin(base) == wanted:
                    found[name] = None
                    todo.append(name)
        return tuple(found)

    def calls(self, name: str) -> tuple[CallSite, ...]:
        """All calls of functions, methods and classes whose last name is `name`."""
        return tuple(site for site in self.uses(name) if site.receiver != "=")

    def uses(self, name: str) -> tuple[CallSite, ...]:
        """The calls as in `calls`, and all places that pass on the name without a call."""
        return tuple(site for mask, site in self.index.calls_of(name) if mask & self._bit)

    def source(self, dotted: str) -> str | None:
        """The text of a function; None without sources, because the index has only fingerprints."""
        module = module_of(dotted, self.index.modules)
        _, text = self._file(module)
        if not text:
            return None
        from patchgate.lint.index.read_module import function_text

        return function_text(text, dotted[len(module) + 1 :])

    def place(self, site: CallSite, callee: str) -> str:
        """The place of a call: file and line if the sources are available, otherwise module and
        function.
        """
        path, text = self._file(site.module)
        if text:
            from patchgate.lint.index.read_module import call_line

            line = call_line(text, callee, site)
            if line is not None:
                return f"{path}:{line}"
        return f"{site.module}.{site.function}".rstrip(".")

    def _file(self, module: str) -> tuple[str, str | None]:
        """Path and text of a module."""
        is_package = module in self.index.packages
        path = f"{module.replace('.', '/')}{'/__init__' if is_package else ''}.py"
        return path, self._sources.text(self.version, path) if self._sources is not None else None

    def _origin(self, dotted: str) -> str:
        found = self.resolve(dotted)
        return found.origin if found is not None else dotted


def renamed(release: Release, version: str) -> Release:
    """The release under another version number; all its other answers stay the same."""
    other = copy(release)
    other.version, other._answers, other._recording = version, {}, threading.local()
    return other
