"""PG140, PG142, PG143: the file cannot be read as Python, reading it takes too long, or nothing in
it uses torch.
"""

from __future__ import annotations

from dataclasses import replace

from patchgate.lint.findings import Finding, Severity, finding_in_file
from patchgate.lint.interpret.references import Span
from patchgate.model.records import read_codes

(NOT_PYTHON,) = read_codes("""
PG140 not readable as Python
    The file does not parse, or is nested too deeply to be read.
    Why: Python cannot run the file, so nothing else in it was checked.
    Fix: Correct the syntax at the line given.
""")


def not_python(line: int, reason: str, path: str, source: str) -> Finding:
    return finding_in_file(
        NOT_PYTHON,
        path,
        Span(line=line, column=1),
        f"not readable as Python: {reason}",
        source,
        fix="correct it there, then run the same command again",
    )


(OUT_OF_TIME,) = read_codes("""
PG142 not judged in time
    Reading the file takes more processor time than lint gives to one file.
    Why: The file was not checked, so other findings may be missing.
    Fix: Split the file, or leave it out where it is generated.
""")


def out_of_time(seconds: float, path: str, source: str, what: str = "it") -> Finding:
    message = f"not judged: reading {what} takes more than {seconds:g} s"
    fix = "split the file, or lint the others without it"
    found = finding_in_file(OUT_OF_TIME, path, Span(line=1, column=1), message, source, fix)
    return replace(found, severity=Severity.NOTE)


(UNUSED,) = read_codes("""
PG143 nothing in the file uses torch
    The file has only comments, texts and imports, or nothing at all.
    Why: Nothing was judged there.
    Fix: Give the file that has the patch.
""")


def unused(path: str) -> Finding:
    found = finding_in_file(
        UNUSED,
        path,
        Span(line=1, column=1),
        "nothing to judge: no statement of the file uses torch",
        source="",
        fix="give the file that has the patch",
    )
    return replace(found, severity=Severity.NOTE)
