"""Made-up verdicts for the tests of reports."""

from patchgate.model.policy import Kind
from patchgate.model.records import Case, Verdict


def verdict(
    kind=Kind.PASS, code="PG300", check="kernels", torch="2.9.0", subject="stack.h200 loads", **rest
):
    """A verdict on `subject`: an item, which is a case's name where it has a dot, and a fact."""
    item, _, fact = subject.partition(" ")
    workload, _, device = item.partition(".") if "." in item else ("", "", "")
    case = Case(torch=torch, workload=workload, device=device)
    return Verdict(code=code, kind=kind, check=check, case=case, item=item, fact=fact, **rest)
