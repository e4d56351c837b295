"""The error for mistakes of a user. The command line prints it and ends with exit code 2."""

from __future__ import annotations

# At most this many characters of each part are shown: enough for the names of all workloads.
_LENGTH = 3000


class UsageError(Exception):
    """Bad input. `where` is file:line or the name of an option; `next` is a Command, or an edit in
    words.
    """

    def __init__(self, what: str, *, where: str = "", got: str = "", next: object = "") -> None:
        self.what, self.where, self.got, self.next = what, where, got, next
        super().__init__(str(self))

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.got:
            lines.append(f"  got:  {self.got}")
        if self.next:
            lines.append(f"  next: {self.next}")
        half = _LENGTH // 2  # a part may quote a whole file
        return "\n".join(
            line if len(line) <= _LENGTH else f"{line[:half]} ... {line[-half:]}" for line in lines
        )
