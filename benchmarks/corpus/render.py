"""Scores of the corpus as text: the table in the terminal, and docs/corpus.md.

The page leaves times out: it is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.corpus.score import Score, shares


def line_of_score(score: Score) -> str:
    """One case in one line, and its faults below it."""
    expected, found = ", ".join(score.expected) or "-", ", ".join(score.found) or "-"
    line = f"{score.case.id:32} {score.case.kind:22} {expected:22} {found:22} {score.outcome:14} {score.seconds:6.1f} s"
    return "\n".join([line, *(f"    {fault}" for fault in score.faults)])


def as_text(scores: Sequence[Score], torches: Sequence[str], seconds: float) -> str:
    """What stands below the table."""
    lines = ["", *(str(share) for share in shares(scores))]
    unjudged = [score for score in scores if score.outcome.startswith("needs ")]
    if unjudged:
        lines.append("not judged here: " + "; ".join(f"{score.case.id} ({score.outcome})" for score in unjudged))
    wrong = [score for score in scores if not score.right]
    if wrong:
        lines.append("wrong: " + ", ".join(score.case.id for score in wrong))
    judged = sum(score.judged for score in scores)
    lines.append(f"{len(scores)} cases, {judged} cells on torch {', '.join(torches)} in {seconds:.0f} s")
    return "\n".join(lines)


def as_markdown(scores: Sequence[Score], torches: Sequence[str]) -> str:
    """docs/corpus.md: the same on every machine."""
    rows = [
        f"| {score.case.id} | {score.case.kind} | {', '.join(score.expected) or '-'} |"
        f" {', '.join(score.found) or '-'} | {score.outcome} |"
        for score in scores
    ]
    return "\n".join(
        [
            "# The corpus",
            "",
            "Patches of the PyTorch compiler that went wrong in public, re-created from the facts, their sound forms,",
            "and patches made to break the gate itself. Each folder tells its source in `patch.toml` and the verdicts",
            "that it must get, with the line, in `corpus.toml`. This file is written by",
            "`nox -s corpus -- --all --write docs/corpus.md`. What of the public record is not here:",
            "[fixtures/patches](../fixtures/patches/README.md).",
            "",
            f"Judged on torch {', '.join(torches)}, without a GPU. *caught*: exactly the expected codes were red,",
            "on exactly the expected releases, at the expected line. *quiet*: nothing was red.",
            "",
            *(f"* {share}" for share in shares(scores)),
            "",
            "| case | class | expected | found | |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )
