"""PG140: the file does not parse, or is nested too deeply to be read."""

from __future__ import annotations

from patchgate.lint.findings import Finding, finding_in_file
from patchgate.lint.interpret.references import Span
from patchgate.model.records import Code

NOT_PYTHON = Code(
    code="PG140",
    title="not readable as Python",
    what="The file does not parse, or is nested too deeply to be read.",
    why="Python cannot run the file, so nothing else in it was checked.",
    fix="Correct the syntax at the line given.",
)


def not_python(line: int, reason: str, path: str, source: str) -> Finding:
    message = f"not readable as Python: {reason}"
    return finding_in_file(NOT_PYTHON, path, Span(line=line, column=1), message, source)
