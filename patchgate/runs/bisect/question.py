"""What a search asks: a fact, a figure of parity, a verdict's code, or a name of torch's API.

Decides how a question is written and what a reading answers: it holds (bad,
in git's word), it does not (good), or nobody can tell. Measures nothing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from dataclasses import dataclass, field

from patchgate.checks.registry import catalogue
from patchgate.model.errors import UsageError
from patchgate.model.facts import value_in
from patchgate.model.predicates import parse_predicate
from patchgate.model.records import Colour, Facts, FactValue, Unmeasured, Verdict
from patchgate.runs.bisect.search import Answer

_FORM = re.compile(r"(?P<subject>[^\s<>=!]+)\s*(?P<predicate>(?:[<>=!]|contains\b).*)")


@dataclass(frozen=True, kw_only=True)
class Question:
    """`kind` is "fact", "metric", "code" or "has"; `name` the fact, figure, code or dotted name that it is about."""

    kind: str
    text: str
    name: str
    predicate: str = ""
    workload: str = ""
    device: str = ""

    @property
    def option(self) -> str:
        """As it is typed."""
        return f"--{self.kind} '{self.text}'" if " " in self.text or "(" in self.text else f"--{self.kind} {self.text}"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What was measured for one item; `problem` says why there is nothing."""

    answer: Answer
    shown: str
    facts: Facts = field(default_factory=dict)


def parse_fact(text: str, workloads: Collection[str], devices: Collection[str]) -> Question:
    """`residual_stack.h200.loads.max > 4`. Raises UsageError."""
    subject, predicate = _parts("--fact", text, "residual_stack.h200.loads.max > 4")
    workload, _, rest = subject.partition(".")
    device, _, name = rest.partition(".")
    for what, given, known in (("workload", workload, workloads), ("device", device, devices)):
        if given not in known:
            raise UsageError(f"no {what} `{given}`", where="--fact", got=text, next=f"one of: {', '.join(known)}")
    if not name:
        raise UsageError("no fact", where="--fact", got=text, next="--fact 'residual_stack.h200.loads.max > 4'")
    return Question(kind="fact", text=text, name=name, predicate=predicate, workload=workload, device=device)


def parse_metric(text: str, workloads: Collection[str]) -> Question:
    """`residual_stack.differing > 0.5`, a figure of the parity check. Raises UsageError."""
    subject, predicate = _parts("--metric", text, "residual_stack.differing > 0")
    workload, _, name = subject.partition(".")
    if workload not in workloads or not name:
        known = f"one of the workloads: {', '.join(workloads)}"
        raise UsageError("not WORKLOAD.FIGURE", where="--metric", got=text, next=known)
    return Question(kind="metric", text=text, name=name, predicate=predicate, workload=workload, device="cpu")


def parse_code(text: str) -> Question:
    """`PG501`. Raises UsageError."""
    if text.upper() not in catalogue():
        raise UsageError("no such code", where="--code", got=text, next="patchgate explain   (lists all)")
    return Question(kind="code", text=text.upper(), name=text.upper())


def parse_has(text: str) -> Question:
    """`torch._inductor.ir.StorageBox.realize` or a parameter of it, `...realize(hint)`. Raises UsageError."""
    if not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)+(\(\w+\))?", text):
        form = "--has torch._inductor.ir.StorageBox.realize, or 'torch.a.f(parameter)'"
        raise UsageError("not a dotted name", where="--has", got=text, next=form)
    return Question(kind="has", text=text, name=text)


def _parts(option: str, text: str, example: str) -> tuple[str, str]:
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
    """The answer that facts or figures give."""
    return _read(question, value_in(facts, question.name), facts)


def read_figures(question: Question, figures: dict[str, float]) -> Reading:
    """The answer that the figures of a comparison give."""
    return _read(question, figures.get(question.name), {})


def _read(question: Question, value: FactValue | float | None, facts: Facts) -> Reading:
    if value is None or isinstance(value, Unmeasured):
        close = difflib.get_close_matches(question.name, facts, n=1)
        absent = f"no {question.name}" + (f"; did you mean {close[0]}?" if close else "")
        why = value.reason if isinstance(value, Unmeasured) else absent
        return Reading(answer=Answer.UNKNOWN, shown=why, facts=facts)
    told = " ".join(map(str, value)) if isinstance(value, tuple) else f"{value:.6g}" if _is_real(value) else str(value)
    holds = parse_predicate(question.predicate)(value)
    return Reading(answer=Answer.BAD if holds else Answer.GOOD, shown=f"{question.name} = {told}", facts=facts)


def _is_real(value: FactValue | float) -> bool:
    return isinstance(value, float)


def read_verdicts(question: Question, verdicts: list[Verdict]) -> Reading:
    """Bad when a red verdict has the code; nobody can tell when the machine kept some cell from judging."""
    told = next((v for v in verdicts if v.code == question.name and v.colour is Colour.RED), None)
    if told:
        return Reading(answer=Answer.BAD, shown=f"{told.code} {told.subject}: {told.actual}")
    grey = next((v for v in verdicts if v.colour is Colour.GREY), None)
    if grey or not verdicts:
        why = f"{grey.code} {grey.actual}" if grey else "nothing was judged"
        return Reading(answer=Answer.UNKNOWN, shown=why)
    return Reading(answer=Answer.GOOD, shown=f"no {question.name}")


def untold(why: str) -> Reading:
    return Reading(answer=Answer.UNKNOWN, shown=why)
