"""What processes that share a cache directory were given -> PG7xx: does the cache know of the patch?

Decides by the code that ran, never by a counter alone: code that is another
than a cold cache gives is stale. Refuses to know how a process was run.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from patchgate.checks.codes import CODES, verdict_of
from patchgate.model.paths import shown
from patchgate.model.records import Cause, Kind, Patch, Verdict
from patchgate.model.serialization import Answer, failure_of

# The processes, each named for what it ran and what the cache held: `patched` and `unpatched` found it
# cold, `edited` is the patch with a void edit, and `tagged` the patch with a cache_key_tag of ours.
UNPATCHED, PATCHED = "unpatched", "patched"
PATCHED_WARM, UNPATCHED_WARM = "patched, warmed unpatched", "unpatched, warmed patched"
EDITED, AGAIN, TAGGED = "edited", "again", "tagged"


_verdict = partial(verdict_of, "cache")


def is_stale(answers: Mapping[str, Answer]) -> bool:
    """Whether a process that found the cache warm ran other code than one that found it cold."""
    return any(
        answers[warm]["code"] != answers[cold]["code"]
        for warm, cold in ((PATCHED_WARM, PATCHED), (UNPATCHED_WARM, UNPATCHED))
    )


def judge_failure(torch: str, subject: str, answers: Mapping[str, Answer]) -> Verdict | None:
    """One verdict for the first process that failed: the patch's fault only when it alone had one."""
    failures = {name: failure for name, answer in answers.items() if (failure := failure_of(answer))}
    if not failures:
        return None
    name, failure = next(iter(failures.items()))
    infra = UNPATCHED in failures or failure.cause is Cause.MACHINE
    code, kind = ("PG709", Kind.INFRA) if infra else ("PG706", Kind.REGRESSED)
    actual = f"{name}: {failure.cause.value}: {failure.signature}"
    return _verdict(code, kind, torch, subject, "compiles with the caches on", actual, failure.where)


def judge_cache(torch: str, subject: str, patch: Patch, answers: Mapping[str, Answer]) -> list[Verdict]:
    """PG701 to PG705 from the code and the cache's answers of each process."""
    where = shown(patch.path)
    refused = {name: answers[name]["answers"] for name in (UNPATCHED, PATCHED)}
    if _bypassed(refused[PATCHED]) > _bypassed(refused[UNPATCHED]):
        expected = f"{_bypassed(refused[UNPATCHED])} graphs refused, as unpatched"
        actual = f"{_bypassed(refused[PATCHED])} refused"
        return [_verdict("PG702", Kind.REGRESSED, torch, subject, expected, actual, where)]
    stale = [_stale(torch, subject, where, answers, warm) for warm in (PATCHED_WARM, UNPATCHED_WARM)]
    found = [verdict for verdict in stale if verdict]
    if found:
        return found
    if answers[PATCHED]["code"] == answers[UNPATCHED]["code"]:
        actual = "the patch leaves the code of this workload as it is: its cache key cannot be judged here"
        return [_verdict("PG705", Kind.NOTE, torch, subject, "code of its own", actual)]
    return [_key(torch, subject, where, answers)]


def _stale(torch: str, subject: str, where: str, answers: Mapping[str, Answer], warm: str) -> Verdict | None:
    side, other = (PATCHED, UNPATCHED) if warm == PATCHED_WARM else (UNPATCHED, PATCHED)
    ran = answers[warm]
    if ran["code"] == answers[side]["code"]:
        return None
    whose = f"the {other} code" if ran["code"] == answers[other]["code"] else "code of neither side"
    expected = f"{side} code, in a cache that was warmed {other}"
    actual = f"{whose} ran ({_told(ran['answers'])})"
    told = f"{subject} {side} after {other}"
    return _verdict("PG701", Kind.REGRESSED, torch, told, expected, actual, where, next=_remedy(torch, answers))


def _remedy(torch: str, answers: Mapping[str, Answer]) -> str:
    """What makes the patch run its own code on this release: tried, not believed."""
    tagged = answers[TAGGED]
    works = not failure_of(tagged) and tagged["code"] == answers[PATCHED]["code"]
    if works and not _hits(tagged["answers"]):
        tried = f"Tried on torch {torch}: with a tag of its own in the key the patch missed and ran its code."
        return f"{CODES['PG701'].fix} {tried}"
    return (
        f"Give the patch a TORCHINDUCTOR_CACHE_DIR of its own: tried on torch {torch}, where"
        " `torch.compiler.config.cache_key_tag` did not help."
    )


def _key(torch: str, subject: str, where: str, answers: Mapping[str, Answer]) -> Verdict:
    """Whether the key follows the patch's text, and nothing but its text."""
    edited, again = answers[EDITED], answers[AGAIN]
    failure = failure_of(edited)
    if not failure and _hits(edited["answers"]):
        actual = f"an edited patch found the code of this one ({_told(edited['answers'])})"
        return _verdict("PG703", Kind.REGRESSED, torch, subject, "a key of its own", actual, where)
    if not _hits(again["answers"]):
        actual = f"the second process with this patch compiled anew ({_told(again['answers'])})"
        return _verdict("PG704", Kind.REGRESSED, torch, subject, "its own code found again", actual, where)
    actual = "each side ran its own code, and the second patched process found that of the first"
    if failure:
        actual += f"; an edited patch could not be tried: {failure.signature}"
    return _verdict("PG705", Kind.PASS, torch, subject, "its own code on either side", actual)


def _hits(told: Mapping[str, int]) -> int:
    return told["hit"] + told["autograd_hit"]


def _bypassed(told: Mapping[str, int]) -> int:
    return told["bypass"] + told["autograd_bypass"]


def _told(told: Mapping[str, int]) -> str:
    fx = ", ".join(f"{told[name]} {name}" for name in ("hit", "miss", "bypass"))
    autograd = ", ".join(f"{told['autograd_' + name]} {name}" for name in ("hit", "miss", "bypass"))
    return f"FX graphs: {fx}; AOTAutograd: {autograd}"
