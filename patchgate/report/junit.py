"""Verdicts as JUnit XML: one test case for each verdict, so that a pipeline shows it under a stable
name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import BytesIO

from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

from patchgate.model.policy import Colour
from patchgate.model.records import Verdict
from patchgate.report.last_lines import count_line
from patchgate.report.next_commands import next_step
from patchgate.report.view import RunView

# Characters that a patch may print but XML 1.0 cannot contain: control characters, surrogates and
# two noncharacters.
_FORBIDDEN = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def render_junit(
    verdicts: Mapping[Verdict, float], view: RunView | None = None, name: str = ""
) -> str:
    """Render a test case for each verdict, with its time and the `name` of the patch. It fails for
    a red verdict and is skipped for a grey one. If a narrowed run has no problem, one more skipped
    test case stands for all that the run left out.
    """
    suite = TestSuite(_clean(f"patchgate {name}".rstrip()))
    suite.add_testcases([_case(verdict, seconds, name) for verdict, seconds in verdicts.items()])
    if view and view.quick_look and not view.causes:
        look = TestCase("quick look", classname="patchgate")
        look.result = Skipped(_clean(count_line(view)))
        suite.add_testcases([look])
    root, file = JUnitXml(), BytesIO()
    root.add_testsuite(suite)
    root.write(file)
    return file.getvalue().decode("utf-8") + "\n"


def _case(verdict: Verdict, seconds: float, patch: str) -> TestCase:
    name = ".".join(filter(None, (patch, verdict.check, f"torch-{verdict.torch}")))
    case = TestCase(_clean(verdict.subject), classname=_clean(name), time=round(seconds, 3))
    if verdict.colour is Colour.RED:
        failure = Failure(_clean(verdict.actual), verdict.code)
        failure.text = _clean(_text(verdict))
        case.result = failure
    elif verdict.colour is Colour.GREY:
        case.result = Skipped(_clean(verdict.actual), verdict.code)
    return case


def _text(verdict: Verdict) -> str:
    fields = (
        ("where", verdict.where),
        ("expected", verdict.expected),
        ("actual", verdict.actual),
        ("why", verdict.why),
        ("next", next_step(verdict.advice, verdict.commands)),
    )
    return "\n".join(f"{name}: {text}" for name, text in fields if text)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("", text)
