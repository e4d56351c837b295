"""The rules, one a file; each reads the views of one patch and yields remarks.

Decides which rules run and in which order. Refuses to know how remarks become findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from patchgate.lint.findings import Remark, View
from patchgate.lint.rules import (
    argument_misfit,
    config_default,
    config_option,
    dead_gate,
    held_by_value,
    missing_module,
    missing_name,
    missing_target,
    signature_drift,
    stale_copy,
    uncalled_target,
    version_traps,
    wide_gate,
)

Rule = Callable[[Sequence[View]], Iterator[Remark]]

RULES: tuple[Rule, ...] = (
    missing_module.check,
    missing_name.check,
    missing_target.check,
    config_option.check,
    config_default.check,
    signature_drift.check,
    argument_misfit.check,
    held_by_value.check,
    uncalled_target.check,
    stale_copy.check,
    dead_gate.check,
    wide_gate.check,
    version_traps.check,
)
