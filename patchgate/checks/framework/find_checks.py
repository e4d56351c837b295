"""Finds the checks: each module of `patchgate/checks` that decorates a function with a `Check` adds
a check, and needs no other registration.

The catalogue of codes, the order in reports and the cells of a run are all made from the checks.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from patchgate import checks
from patchgate.checks.framework.blame import Fault, failure_text, fault_of
from patchgate.model.errors import UsageError
from patchgate.model.paths import display_path
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Code, Command, Failure, Verdict, record
from patchgate.runner.run_settings import Run

if TYPE_CHECKING:
    from patchgate.inputs.manifest import Patch

# The function of a check, which asks about one case and judges the answers. Axes that the check
# lacks are empty in the case. The first argument is a CheckContext. That class is not imported
# here, because reports use this module without it.
Verdicts = Iterable[Verdict]
Ask = Callable[[Any, "Instance"], Verdicts]
AXES = ("torch", "device", "workload", "size")
#: The `fact` of the verdict that says which releases were not measured again in full.
REST = "not measured again"
#: The option of `gate` that installs a package next to torch.
REQUIRES = "--requires"


class NothingToJudge(Exception):
    """A check has nothing to say about a case, for a reason that another check states."""


@record
class Instance:
    """One combination of a check's axes."""

    case: Case  #: of the patched side
    size: str = ""  #: the size at which a workload is timed, as its `build` takes it

    @property
    def id(self) -> str:
        """The name that progress and the journal of a run show."""
        return "-".join(
            filter(None, (self.case.torch, self.case.device, self.case.workload, self.size))
        )


@record
class Check:
    """One question about a patch, asked for each combination of the check's axes. A check decorates
    the function that answers the question.
    """

    axes: tuple[str, ...] = ("torch",)  #: names from `AXES`
    workloads: str = "kernels"  #: the kind of check that a workload's CHECKS must name
    workload: str = ""  #: the only workload of a check without the axis `workload`
    #: the devices on which the check is asked
    devices: Callable[[Run], Sequence[str]] = lambda run: run.devices
    #: the device whose sentinel must pass first; if empty, the device on which the check is asked
    believes: str = ""
    first: bool = False  #: asked without preconditions
    #: asked together with its preconditions, since it need not wait until torch is imported
    ahead: bool = False
    #: True if this run and patch give the check anything to do.
    wanted: Callable[[Run, Patch], bool] = lambda run, patch: True
    #: the cases on one release, in place of the product of the axes
    cases: Callable[[Patch, str], list[Case]] | None = None
    #: About how long an instance takes. The longest are asked first, and the remaining time is
    #: estimated from it. Instances with nothing to judge, or nothing left to measure, count too.
    seconds: float = 1
    #: The workloads on which the check is asked if the patch changed nothing.
    unchanged: Literal["all", "few", "none"] = "all"
    eager: bool = False  #: True if the check judges workloads even where torch compiles nothing
    name: str = ""  #: the name of its module
    family: str = ""  #: the heading of its verdicts in reports
    question: str = ""  #: the first paragraph of its module's docstring
    ask: Ask = lambda context, at: ()

    def __call__(self, ask: Ask) -> Ask:
        """Register the decorated function as the check of its module."""
        module = sys.modules[ask.__module__]
        name = module.__name__.rpartition(".")[2]
        question = " ".join((module.__doc__ or "").partition("\n\n")[0].split())
        _CHECKS[name] = replace(self, name=name, family=module.FAMILY, question=question, ask=ask)
        return ask


_CHECKS: dict[str, Check] = {}


@cache
def _modules() -> tuple[Any, ...]:
    found = pkgutil.walk_packages(checks.__path__, f"{checks.__name__}.")
    return tuple(import_module(each.name) for each in found)


@cache
def all_checks() -> dict[str, Check]:
    """Every check by name: the machine's checks first, then the others in the order of their codes.
    The order of imports does not matter.
    """
    _modules()
    return dict(
        sorted(
            _CHECKS.items(),
            key=lambda item: (families().index(item[1].family), _first_code(item[1])),
        )
    )


def _first_code(check: Check) -> tuple[str, str]:
    """The key that sorts the checks of a family: the lowest code of the check's module. Checks of
    modules without codes come last, by name.
    """
    codes = getattr(sys.modules[check.ask.__module__], "CODES", ())
    return min((code.code for code in codes), default="~"), check.name


@cache
def catalogue() -> dict[str, Code]:
    """The codes of all checks, in order."""
    codes = [code for module in _modules() for code in getattr(module, "CODES", ())]
    return {code.code: code for code in sorted(codes, key=lambda code: code.code)}


def refuse_unknown_codes(where: str, codes: Iterable[str]) -> None:
    """Raise UsageError for a code that no check has: another version of patchgate may have made the
    results.
    """
    for code in codes:
        if code not in catalogue():
            raise UsageError("no such code", where=where, got=code[:80], next="patchgate explain")


def every_code() -> dict[str, Code]:
    """The codes of all checks and of lint's rules, in order."""
    from patchgate.lint import rules  # imported here, because most readers of codes need no lint

    return dict(sorted({**catalogue(), **{code.code: code for code in rules.CODES}}.items()))


def title_of(code: str) -> str:
    """The title of a verdict code; empty for a code that no longer exists but is still in a
    history.
    """
    return catalogue()[code].title if code in catalogue() else ""


@cache
def families() -> tuple[str, ...]:
    """The headings of verdicts, in reading order: first the machine, then the others by code."""
    first: dict[str, str] = {}
    for module in _modules():
        codes = [code.code for code in getattr(module, "CODES", ())]
        if codes:
            first[module.FAMILY] = min([*codes, first.get(module.FAMILY, "~")])
    return tuple(sorted(first, key=lambda family: "" if family == "machine" else first[family]))


def verdict_of(
    check: str,
    code: str,
    kind: Kind,
    case: Case,
    fact: str,
    expected: str,
    actual: str | tuple[str, ...],
    where: str | None = None,
    *,
    item: str = "",
    share: float = 0.0,
    advice: str | None = None,
    commands: tuple[Command, ...] | None = None,
) -> Verdict:
    """Make a verdict with the reason of its code, and with the code's next step unless `advice` is
    given.

    `actual` may have several clauses; a list of verdicts shows only the first. `item` is the line
    of the report to which the verdict belongs, by default the name of the case.
    """
    known = catalogue()[code]
    clauses = (actual,) if isinstance(actual, str) else actual
    return Verdict(
        code=code,
        kind=kind,
        check=check,
        case=case,
        item=item or case.name,
        fact=fact,
        expected=expected,
        actual="; ".join(clauses),
        brief=clauses[0] if len(clauses) > 1 else "",
        share=share,
        where=display_path(where) if where else None,
        why=known.why,
        advice=known.fix if advice is None else advice,
        commands=known.commands if commands is None and advice is None else commands or (),
    )


def judge_failed(
    family: str,
    codes: tuple[str, str],
    case: Case,
    sides: tuple[Failure | None, Failure | None],
    expected: str,
    *,
    actual: str = "",
    place: str | None = None,
    item: str = "",
) -> Verdict | None:
    """The verdict if one of the sides (unpatched, patched) failed; None if both ran.

    `codes` has the code for a failure of the patch, and the code for any other failure. `place` is
    shown if the failure has no place.
    """
    fault, failure = fault_of(*sides), sides[0] or sides[1]
    if fault is None or failure is None:
        return None
    code, where = codes[fault is not Fault.PATCH], failure.where or place
    text, commands = actual or failure_text(*sides), installing(failure.missing)
    advice = "install what is missing next to torch" if commands else None
    return verdict_of(
        family,
        code,
        fault.kind,
        case,
        "",
        expected,
        text,
        where,
        item=item,
        advice=advice,
        commands=commands or None,
    )


def installing(packages: Iterable[str]) -> tuple[Command, ...]:
    """The command that installs packages next to torch; the run adds its own options to it."""
    words = tuple(f"{REQUIRES} {name}" for name in packages if "." not in name)
    return (Command(name="gate", arguments=words),) if words else ()


def code_of_others(*, code: str) -> Code:
    """The code for a comparison that failed because of the unpatched side or of the machine."""
    return Code(
        code=code,
        title="torch or the machine failed, not the patch",
        what="The unpatched side of this comparison failed, so torch itself has changed; or the "
        "machine failed.",
        why="Without an unpatched side the patch cannot be judged, so this says nothing of it.",
        fix="Run again. If it persists, run the workload without the patch, and check disk, memory "
        "and limits.",
    )
