"""`patchgate bisect` and `patchgate ask`: the command's doors to a search and to one question.

Decides options, what is searched, and exit codes: `ask` answers git's way,
0, 1 and 125, and 128 (which ends `git bisect run`) where the question is bad.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from patchgate.cli.options import row_option, rows_of
from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import load_workloads
from patchgate.model.errors import UsageError
from patchgate.model.files import make_folder
from patchgate.model.paths import DEVICES
from patchgate.model.text import escape_control
from patchgate.runner.environments import Environments
from patchgate.runs.bisect.measure import Instrument
from patchgate.runs.bisect.over import Asking, over_commits, over_parts, over_releases, over_upstream
from patchgate.runs.bisect.question import Question, parse_code, parse_fact, parse_has, parse_metric
from patchgate.runs.bisect.search import Answer

Command = TypeVar("Command", bound=Callable[..., Any])
_ANSWERS = {Answer.GOOD: 0, Answer.BAD: 1, Answer.UNKNOWN: 125}
_WRONG_QUESTION = 128


def _options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


asking = _options(
    click.argument("patch", required=False, type=click.Path(path_type=Path)),
    click.option("--fact", metavar="TEXT", help="e.g. 'residual_stack.h200.loads.max > 4'"),
    click.option("--metric", metavar="TEXT", help="a figure of parity: 'residual_stack.differing > 0'"),
    click.option("--code", metavar="PGxxx", help="whether the gate gives PATCH this red verdict"),
    click.option("--has", metavar="NAME", help="whether torch has NAME, or a function a parameter: 'torch.a.f(x)'"),
    click.option("--symptom", is_flag=True, help="PATCH's own symptom, unpatched"),
    click.option("--unpatched", is_flag=True, help="Ask without PATCH; it only says what to look around."),
    row_option,
    click.option("--checkout", type=click.Path(path_type=Path, exists=True), help="A git checkout of torch."),
    click.option("--workload", "workloads", multiple=True, metavar="NAME", help="What --code runs."),
    click.option("--folder", default="build/bisect", show_default=True, type=click.Path(path_type=Path)),
)


def _asking(given: dict[str, Any]) -> Asking:
    workloads, devices = list(load_workloads()), sorted(path.stem for path in DEVICES.glob("*.toml"))
    asked: dict[str, Callable[[str], Question]] = {
        "fact": lambda text: parse_fact(text, workloads, devices),
        "metric": lambda text: parse_metric(text, workloads),
        "code": parse_code,
        "has": parse_has,
    }
    patch = given["patch"]
    texts = {name: given[name] for name in asked if given[name]}
    if given["symptom"]:
        texts["fact"] = _symptom(patch)
    if len(texts) != 1 or (given["symptom"] and given["fact"]):
        example = "--fact 'residual_stack.h200.loads.max > 4'"
        got = [f"--{name} '{given[name]}'" for name in asked if given[name]] + ["--symptom"] * given["symptom"]
        where = "--fact, --metric, --code, --has or --symptom"
        raise UsageError("one question is wanted", where=where, got=" ".join(got) or "none", next=example)
    ((kind, text),) = texts.items()
    unpatched = given["unpatched"] or given["symptom"]
    if kind == "metric" and (unpatched or patch is None):
        raise UsageError("a figure compares patched with unpatched", where="--metric", got="no PATCH", next="... PATCH")
    environments = Environments(rows_of(given["rows"]), given["checkout"])
    make_folder(given["folder"], "--folder")
    instrument = Instrument(environments, given["folder"].resolve(), tuple(given["workloads"]))
    return Asking(question=asked[kind](text), patch=patch, side=None if unpatched else patch, instrument=instrument)


def _symptom(patch: Path | None) -> str:
    symptom = load_patch(patch).claims.symptom if patch else None
    if symptom is None:
        raise UsageError("no symptom to ask for", where="--symptom", got=str(patch), next="[symptom] in patch.toml")
    return f"{symptom.workload}.{symptom.device}.{symptom.fact} {symptom.predicate}"


@click.command()
@asking
@click.option("--torch", "torch", metavar="TORCH", help="The release to ask; made when there is no --row for it.")
def ask(torch: str | None, **given: Any) -> NoReturn:
    """One question about one torch: exit code 0 it does not hold, 1 it holds, 125 cannot tell.

    For `git bisect run patchgate ask --fact '...' --row 2.11.0=python PATCH`.
    """
    try:
        asking = _asking(given)
        on = _one_row(asking, torch)
    except UsageError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(_WRONG_QUESTION)
    try:
        reading = asking.read(on, asking.side)
    finally:
        asking.close()
    word = {Answer.GOOD: "does not hold", Answer.BAD: "holds", Answer.UNKNOWN: "cannot tell"}[reading.answer]
    click.echo(f"torch {on}: {asking.question.text}: {word} ({escape_control(reading.shown)})")
    sys.exit(_ANSWERS[reading.answer])


@click.command()
@asking
@click.option("--torch", "releases", metavar="A..B", help="Search the releases; on which --row or --on else.")
@click.option("--commits", metavar="GOOD..BAD", help="Search the commits of the repository that PATCH lies in.")
@click.option("--upstream", metavar="GOOD..BAD", help="Search torch's commits in --checkout, as sources over --on.")
@click.option("--hunks", is_flag=True, help="Search the hunks of a diff for those that do it.")
@click.option("--targets", is_flag=True, help="Search what PATCH replaces for those that do it.")
@click.option("--on", metavar="TORCH", help="The torch that commits, hunks and targets are asked on.")
@click.option("--about", multiple=True, metavar="NAME", help="Show what changed in torch around NAME.")
@click.option("--votes", default="1/1", show_default=True, metavar="K/N", help="A flaky question: K of N agree.")
@click.option("--measure-all", is_flag=True, help="Do not let golden narrow the search.")
def bisect(
    releases: str | None,
    commits: str | None,
    upstream: str | None,
    hunks: bool,
    targets: bool,
    on: str | None,
    about: tuple[str, ...],
    votes: str,
    measure_all: bool,
    **given: Any,
) -> None:
    """The first release, commit, hunk or target at which an answer turned.

    What golden records of a fact narrows the search. Both sides of the turn are always asked: on the --row of
    that release, else in an environment that is made for it (uv). A question with --has needs no torch.

    \b
    patchgate bisect --fact 'residual_stack.h200.loads.max > 4' --torch 2.12.1..2.14.1
    patchgate bisect --has 'torch._inductor.ir.StorageBox.should_realize_on_reuse(graph_reuse)' --torch 2.10.0..2.15.0
    """
    asking = _asking(given)
    if sum(map(bool, (releases, commits, upstream, hunks, targets))) != 1:
        known = "--torch A..B, --commits A..B, --upstream A..B, --hunks or --targets"
        raise UsageError("one thing to search is wanted", where="bisect", next=known)
    needed = re.fullmatch(r"(\d+)/(\d+)", votes)
    if needed is None or not int(needed[2]) // 2 < int(needed[1]) <= int(needed[2]):
        raise UsageError("not a majority", where="--votes", got=votes, next="--votes 2/3")
    counts = int(needed[1]), int(needed[2])
    try:
        if releases:
            lines = over_releases(asking, releases, counts, about, measure_all)
        elif commits:
            lines = over_commits(asking, commits, counts, _one_row(asking, on))
        elif upstream:
            lines = over_upstream(asking, upstream, counts, about, _one_row(asking, on))
        else:
            lines = over_parts(asking, "hunks" if hunks else "targets", counts, _one_row(asking, on))
        click.echo(escape_control("\n".join(lines)))
    finally:
        asking.close()


def _one_row(asking: Asking, torch: str | None) -> str:
    rows = list(asking.instrument.environments.rows)
    if torch or len(rows) == 1:
        return torch or rows[0]
    raise UsageError("one torch to ask on is wanted", where="--row", got=", ".join(rows) or "none", next="--on 2.11.0")
