"""What of a patch can run: its functions, their lines, and how their branches can come out.

Decides how the probe's answer is read. Refuses to know what did run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from patchgate.model.serialization import Answer


@dataclass(frozen=True, kw_only=True)
class Functions:
    """By function, as `name:first line`; an outcome is the line of a condition and how it comes out."""

    lines: dict[str, list[int]] = field(default_factory=dict)
    outcomes: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    def everything(self) -> set[int | tuple[int, str]]:
        """All that can run."""
        lines = {line for found in self.lines.values() for line in found}
        return lines | {outcome for found in self.outcomes.values() for outcome in found}


def functions_of(answer: Answer) -> Functions:
    """The functions that an answer tells of; none where it failed."""
    outcomes = {name: [(line, word) for line, word in found] for name, found in answer.get("outcomes", {}).items()}
    return Functions(lines=answer.get("functions", {}), outcomes=outcomes)
