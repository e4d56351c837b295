"""The rules of lint, one a file. Each module in this folder is a rule.

Its codes are the `Code` records in it. A rule about Python patches has a function `check`, which
gets what the patch does in each release and yields findings; the other rules are called by name
(diffs, ignore comments, unreadable files).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pkgutil import iter_modules

from patchgate.lint.findings import Finding, View
from patchgate.model.records import Code

Rule = Callable[[Sequence[View]], Iterator[Finding]]

_MODULES = [vars(import_module(f"{__name__}.{module.name}")) for module in iter_modules(__path__)]

RULES: tuple[Rule, ...] = tuple(module["check"] for module in _MODULES if "check" in module)
CODES: tuple[Code, ...] = tuple(
    sorted(
        (value for module in _MODULES for value in module.values() if isinstance(value, Code)),
        key=lambda code: code.code,
    )
)
