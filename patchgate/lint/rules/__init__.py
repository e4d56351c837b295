"""The rules of lint, one a file. Each module in this folder is a rule.

The codes of a rule are the `Code` records in its module. A rule about Python patches has a function
`check`, which gets a view of the patch for each release and yields findings. The other rules
(diffs, ignore comments, unreadable files) are called by name.
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
