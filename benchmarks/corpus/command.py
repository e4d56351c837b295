"""`python -m benchmarks.corpus`: options, the table, and the exit code.

0 all as expected, 1 a miss or a torch that was written to, 2 usage, 3 no case fits `--only`, 4 a
sentinel that does not count, a case that was lost, or a run that was stopped: the table and the
examples of the rest are written all the same.
"""

from __future__ import annotations

import fnmatch
import json
import time
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import click

from benchmarks.corpus.cases import CorpusCase, load_cases, with_gpu, with_sandbox
from benchmarks.corpus.checks import cell_names, needs_workload
from benchmarks.corpus.integrity import Integrity
from benchmarks.corpus.render import as_markdown, as_text, json_of_score, line_of_score
from benchmarks.corpus.score import LOST, Score
from benchmarks.corpus.session import judge_cases, open_session, started_servers
from patchgate.checks.framework.find_checks import all_checks
from patchgate.cli.options import AT_LEAST_1, cases_at_once
from patchgate.inputs.workloads import load_workloads
from patchgate.model.errors import UsageError
from patchgate.model.files import write_atomically
from patchgate.model.paths import CORPUS, display_path
from patchgate.model.serialization import to_dict
from patchgate.runs.plan import rows_of


@click.command()
@click.argument(
    "folders",
    nargs=-1,
    metavar="[FOLDER]...",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@click.option(
    "--row", "rows", multiple=True, metavar="TORCH=PYTHON", required=True, help="A torch release."
)
@click.option(
    "--only", multiple=True, metavar="PATTERN", help="Only cases whose id fits; may be repeated."
)
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the table as Markdown.",
)
@click.option(
    "--examples",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write what each code printed.",
)
@click.option("--cells", metavar="CHECK", help="Judge by this check alone, on all its workloads.")
@click.option("--gpu", is_flag=True, help="Also judge what needs a GPU: this machine has one.")
@click.option(
    "--whole",
    is_flag=True,
    help="Judge by the whole gate, as a user types it, not by chosen cells.",
)
@click.option(
    "--lines",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append each score as a line of JSON.",
)
@click.option(
    "--every-byte", is_flag=True, help="Afterwards hash all of torch, not only what was touched."
)
@click.option(
    "-n",
    "workers",
    default=lambda: cases_at_once() + 1,  # one that hangs or sleeps needs no core
    show_default="one a core, and one more",
    type=AT_LEAST_1,
    help="Cases run at the same time.",
)
def corpus(
    folders: tuple[Path, ...],
    rows: tuple[str, ...],
    only: tuple[str, ...],
    write: Path | None,
    examples: Path | None,
    cells: str | None,
    gpu: bool,
    whole: bool,
    lines: Path | None,
    every_byte: bool,
    workers: int,
) -> None:
    """Judge every case and compare with what it expects, in its chosen cells or by the whole gate
    (--whole).

    Without a FOLDER those of the checkout: the seen set, which the checks were made with. With one,
    the cases below it, each a folder with patch.py and corpus.toml, written by anybody: a fresh
    set.
    """
    cases, name = load_cases(list(folders or CORPUS)), "fresh" if folders else "seen"
    cases = [
        case
        for case in cases
        if not only or any(fnmatch.fnmatch(case.id, pattern) for pattern in only)
    ]
    cases = [with_gpu(case) for case in cases] if gpu else cases
    cases = [replace(case, cells=_cells_of(cells)) for case in cases] if cells else cases
    if not cases:
        click.echo(
            "no case is selected\n  next: --only with the name of a folder, or without it all of "
            "them",
            err=True,
        )
        raise SystemExit(3)
    pythons = rows_of(rows)
    started, integrity = time.monotonic(), Integrity(pythons)
    with started_servers(pythons) as settings:
        session = open_session(settings)
        faults = session.sentinel_faults()
        if faults:
            click.echo(
                "nothing is believed where the sentinel does not count:\n" + "\n".join(faults),
                err=True,
            )
            raise SystemExit(4)
        parts = session.sandbox_parts()
        click.echo(f"a patch is confined by: {', '.join(sorted(parts)) or 'nothing'}")
        cases = [with_sandbox(case, parts) for case in cases]
        scores, stopped = _judged(settings, cases, workers, whole=whole, lines=lines)
    name += " set, by the whole gate" if whole else " set, in chosen cells"
    if stopped:
        name = f"{name} ({len(scores)} of {len(cases)} cases, then the run was stopped)"
    click.echo(as_text(scores, list(pythons), time.monotonic() - started, name))
    if write:
        write_atomically(write, as_markdown(scores, list(pythons), name, date.today(), gpu=gpu))
        click.echo(f"wrote {display_path(write)}")
    if examples:
        printed = [
            to_dict(example)
            for score in scores
            for example in score.examples
            if score.outcome == "caught"
        ]
        printed.sort(key=lambda example: (example["code"], example["case"]))
        write_atomically(examples, json.dumps(printed, indent=1, ensure_ascii=False) + "\n")
        click.echo(f"wrote {display_path(examples)}: {len(printed)} examples")
    changes = integrity.changes(every_byte=every_byte)
    click.echo(
        "\n".join(changes)
        or "torch is as it was installed, " + ("every byte" if every_byte else "every file")
    )
    is_lost = any(score.outcome == LOST for score in scores)
    raise SystemExit(
        4
        if stopped or is_lost
        else int(bool(changes) or any(not score.settled for score in scores))
    )


def _judged(
    settings: dict[str, Any],
    cases: list[CorpusCase],
    workers: int,
    *,
    whole: bool,
    lines: Path | None,
) -> tuple[list[Score], bool]:
    """The score of each case, and whether the run was stopped before there was one of all: what
    there is counts.
    """
    scores: dict[str, Score] = {}

    def keep(score: Score) -> None:
        scores[score.case.folder] = score
        click.echo(line_of_score(score))
        if lines:
            with lines.open("a", encoding="utf-8") as file:
                file.write(json.dumps(json_of_score(score), ensure_ascii=False) + "\n")

    try:
        judge_cases(settings, cases, workers=workers, done=keep, whole=whole)
        stopped = False
    except KeyboardInterrupt:
        stopped = True
    return [scores[case.folder] for case in cases if case.folder in scores], stopped


def _cells_of(check: str) -> tuple[str, ...]:
    """The cells of one check: one for each workload that is judged before a merge, where it needs
    one and none is named behind it.
    """
    if check not in cell_names():
        known = ", ".join(sorted(cell_names()))
        raise UsageError("no such check", where="--cells", got=check, next=f"one of: {known}")
    if not needs_workload(check):
        return (check,)
    kind = all_checks()[check].workloads
    return tuple(
        f"{check} {workload.name}"
        for workload in load_workloads().values()
        if workload.premerge and kind in workload.checks
    )
