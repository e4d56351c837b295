"""Sampled tokens of a small decoder, unpatched and patched -> how often a test of exact text would flip.

Decides by the patch's claim; the probability comes with a Wilson interval, so
that few flips are not taken for none.
"""

from __future__ import annotations

from collections.abc import Mapping

from patchgate.checks.codes import verdict_of
from patchgate.model.paths import shown
from patchgate.model.records import Kind, Numerics, Patch, Verdict
from patchgate.model.statistics import share_interval

Counts = Mapping[str, int]
# The length of text for which a probability is told, beside the one that was sampled.
_LONG = 1000


def flips_within(tokens: int, counts: Counts) -> tuple[float, float, float]:
    """The probability that a text of so many tokens changes, and its interval: every token has the same chance."""
    low, high = share_interval(counts["changed_sequences"], counts["drawn_alike"])
    share = counts["changed_sequences"] / counts["drawn_alike"]
    once = [1 - (1 - chance) ** tokens for chance in (share, low, high)]
    return once[0], once[1], once[2]


def judge_tokens(torch: str, patch: Patch, device: str, told: Mapping[str, Counts]) -> list[Verdict]:
    """One verdict a way of sampling."""
    return [_sampling(torch, patch, f"decoder.{device} {mode} tokens", counts) for mode, counts in told.items()]


def _sampling(torch: str, patch: Patch, subject: str, counts: Counts) -> Verdict:
    claim = patch.claims.numerics
    flips = counts["changed_sequences"] > 0
    red = flips and claim is Numerics.BIT_IDENTICAL
    kind = Kind.REGRESSED if red else Kind.NOTE if flips else Kind.PASS
    code, where = ("PG510", shown(patch.manifest or patch.path)) if red else ("PG503", None)
    return verdict_of("parity", code, kind, torch, subject, f'numerics = "{claim.value}"', _sentence(counts), where)


def _sentence(counts: Counts) -> str:
    length = counts["tokens"] // counts["sequences"]
    low, high = share_interval(counts["changed_sequences"], counts["sequences"])
    told = f"{counts['changed_tokens'] / counts['tokens']:.1%} of {counts['tokens']} tokens change,"
    told += f" {counts['changed_sequences']} of {counts['sequences']} sequences ({low:.1%} to {high:.1%})"
    for tokens in (length, _LONG):
        chance, least, most = flips_within(tokens, counts)
        told += f"; an exact-text test over {tokens} tokens would flip with probability {chance:.1%}"
        told += f" ({least:.1%} to {most:.1%})"
    return told
