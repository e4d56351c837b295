"""Does a small decoder sample other tokens with the patch? 64 prompts, 64 tokens each, on the CPU,
on a real GPU, and nightly by Triton's interpreter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from patchgate.checks.framework import (
    Answer,
    Case,
    Check,
    CheckContext,
    Instance,
    Kind,
    NothingToJudge,
    Numerics,
    Patch,
    Verdict,
    Verdicts,
    read_codes,
    verdict_of,
)
from patchgate.checks.generated_kernels import interpreted_sides, simulated_devices
from patchgate.checks.parity import compared_sides, numeric_devices
from patchgate.model.statistics import share_interval
from patchgate.runner.run_settings import Run

FAMILY = "parity"
CODES = read_codes("""
PG510 sampled tokens change
    The patch claims `numerics = "bit-identical"`, and a small decoder with random weights gives
    other tokens.
    Why: A job that compares sampled text exactly will flip.
    Fix: If the change is acceptable, claim `numerics = "rounding"` in the manifest and warn users
    who compare sampled text exactly. If not, correct the patch.
""")
verdict = partial(verdict_of, FAMILY)
Counts = Mapping[str, int]
# Probabilities are given for a text of so many tokens and for a text of the sampled length.
_LONG = 1000
# In Triton's interpreter: the number of tokens after each prompt, and the time limit as a multiple
# of the limit of one case. The interpreter takes two seconds for each token, so it gets the time of
# one case for each minute that it may take.
_TOKENS = 64
_MINUTES = 8


def _devices(run: Run) -> list[str]:
    """The devices that compute numbers and, in a nightly run, the first simulated device."""
    return [*numeric_devices(run), *(simulated_devices(run)[:1] if run.nightly else [])]


@Check(
    axes=("torch", "device"),
    workload="decoder",
    devices=_devices,
    seconds=4,
    unchanged="none",
)
def ask_tokens(context: CheckContext, at: Instance) -> Verdicts:
    case = at.case
    if context.run.profile(case.device)["kind"] == "simulated":
        if _is_same_code(context, case):
            raise NothingToJudge("the same code is generated for the decoder")
        ask = partial(_sample, context, case, compiles=_MINUTES, tokens=_TOKENS)
        metrics = interpreted_sides(context, case, ask, "differ tokens")
    else:
        ask = partial(_sample, context, case)
        metrics = compared_sides(context, case, ask, "differ tokens")
    return [metrics] if isinstance(metrics, Verdict) else judge_tokens(case, context.patch, metrics)


def _sample(
    context: CheckContext, case: Case, patch: Patch | None, path: str, **more: Any
) -> Answer:
    asked = {"patch": patch, "outputs": path, **more}
    return context.ask_building(case.torch, "sample", case.device, **asked)


def _is_same_code(context: CheckContext, case: Case) -> bool:
    """True if the compiled decoder has the same code on both sides. No token is sampled."""
    with TemporaryDirectory() as folder:
        codes = [
            _sample(context, case, patch, str(Path(folder, "tokens")), tokens=0).get("code")
            for patch in (None, context.patch)
        ]
    return bool(codes[0]) and codes[0] == codes[1]


def judge_tokens(case: Case, patch: Patch, by_mode: Mapping[str, Counts]) -> Verdicts:
    """One verdict for each way of sampling, with the chance that a test of exact text fails."""
    for mode, counts in by_mode.items():
        flips = counts["changed_sequences"] > 0
        red = flips and patch.claims.numerics is Numerics.BIT_IDENTICAL
        kind = Kind.REGRESSED if red else Kind.NOTE if flips else Kind.PASS
        code, where = ("PG510", patch.place_of("numerics")) if red else ("PG503", None)
        share = counts["changed_tokens"] / counts["tokens"]
        more = _chances(counts)
        if flips:
            more += (
                f"; first: sequence {counts['first_sequence']}, token {counts['first_token']}: "
                f"{counts['first_before']} -> {counts['first_after']}"
            )
        expected, actual = patch.stated_numerics, (_changes(counts), more)
        made = verdict(code, kind, case, f"{mode} tokens", expected, actual, where, share=share)
        yield replace(made, chance=flips_within(1, counts)) if flips else made


def flips_within(tokens: int, counts: Counts) -> tuple[float, float, float]:
    """Return the probability that a text of `tokens` tokens changes, and the ends of its interval.
    Every token is assumed to change with the same probability.
    """
    low, high = share_interval(counts["changed_sequences"], counts["drawn_alike"])
    share = counts["changed_sequences"] / counts["drawn_alike"]
    once = [1 - (1 - chance) ** tokens for chance in (share, low, high)]
    return once[0], once[1], once[2]


def _changes(counts: Counts) -> str:
    """A clause on the changes, with Wilson's interval, so that few changes are not read as none."""
    low, high = share_interval(counts["changed_sequences"], counts["sequences"])
    return (
        f"{counts['changed_tokens'] / counts['tokens']:.1%} of {counts['tokens']} tokens change, "
        f"in {counts['changed_sequences']} of {counts['sequences']} texts (of all texts "
        f"{low:.1%} to {high:.1%}, with 95% confidence)"
    )


def _chances(counts: Counts) -> str:
    """A text with the probability that a test of exact text fails: once for a text as long as one
    sampled sequence, and once for a text of `_LONG` tokens.
    """
    chances = []
    for tokens in (counts["tokens"] // counts["sequences"], _LONG):
        chance, least, most = flips_within(tokens, counts)
        chances.append(f"{chance:.1%} ({least:.1%} to {most:.1%}) over {tokens} tokens")
    return f"probability that an exact-text test fails: {', '.join(chances)}"
