"""Scores of the corpus as text: the table in the terminal, and docs/corpus.md.

The page leaves times out: it is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from benchmarks.corpus.score import ClassShares, Score, by_class, by_code, shares


def line_of_score(score: Score) -> str:
    """One case in one line, and its faults below it."""
    expected, found = ", ".join(score.expected) or "-", ", ".join(score.found) or "-"
    line = (
        f"{score.case.id:32} {score.case.kind:22} {expected:22} {found:22} {score.outcome:14} "
        f"{score.seconds:6.1f} s"
    )
    return "\n".join([line, *(f"    {fault}" for fault in score.faults)])


def json_of_score(score: Score) -> dict[str, object]:
    """One case for a program: its outcome, codes and faults."""
    return {
        "case": score.case.id,
        "class": score.case.kind,
        "expected": score.expected,
        "found": score.found,
        "notes": score.notes,
        "reasons": score.reasons,
        "outcome": score.outcome,
        "faults": score.faults,
        "seconds": round(score.seconds, 1),
    }


_CODES = (
    "code",
    "red as expected",
    "red in other broken ones",
    "false alarms",
    "notes on sound ones",
)


def _code_rows(scores: Sequence[Score]) -> list[tuple[str, ...]]:
    return [
        (each.code, *map(str, (each.expected, each.others, each.sound, each.notes)))
        for each in by_code(scores)
    ]


def as_text(scores: Sequence[Score], torches: Sequence[str], seconds: float, name: str) -> str:
    """Render the tables that follow the list of cases; `name` is the name of the set."""
    rows = [_HEADER, *map(_cells, by_class(scores))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    lines = ["", name, *("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows), ""]
    lines += ["  ".join(row) for row in (_CODES, *_code_rows(scores))]
    lines += [f"{what}: {share}" for what, share in shares(scores).items() if share.total]
    unjudged = [score for score in scores if score.outcome.startswith("needs ")]
    if unjudged:
        lines.append(
            "not judged here: "
            + "; ".join(f"{score.case.id} ({score.outcome})" for score in unjudged)
        )
    known = [score for score in scores if score.case.known]
    lines += [f"{_STATES[score.right]}: {score.case.id}: {score.case.known}" for score in known]
    wrong = [score for score in scores if not score.settled]
    if wrong:
        lines.append("wrong: " + ", ".join(score.case.id for score in wrong))
    judged = sum(score.judged for score in scores)
    lines.append(
        f"{len(scores)} cases, {judged} cells on torch {', '.join(torches)} in {seconds:.0f} s"
    )
    return "\n".join(lines)


_STATES = {True: "known to be wrong, and right by now", False: "known to be wrong"}
_HEADER = (
    "class",
    "caught",
    "by lint",
    "by the gate",
    "false alarms of lint",
    "false alarms of the gate",
)


def _cells(row: ClassShares) -> tuple[str, ...]:
    return row.kind, *map(str, (row.caught, *row.by.values(), *row.alarms.values()))


def as_markdown(
    scores: Sequence[Score], torches: Sequence[str], name: str, day: date, *, gpu: bool
) -> str:
    """docs/corpus.md: the same on every machine that is asked on that day."""
    rows = [
        f"| {score.case.id} | {score.case.kind} | {', '.join(score.expected) or '-'} |"
        f" {', '.join(score.found) or '-'} | "
        f"{score.outcome}{' (known)' if score.case.known else ''} |"
        for score in scores
    ]
    classes = map(_cells, by_class(scores))
    wrong, device = (
        [score for score in scores if not score.right],
        "with a GPU" if gpu else "without a GPU",
    )
    return "\n".join(
        [
            "# The corpus",
            "",
            "Public patches of the PyTorch compiler that were defective, re-created from the "
            "facts; their corrected",
            "forms; and patches that attack the gate itself. In each folder `patch.toml` names the "
            "source, and",
            "`corpus.toml` the expected verdicts with their lines.",
            "`nox -s corpus -- --write docs/corpus.md` writes this file, with `--all` from every "
            "row.",
            "[fixtures/patches](../fixtures/patches/README.md) lists what of the public record is "
            "not here.",
            "",
            f"The {name}, judged on {day:%d %B %Y} on torch {', '.join(torches)}, {device}.",
            "*caught*: the expected codes were red, on the expected releases, at the expected "
            "line; *and more*: others",
            "were red too. *quiet*: nothing was red.",
            "Each share has its 95 % interval. A false alarm is counted in the class of the patch "
            "that was corrected.",
            "",
            *(f"| {' | '.join(cells)} |" for cells in (_HEADER, ("---",) * len(_HEADER), *classes)),
            "",
            *(f"* {what}: {share}" for what, share in shares(scores).items()),
            "",
            "By code of the gate, in how many cases:",
            "",
            *(
                f"| {' | '.join(row)} |"
                for row in (_CODES, ("---",) * len(_CODES), *_code_rows(scores))
            ),
            "",
            "| case | class | expected | found | |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
            *(["Not as expected, with the reason where it is known:", ""] if wrong else []),
            # The place after `at` is a path of the machine that ran it.
            *(
                (
                    f"* {s.case.id}: "
                    f"{s.case.known or '; '.join(f.partition(' at ')[0] for f in s.faults)}"
                )
                for s in wrong
            ),
            *([""] if wrong else []),
        ]
    )
