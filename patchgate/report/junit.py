"""Verdicts as JUnit XML: a test case a verdict, so that a pipeline shows each one under a stable name."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from patchgate.model import Colour, Verdict


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
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


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
    """XML 1.0 has no control characters but tab and newlines; a patch may print any."""
    return "".join(c for c in text if c in "\t\n\r" or (ord(c) >= 32 and not 0xD800 <= ord(c) <= 0xDFFF))
