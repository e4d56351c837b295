"""The results of a run for its reports: the verdicts on one patch, and the evidence that they
compare.
"""

from __future__ import annotations

from patchgate.inputs.manifest import Patch
from patchgate.model.records import Case, Command, Expectation, Observation, Verdict, record
from patchgate.model.statistics import Interval


@record
class ComparedCase:
    """One patched case, and everything that its verdicts compare."""

    case: Case  #: the patched case
    golden: Expectation  #: what golden holds for the patched case
    golden_unpatched: Expectation  #: what golden holds for the unpatched case
    unpatched: Observation | None  #: None where that side was not observed
    patched: Observation
    code: (
        tuple[str, str] | None
    )  #: generated code (unpatched, patched); None if one of the two was not kept
    on: str  #: the device: "real (NAME)" or "simulated (NAME)"


@record
class TimeRatio:
    """The ratio of patched to unpatched time of one workload at one size."""

    name: str  #: `residual_stack.cuda`
    torch: str
    size: str  #: the size as it was asked for: a number of tokens, or "full"
    interval: Interval  #: the ratio with its interval: 1.02 is 2 % slower with the patch


@record
class QuickLook:
    """The share of a full gate that a narrowed run judged: (judged, all) for each sort."""

    workloads: tuple[int, int]
    torches: tuple[int, int]
    devices: tuple[int, int]
    checks: tuple[int, int]
    command: Command  #: the command of the full gate
    without: tuple[str, ...] = ()  #: checks for which no judged workload is meant
    unable: int = 0  #: workloads that cannot run here, with or without the patch


@record
class RunResults:
    """The verdicts on one patch on some torches, and their evidence."""

    patch: Patch
    torches: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    compared: tuple[ComparedCase, ...] = ()
    times: tuple[TimeRatio, ...] = ()
    quick_look: QuickLook | None = None  #: None if the run was not narrowed
