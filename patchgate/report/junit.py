"""Verdicts as JUnit XML: a test case a verdict, so that a pipeline shows each one under a stable name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from patchgate.model.records import Colour, Verdict

_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
_FORBIDDEN = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def render_junit(verdicts: Sequence[Verdict]) -> str:
    """A failure for red, a skip for what could not be judged."""
    colours = [verdict.colour for verdict in verdicts]
    suite = ElementTree.Element(
        "testsuite",
        name="patchgate",
        tests=str(len(verdicts)),
        failures=str(colours.count(Colour.RED)),
        skipped=str(colours.count(Colour.GREY)),
        errors="0",
    )
    for verdict in verdicts:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"{verdict.check}.torch-{verdict.torch}",
            name=_clean(verdict.subject),
        )
        if verdict.colour is Colour.RED:
            failure = ElementTree.SubElement(case, "failure", type=verdict.code, message=_clean(verdict.actual))
            failure.text = _clean(_body(verdict))
        elif verdict.colour is Colour.GREY:
            ElementTree.SubElement(case, "skipped", type=verdict.code, message=_clean(verdict.actual))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    # Written here: ElementTree would declare the encoding of this machine's locale.
    return _DECLARATION + ElementTree.tostring(root, encoding="unicode") + "\n"


def _body(verdict: Verdict) -> str:
    parts = (
        ("where", verdict.where),
        ("expected", verdict.expected),
        ("actual", verdict.actual),
        ("why", verdict.why),
        ("next", verdict.next),
    )
    return "\n".join(f"{name}: {text}" for name, text in parts if text)


def _clean(text: str) -> str:
    """Without what XML 1.0 cannot hold: control characters, surrogates, two noncharacters; a patch may print any."""
    return _FORBIDDEN.sub("", text)
