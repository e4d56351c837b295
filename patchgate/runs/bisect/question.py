"""The question of a search: a fact, a figure of parity, a verdict's code, or a name of torch's API.

This module defines how a question is written (`PARSERS`), and which answer a measurement gives. It
measures nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from enum import Enum

from patchgate.checks.framework.find_checks import catalogue
from patchgate.model.errors import UsageError
from patchgate.model.facts import parse_predicate, value_in
from patchgate.model.policy import Colour
from patchgate.model.records import Case, Facts, FactValue, Unmeasured, Verdict, record
from patchgate.model.results import Answer, Reading
from patchgate.model.text import did_you_mean, nearest

_FORM = re.compile(r"(?P<subject>[^\s<>=!]+)\s*(?P<predicate>(?:[<>=!]|contains\b).*)")
FACT_EXAMPLE = "residual_stack.h200.loads.max > 4"


class QuestionKind(Enum):
    """The subject of a question; the value is the name of its option."""

    FACT = "fact"
    METRIC = "metric"
    CODE = "code"
    API = "has"


@record
class Question:
    """A question with the answer "holds" or "does not hold"."""

    kind: QuestionKind
    text: str  #: as it was typed
    name: str  #: the fact, figure, code or dotted name that it is about
    predicate: str = ""  #: the predicate of a fact or a figure: `> 4`
    workload: str = ""
    device: str = ""

    def case(self, torch: str, patch: str | None) -> Case:
        """The case that the question is about, on one torch."""
        return Case(torch=torch, device=self.device, workload=self.workload, patch=patch)

    @property
    def option(self) -> str:
        """The command-line option that asks this question."""
        quote = "'" if " " in self.text or "(" in self.text else ""
        return f"--{self.kind.value} {quote}{self.text}{quote}"


def parse_fact(text: str, workloads: Collection[str], devices: Collection[str]) -> Question:
    """Parse `residual_stack.h200.loads.max > 4`. Raises UsageError."""
    subject, predicate = _split("--fact", text, FACT_EXAMPLE)
    workload, _, rest = subject.partition(".")
    device, _, name = rest.partition(".")
    for what, given, known in (("workload", workload, workloads), ("device", device, devices)):
        if given not in known:
            raise UsageError(
                f"no {what} `{given}`", where="--fact", got=text, next=nearest(given, known)
            )
    if not name:
        raise UsageError("no fact", where="--fact", got=text, next=f"--fact '{FACT_EXAMPLE}'")
    return Question(
        kind=QuestionKind.FACT,
        text=text,
        name=name,
        predicate=predicate,
        workload=workload,
        device=device,
    )


def parse_metric(text: str, workloads: Collection[str], _: Collection[str] = ()) -> Question:
    """Parse `residual_stack.differing > 0.5`, a figure of the parity check. Raises UsageError."""
    subject, predicate = _split("--metric", text, "residual_stack.differing > 0")
    workload, _, name = subject.partition(".")
    if workload not in workloads or not name:
        known = nearest(workload, workloads, "one of the workloads")
        raise UsageError("not WORKLOAD.FIGURE", where="--metric", got=text, next=known)
    return Question(
        kind=QuestionKind.METRIC,
        text=text,
        name=name,
        predicate=predicate,
        workload=workload,
        device="cpu",
    )


def parse_code(text: str, *_: Collection[str]) -> Question:
    """Parse `PG501`. Raises UsageError."""
    if text.upper() not in catalogue():
        raise UsageError(
            "no such code", where="--code", got=text, next="patchgate explain   (lists all)"
        )
    return Question(kind=QuestionKind.CODE, text=text.upper(), name=text.upper())


def parse_has(text: str, *_: Collection[str]) -> Question:
    """Parse `torch._inductor.ir.StorageBox.realize` or a parameter of it, `...realize(hint)`.

    Raises UsageError.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)+(\(\w+\))?", text):
        form = "--has torch._inductor.ir.StorageBox.realize, or 'torch.a.f(parameter)'"
        raise UsageError("not a dotted name", where="--has", got=text, next=form)
    return Question(kind=QuestionKind.API, text=text, name=text)


#: Kind -> the function that parses its text, given the known workloads and devices.
PARSERS: Mapping[QuestionKind, Callable[[str, Collection[str], Collection[str]], Question]] = {
    QuestionKind.FACT: parse_fact,
    QuestionKind.METRIC: parse_metric,
    QuestionKind.CODE: parse_code,
    QuestionKind.API: parse_has,
}
#: Kinds of questions to which unpatched torch has no answer.
NEED_PATCH = (QuestionKind.METRIC, QuestionKind.CODE)


def _split(option: str, text: str, example: str) -> tuple[str, str]:
    """Split a question into (subject, predicate). Raises UsageError for another form."""
    match = _FORM.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError("no predicate")
        parse_predicate(match["predicate"])
    except ValueError as error:
        raise UsageError(
            "not a question", where=option, got=f"{text!r}: {error}", next=f"{option} '{example}'"
        ) from None
    return match["subject"], match["predicate"].strip()


def read_facts(question: Question, facts: Facts) -> Reading:
    """The answer that the facts of a case give."""
    return _read(question, value_in(facts, question.name), facts)


def read_metrics(question: Question, metrics: dict[str, float]) -> Reading:
    """The answer that the figures of the parity check give."""
    return _read(question, metrics.get(question.name), {})


def inconclusive(why: object, facts: Facts | None = None) -> Reading:
    """The reading of an item that is skipped."""
    return Reading(answer=Answer.UNKNOWN, shown=str(why), facts=facts or {})


def _read(question: Question, value: FactValue | float | None, facts: Facts) -> Reading:
    if isinstance(value, Unmeasured):
        return inconclusive(value.reason, facts)
    if value is None:
        why = f"no {question.name}", did_you_mean(question.name, facts)
        return inconclusive("; ".join(filter(None, why)), facts)
    if isinstance(value, tuple):
        shown = " ".join(map(str, value))
    else:
        shown = f"{value:.6g}" if isinstance(value, float) else str(value)
    holds = parse_predicate(question.predicate)(value)
    return Reading(
        answer=Answer.BAD if holds else Answer.GOOD, shown=f"{question.name} = {shown}", facts=facts
    )


def read_verdicts(question: Question, verdicts: list[Verdict]) -> Reading:
    """Bad if a red verdict has the code; otherwise inconclusive if something was not judged, or if
    there are no verdicts.
    """
    match = next((v for v in verdicts if v.code == question.name and v.colour is Colour.RED), None)
    if match:
        return Reading(answer=Answer.BAD, shown=f"{match.code} {match.subject}: {match.actual}")
    missing = next((v for v in verdicts if not v.is_judged), None)
    if missing or not verdicts:
        return inconclusive(f"{missing.code} {missing.actual}" if missing else "nothing was judged")
    return Reading(answer=Answer.GOOD, shown=f"no {question.name}")


def negated(reading: Reading) -> Reading:
    """The same reading, with the opposite answer."""
    return replace(reading, answer=reading.answer.opposite)
