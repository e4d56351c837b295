"""The one error that a user of patchgate causes and reads.

Decides how such an error is worded: where, what, got, next. Refuses to know
who raises it; the command turns it into exit code 2.
"""

from __future__ import annotations

from patchgate.model.command_line import as_typed


class UsageError(Exception):
    """Bad input. `where` is file:line or the option's name, `next` a command or an edit to make."""

    def __init__(self, what: str, *, where: str = "", got: str = "", next: str = "") -> None:
        self.what, self.where, self.got, self.next = what, where, got, as_typed(next)
        super().__init__(str(self))

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.got:
            lines.append(f"  got:  {self.got}")
        if self.next:
            lines.append(f"  next: {self.next}")
        return "\n".join(lines)
