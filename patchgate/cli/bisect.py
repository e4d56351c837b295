"""`patchgate bisect` searches for a change; `patchgate ask` answers one question of a search.

`ask` ends with the exit codes of `git bisect run`: 0 and 1 for the answer, 125 for "cannot tell",
and 128, which ends the search, if the question itself is wrong.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from patchgate.cli.options import Rows
from patchgate.cli.parameters import argument, option, options
from patchgate.inputs.devices import device_names
from patchgate.inputs.patch import load_patch
from patchgate.inputs.project import project_around
from patchgate.inputs.workloads import workloads_with
from patchgate.model.errors import UsageError
from patchgate.model.files import make_folder
from patchgate.model.paths import display_path
from patchgate.model.results import Answer
from patchgate.model.text import escape_control
from patchgate.report.bisect import render_culprits, render_turn
from patchgate.runner.torch_environments import Environments
from patchgate.runs.bisect.bisection import Bisection, refuse_unindexed
from patchgate.runs.bisect.measure import Instrument
from patchgate.runs.bisect.question import FACT_EXAMPLE, NEED_PATCH, PARSERS, Question, QuestionKind
from patchgate.runs.plan import known_devices, rows_of

_WORDS = {Answer.GOOD: "does not hold", Answer.BAD: "holds", Answer.UNKNOWN: "cannot tell"}
_EXIT_CODES = {Answer.GOOD: 0, Answer.BAD: 1, Answer.UNKNOWN: 125}
_WRONG_QUESTION = 128


def _question(
    given: Mapping[QuestionKind, str | None], patch: Path | None, symptom: bool
) -> Question:
    """The one question that the options ask. Raises UsageError."""
    here = Path.cwd()
    project = project_around(here)
    texts = {kind: text for kind, text in given.items() if text}
    got = [f"--{kind.value} '{text}'" for kind, text in texts.items()] + ["--symptom"] * symptom
    if len(got) != 1:
        raise UsageError(
            "give exactly one question",
            where=f"{', '.join(f'--{kind.value}' for kind in QuestionKind)} or --symptom",
            got=" ".join(got) or "none",
            next="--fact 'residual_stack.h200.loads.max > 4'",
        )
    texts = texts or {QuestionKind.FACT: _symptom(patch)}
    ((kind, text),) = texts.items()
    return PARSERS[kind](text, list(workloads_with(here, project)), device_names(project.profiles))


def _symptom(patch: Path | None) -> str:
    if patch is None:
        raise UsageError(
            "whose symptom?", where="--symptom", got="no PATCH", next="--symptom path/to/patch.py"
        )
    symptom = load_patch(patch).claims.symptom
    if symptom is None:
        raise UsageError(
            "the manifest has no symptom",
            where="--symptom",
            got=display_path(patch),
            next="a table [symptom] in the manifest of the patch (patchgate explain claims)",
        )
    return f"{symptom.workload}.{symptom.device}.{symptom.fact} {symptom.predicate}"


def _bisection(
    *,
    about: tuple[str, ...] = (),
    patch: Path | None = argument(),
    fact: str | None = option(metavar="TEXT", help=f"e.g. '{FACT_EXAMPLE}'"),
    metric: str | None = option(
        metavar="TEXT", help="a figure of parity: 'residual_stack.differing > 0'"
    ),
    code: str | None = option(metavar="PGxxx", help="the gate gives PATCH this red result"),
    has: str | None = option(
        metavar="NAME", help="torch has NAME, or a function a parameter: 'torch.a.f(x)'"
    ),
    symptom: bool = option(help="PATCH's own symptom, unpatched"),
    rows: Rows,
    checkout: Path | None = option(exists=True, help="A git checkout of torch."),
    workloads: tuple[str, ...] = option(
        "--workload", metavar="NAME", help="A workload that --code runs."
    ),
    folder: Path = option(default=".patchgate/bisect"),
) -> Bisection:
    """Return the search that the shared options ask for. Raises UsageError."""
    texts = dict(zip(QuestionKind, (fact, metric, code, has), strict=True))
    question = _question(texts, patch, symptom)
    if question.kind in NEED_PATCH and patch is None:
        raise UsageError(
            "a result and a metric are about a patch",
            where=f"--{question.kind.value}",
            got="no PATCH",
            next="... PATCH",
        )
    refuse_unindexed(question, about)
    if patch:
        known_devices(project_around(patch), [patch], (), workloads)
    environments = Environments(rows_of(rows), checkout)
    make_folder(folder, "--folder")
    return Bisection(
        question=question,
        patch=patch,
        applied=None if symptom else patch,
        instrument=Instrument(environments, folder.resolve(), workloads),
        progress=lambda line: click.echo(escape_control(line)),
        about=about,
    )


#: The options that both commands share.
question_options = partial(options, of=_bisection)


@click.command()
@question_options
@options
def ask(
    *,
    torch: str | None = option(
        metavar="TORCH", help="The release to ask; without a --row for it, it is installed."
    ),
    **given: Any,
) -> NoReturn:
    """Answer one question about one torch, for `git bisect run`.

    Exit codes: 0 it does not hold, 1 it holds, 125 cannot tell, 128 the question is wrong.


    For `git bisect run patchgate ask --fact '...' --row 2.11.0=python PATCH`.
    """
    try:
        bisection = _bisection(**given)
        on = _one_torch(bisection, torch)
    except UsageError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(_WRONG_QUESTION)
    try:
        reading = bisection.read(on, bisection.applied)
    finally:
        bisection.close()
    shown = escape_control(reading.shown)
    click.echo(f"torch {on}: {bisection.question.text}: {_WORDS[reading.answer]} ({shown})")
    sys.exit(_EXIT_CODES[reading.answer])


@click.command()
@question_options
@options
def bisect(
    *,
    releases: str | None = option(
        "--torch", metavar="A..B", help="Search the releases from A to B."
    ),
    commits: str | None = option(
        metavar="GOOD..BAD", help="Search the commits of the repository that PATCH lies in."
    ),
    upstream: str | None = option(
        metavar="GOOD..BAD",
        help="Search torch's commits in --checkout, as sources over --on.",
    ),
    hunks: bool = option(help="Find the hunks of a diff that make the difference."),
    targets: bool = option(help="Find the targets of PATCH that make the difference."),
    on: str | None = option(
        metavar="TORCH", help="The torch to use for --commits, --hunks and --targets."
    ),
    about: tuple[str, ...] = option(metavar="NAME", help="Show what changed in torch around NAME."),
    votes: str = option(default="1/1", metavar="K/N", help="A flaky question: K of N agree."),
    **given: Any,
) -> None:
    """Find the release, commit, hunk or target that changed a fact.

    What golden records of a fact narrows the search. Both sides of the change are always measured:
    on the --row of that release, else in an environment that is made for it (uv). A question with
    --has needs no torch.

    \b
    patchgate bisect --fact 'residual_stack.h200.loads.max > 4' --torch 2.12.1..2.14.1
    patchgate bisect --has 'torch._inductor.ir.StorageBox.should_realize_on_reuse(graph_reuse)'
    --torch 2.10.0..2.15.0
    """
    bisection = _bisection(about=about, **given)
    if sum(map(bool, (releases, commits, upstream, hunks, targets))) != 1:
        known = "--torch A..B, --commits A..B, --upstream A..B, --hunks or --targets"
        raise UsageError("give exactly one range to search", where="bisect", next=known)
    bisection = replace(bisection, votes=_votes(votes))
    try:
        if releases:
            lines = render_turn(bisection.over_releases(releases))
        elif commits:
            lines = render_turn(bisection.over_commits(commits, _one_torch(bisection, on)))
        elif upstream:
            lines = render_turn(bisection.over_upstream(upstream, _one_torch(bisection, on)))
        else:
            what = "hunks" if hunks else "targets"
            lines = render_culprits(bisection.over_parts(what, _one_torch(bisection, on)))
        click.echo(escape_control("\n".join(lines)))
    finally:
        bisection.close()


def _votes(text: str) -> tuple[int, int]:
    """Read (needed, times) from `2/3`. Raises UsageError."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    needed, times = (int(match[1]), int(match[2])) if match else (0, 0)
    if not times // 2 < needed <= times:
        raise UsageError("not a majority", where="--votes", got=text, next="--votes 2/3")
    return needed, times


def _one_torch(bisection: Bisection, torch: str | None) -> str:
    rows = list(bisection.instrument.environments.rows)
    if torch or len(rows) == 1:
        return torch or rows[0]
    raise UsageError(
        "give exactly one torch release",
        where="--row",
        got=", ".join(rows) or "none",
        next="--on 2.11.0",
    )
