"""PG140: the file does not parse, or is nested too deeply to be read."""

from __future__ import annotations

from patchgate.lint.findings import Finding, finding_in_file
from patchgate.lint.interpret.references import Span
from patchgate.model.records import read_codes

(NOT_PYTHON,) = read_codes("""
PG140 not readable as Python
    The file does not parse, or is nested too deeply to be read.
    Why: Python cannot run the file, so nothing else in it was checked.
    Fix: Correct the syntax at the line given.
""")


def not_python(line: int, reason: str, path: str, source: str) -> Finding:
    message = f"not readable as Python: {reason}"
    return finding_in_file(NOT_PYTHON, path, Span(line=line, column=1), message, source)
