"""`python -m benchmarks.replay FOLDER`: is lint red before a project's repair, and quiet after it?

FOLDER has the projects with their histories, as OWNER/NAME, OWNER+NAME or NAME: checkouts or bare
repositories. Of each repair in repairs.toml the file that broke is judged in its project's tree, at
the parent commit and at the repair. Exit codes: 0 a table, 2 usage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from benchmarks.replay.judge import Judged, judged, read_repairs
from patchgate.cli.main import end_by_exit_code
from patchgate.model.statistics import share_interval

REPAIRS = Path(__file__).with_name("repairs.toml")


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--only", default="", help="Repairs whose repository or commit has this in it.")
@click.option("--list", "file", type=click.Path(path_type=Path), default=REPAIRS)
def replay(folder: Path, only: str, file: Path) -> None:
    """Print what lint says before and after each repair, and the shares."""
    found: list[Judged] = []
    for repair in read_repairs(file):
        if only in f"{repair.repository}@{repair.repair}":
            found.append(judged(repair, folder))
            click.echo(_row(found[-1]))
    click.echo("\n".join(summary(found)))


def _row(each: Judged) -> str:
    said = "red" if each.before else "silent"
    then = "still red" if each.after else "quiet"
    unasked = "" if each.unasked or not each.before else ", not within the project's range"
    repair = each.repair
    return (
        f"{repair.repository} {repair.repair[:9]} {repair.file} `{repair.name}` "
        f"{repair.release}: {said}, then {then}{unasked}"
    )


def summary(found: Sequence[Judged]) -> Iterator[str]:
    """Recall by kind and in all, and how many are quiet after the repair."""
    for kind in (*dict.fromkeys(each.repair.kind for each in found), ""):
        of = [each for each in found if kind in ("", each.repair.kind)]
        red = [each for each in of if each.before]
        quiet = [each for each in red if not each.after]
        yield f"{kind or 'all'}: red before {_share(len(red), len(of))}, quiet after " + _share(
            len(quiet), len(red)
        )
    yield f"said without being asked for the release: {sum(each.unasked for each in found)}"


def _share(count: int, of: int) -> str:
    if not of:
        return "none"
    low, high = share_interval(count, of)
    return f"{count} of {of} ({low:.0%} to {high:.0%})"


if __name__ == "__main__":
    end_by_exit_code(replay, "replay")
