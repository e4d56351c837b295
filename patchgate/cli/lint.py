"""`patchgate lint` checks that a patch fits the torch releases; `patchgate usage` lists the private
names of torch that it uses.

Rare imports are inside functions: a run takes a second, half of which is Python's own start.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import click
from packaging.version import Version

from patchgate.cli.parameters import argument, option, options
from patchgate.inputs.toml import read_toml
from patchgate.lint.index.release import FOLDER, Release, load, opened, releases
from patchgate.lint.index.sources import Sources
from patchgate.lint.run import Report
from patchgate.lint.run import lint as lint_patches
from patchgate.model.errors import UsageError
from patchgate.model.paths import MATRIX, user_cache
from patchgate.model.text import counted
from patchgate.model.versions import allowed_releases
from patchgate.report.lint import LintProgress, render_findings, render_usage

Paths = Annotated[tuple[Path, ...], argument(required=True, metavar="PATH...")]
Spec = Annotated[
    str | None,
    option(
        "--torch",
        metavar="SPEC",
        help='These releases, e.g. 2.12.1 or ">=2.9,<2.13", instead of those that the project '
        "requires and the manifest claims.",
    ),
]


def _form(*forms: str) -> Any:
    return option("--format", type=click.Choice(forms), default="text", show_default=False)


@click.command()
@options
def lint(
    *,
    paths: Paths,
    form: str = _form("text", "json", "github", "sarif"),
    spec: Spec,
    since: str | None = option(
        "--from",
        metavar="RELEASE",
        help="Only this release, such as 2.12, and newer ones.",
    ),
    details: bool = option(help="Three-way views, full lists of holders and of names."),
    sources: tuple[Path, ...] = option(
        exists=True,
        file_okay=False,
        help="A site-packages with torch in it, for bodies, lines of calls and hunks of diffs; "
        "may be repeated.",
    ),
    fetch: bool = option(
        help="Read the sources of other releases from their wheels; kept in a cache."
    ),
    baseline: Path | None = option(help="Findings that are known; stale ones are named."),
    write_baseline: Path | None = option(
        dir_okay=False, help="Write what is red now to this file."
    ),
    jobs: int | None = option(
        "-n",
        "--jobs",
        type=click.IntRange(1),
        metavar="COUNT",
        help="Processes for large folders: one a core, at most four.",
    ),
) -> None:
    """Check a patch or a package without running it; needs no torch.

    Reports private names of torch that are missing, moved or changed on a release that PATH
    supports.

    Exit codes: 0 nothing red, 1 red, 2 usage, 3 nothing to lint.
    """

    try:
        available = _sources(sources, fetch)
        report = lint_patches(
            paths,
            _releases(spec, available),
            available,
            _in_matrix(),
            whole=spec is not None,
            # One process fetches sources and reports errors of fetching.
            jobs=1 if available is not None else jobs or min(4, os.cpu_count() or 1),
            since=_since(since),
            installed=_installed(),
            watched=partial(LintProgress, sys.stderr),
        )
        if write_baseline is not None:
            _write_baseline(write_baseline, report)
            raise SystemExit(0)
        if baseline is not None:
            report = _without_known(baseline, report)
    except UsageError as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(2) from None
    if available is not None and available.trouble:
        click.echo(f"no sources, bodies are compared by fingerprint: {available.trouble}", err=True)
    _say_what_was_not_judged(paths, report)
    if form != "text" or (report.walked if not report.files else report.releases):
        click.echo(render_findings(report, form, details=details), nl=False)
    raise SystemExit(report.exit_code)


@click.command()
@options
def usage(*, paths: Paths, form: str = _form("text", "json"), spec: Spec) -> None:
    """List the private names of torch that PATH uses, by release.

    Exit codes: 0 whatever is listed, 2 usage, 3 nothing to read.
    """
    from patchgate.lint.usage import usage as usage_of

    try:
        report = usage_of(
            paths, _releases(None, None), _releases(spec, None) if spec is not None else None
        )
    except UsageError as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(2) from None
    if report.walked or form != "text":
        click.echo(render_usage(report, form), nl=False)
    if not report.walked:
        click.echo(f"error: {_nothing_at(paths, 'nothing to read')}", err=True)
        raise SystemExit(3)


def _write_baseline(file: Path, report: Report) -> None:
    from patchgate.lint.baseline import write_baseline

    written = counted(write_baseline(file, report.findings), "known finding")
    click.echo(f"{written} in {file}; next: patchgate lint --baseline {file} ...")


def _without_known(baseline: Path, report: Report) -> Report:
    from patchgate.lint.baseline import without_known

    left, stale = without_known(baseline, report.findings, report.files)
    for each in stale:
        click.echo(
            f"stale in {baseline}: {each.path}: {each.code} {each.about}: no longer found",
            err=True,
        )
    hidden = len(report.findings) - len(left)
    if hidden:
        click.echo(f"{hidden} known by {baseline}", err=True)
    return replace(report, findings=tuple(left))


def _in_matrix() -> frozenset[str]:
    """The releases of patchgate's matrix; none if it is installed without one."""

    rows = read_toml(MATRIX).get("row", []) if MATRIX.is_file() else []
    return frozenset(row.get("torch") for row in rows)


def _since(text: str | None) -> str:
    """The release of `--from`. Raises UsageError if the text is no release, or if the release is
    newer than the index.
    """
    try:
        if not text or (since := Version(text)) <= Version(newest := releases()[-1]):
            return str(since) if text else ""
    except ValueError:
        raise UsageError(
            "not a release", where="--from", got=str(text), next="--from 2.12"
        ) from None
    raise UsageError(
        "no indexed release", where="--from", got=text, next=f"--from {newest}, the newest indexed"
    )


def _installed() -> str:
    """The version of the torch that is installed with patchgate, without its local part; empty if
    there is no torch.
    """

    try:
        return version("torch").partition("+")[0]
    except PackageNotFoundError:
        return ""


def _say_what_was_not_judged(paths: tuple[Path, ...], report: Report) -> None:
    if not report.files and not report.walked:
        click.echo(f"error: {_nothing_at(paths, 'nothing to lint')}", err=True)
    if report.files and not report.releases:
        got = "; ".join(report.ranges)
        advice = (
            'patchgate lint --torch ">=2.6" ...   (patchgate index list shows the indexed releases)'
        )
        trouble = UsageError("no indexed release in the project's range", got=got, next=advice)
        click.echo(f"error: {trouble}", err=True)


def _nothing_at(paths: tuple[Path, ...], what: str) -> UsageError:
    return UsageError(
        what,
        where=", ".join(map(str, paths)),
        got="no .py, .diff or .patch file",
        next="give a folder with patch.py or patch.diff, a .py or a .diff file",
    )


def _sources(folders: tuple[Path, ...], fetch: bool) -> Sources | None:
    """The sources that the options ask for. None without such an option, so that lint is offline
    and has the same result on every machine.
    """
    if not folders and not fetch:
        return None

    if not fetch:
        return Sources(folders)
    from patchgate.lint.index.wheel import open_wheel

    return Sources(
        folders, open_wheel=open_wheel, triton=opened(FOLDER).triton, cache=user_cache("sources")
    )


def _releases(spec: str | None, sources: Sources | None) -> list[Release]:
    """The indexed releases that `spec` allows; without `spec`, all indexed releases."""

    return [load(version, sources) for version in allowed_releases(spec or "", releases())]
