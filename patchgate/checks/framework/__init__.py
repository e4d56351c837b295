"""What a check is made of: its registration, the context that it asks, and the judgements that
several checks share.
"""

from patchgate.checks.framework.blame import Fault, failure_text, fault_of, held_against
from patchgate.checks.framework.context import SIMULATED, CheckContext
from patchgate.checks.framework.find_checks import (
    Check,
    Instance,
    NothingToJudge,
    Verdicts,
    code_of_others,
    judge_failed,
    verdict_of,
)

__all__ = [
    "SIMULATED",
    "Check",
    "CheckContext",
    "Fault",
    "Instance",
    "NothingToJudge",
    "Verdicts",
    "code_of_others",
    "failure_text",
    "fault_of",
    "held_against",
    "judge_failed",
    "verdict_of",
]
