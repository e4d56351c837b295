"""The questions that lint asks a release. The index itself answers them; here is the contract only.

Until an index is shipped there are no releases, and `patchgate lint` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from patchgate.surface.api import CallSite, Class, Function, Module


@dataclass(frozen=True, kw_only=True)
class Found:
    kind: str
    origin: str
    symbol: Module | Class | Function | None = None


class Release(Protocol):
    version: str

    def module(self, name: str) -> Module | None: ...
    def modules(self) -> frozenset[str]: ...
    def resolve(self, dotted: str) -> Found | None: ...
    def member(self, class_dotted: str, name: str) -> Found | None: ...
    def holders(self, dotted: str) -> tuple[str, ...]: ...
    def subclasses(self, class_dotted: str) -> tuple[str, ...]: ...
    def calls(self, bare_name: str) -> tuple[CallSite, ...]: ...
    def source(self, dotted: str) -> str | None: ...


def releases() -> tuple[str, ...]:
    return ()


def load(version: str) -> Release:
    raise KeyError(version)
