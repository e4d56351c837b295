"""The parts of a check: its registration, the context that it asks, its records, and judgements
that several checks share.
"""

from patchgate.checks.framework.blame import Fault, failure_text, fault_of, held_against
from patchgate.checks.framework.context import SIMULATED, CheckContext, claimed_names
from patchgate.checks.framework.find_checks import (
    Check,
    Instance,
    NothingToJudge,
    Verdicts,
    code_of_others,
    judge_failed,
    verdict_of,
)
from patchgate.checks.framework.patch_outcome import (
    by_package,
    does_not_run,
    names_of,
    replaced_names,
    then,
)
from patchgate.inputs.manifest import Patch
from patchgate.model.paths import display_path
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Numerics, Observation, Verdict, read_codes
from patchgate.model.serialization import Answer, failure_of

__all__ = [
    "SIMULATED",
    "Answer",
    "Case",
    "Check",
    "CheckContext",
    "Fault",
    "Instance",
    "Kind",
    "NothingToJudge",
    "Numerics",
    "Observation",
    "Patch",
    "Verdict",
    "Verdicts",
    "by_package",
    "claimed_names",
    "code_of_others",
    "display_path",
    "does_not_run",
    "failure_of",
    "failure_text",
    "fault_of",
    "held_against",
    "judge_failed",
    "names_of",
    "read_codes",
    "replaced_names",
    "then",
    "verdict_of",
]
