"""Finds the checks: each module of `patchgate/checks` that decorates a function with a `Check` adds
one by being there.

The catalogue of codes, the order in reports and the cells of a run are all made from them.
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

# A check asks and judges one case, in which the axes that the check lacks are empty. Its first
# argument is a CheckContext, which is not imported here: reports read this registry without it.
Verdicts = Iterable[Verdict]
Ask = Callable[[Any, "Instance"], Verdicts]
AXES = ("torch", "device", "workload", "size")
#: The fact of the verdict that says what was not measured again.
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
    """One question about a patch, for each combination of its axes. It decorates the function that
    answers.
    """

    axes: tuple[str, ...] = ("torch",)  #: of `AXES`
    workloads: str = "kernels"  #: the kind of check that a workload's CHECKS must name
    workload: str = ""  #: the name of a workload of its own, without that axis
    #: the devices on which it is asked
    devices: Callable[[Run], Sequence[str]] = lambda run: run.devices
    #: the device whose sentinel must count first; empty: the one that it is asked on
    believes: str = ""
    first: bool = False  #: asked without preconditions
    #: asked together with its preconditions, since it need not wait until torch is imported
    ahead: bool = False
    #: True if this run and patch give it anything to do.
    wanted: Callable[[Run, Patch], bool] = lambda run, patch: True
    #: on one release, in place of the product of the axes
    cases: Callable[[Patch, str], list[Case]] | None = None
    #: About how long an instance takes: the longest are asked first, and the remaining time is
    #: estimated by it. Instances that have nothing to judge, or find all measured, count too.
    seconds: float = 1
    #: The workloads that it is asked of if the patch changed nothing: "all", "few" or "none".
    unchanged: Literal["all", "few", "none"] = "all"
    eager: bool = False  #: True if it judges a workload also where torch compiles nothing
    name: str = ""  #: that of its module
    family: str = ""  #: as reports list its verdicts
    question: str = ""  #: the first paragraph of its module
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
    """Every check by name: the machine's first, then in the order of their codes, in whatever order
    they were imported.
    """
    _modules()
    return dict(
        sorted(
            _CHECKS.items(),
            key=lambda item: (families().index(item[1].family), _first_code(item[1])),
        )
    )


def _first_code(check: Check) -> tuple[str, str]:
    """The lowest code of the check's module; a check without codes of its own comes after its
    module's.
    """
    codes = getattr(sys.modules[check.ask.__module__], "CODES", ())
    return min((code.code for code in codes), default="~"), check.name


@cache
def catalogue() -> dict[str, Code]:
    """The codes of all checks, in order."""
    codes = [code for module in _modules() for code in getattr(module, "CODES", ())]
    return {code.code: code for code in sorted(codes, key=lambda code: code.code)}


def refuse_unknown_codes(where: str, codes: Iterable[str]) -> None:
    """Raises UsageError for a code that no check has: another patchgate may have made the
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
    """The title of a verdict code; empty for a code that no longer exists, as a history may have
    it.
    """
    return catalogue()[code].title if code in catalogue() else ""


@cache
def families() -> tuple[str, ...]:
    """The headings of verdicts, in reading order: first the machine, then by code."""
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
    """A verdict with the reason of its code, and with the code's next step unless a better one is
    given.

    `actual` may be several clauses: a list shows the first. `item` is the line of the report that
    it belongs to; the name of the case by default.
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

    `codes` are for a failure of the patch, and for any other. `place` is shown if the failure has
    none.
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
    """The code for a comparison whose unpatched side failed, or whose machine did."""
    return Code(
        code=code,
        title="torch or the machine failed, not the patch",
        what="The unpatched side of this comparison failed, so torch itself has changed; or the "
        "machine failed.",
        why="Without an unpatched side the patch cannot be judged, so this says nothing of it.",
        fix="Run again. If it persists, run the workload without the patch, and check disk, memory "
        "and limits.",
    )
