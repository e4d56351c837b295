"""`python -m benchmarks.report pictures`, `charts`: what the documentation shows; `opening`: how
fast a page opens; `store` keeps a run.

`pictures` and `opening` need chromium and chromedriver, and `pip install --group test`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

import click

from benchmarks.report.browser import Browser, installed, started
from benchmarks.report.plots import DOCS, drawings
from benchmarks.report.stored import load_run, store_run, write_page
from patchgate.cli.main import end_by_exit_code
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.errors import UsageError
from patchgate.model.files import write_atomically
from patchgate.model.paths import display_path
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Verdict
from patchgate.runner.run_results import RunResults

RUN = "vllm-42686"
# Picture -> (what is opened, width, height, element that it begins with).
_PICTURES = {
    "report-first": ("", 1100, 990, ""),
    "report-symptom": ("", 1100, 330, "#symptom"),
    "report-matrix": ("", 1100, 560, "#matrix"),
    "report-cell": (f"#{RUN}/kernels/residual_stack.h200@2.11.0", 1100, 800, ""),
    "report-phone": ("", 390, 780, ""),
}
_THEMES = ("light", "dark")
# Verdicts of a page that is timed, and how often it is opened.
_VERDICTS, _TIMES = 10_000, 9
_READY = """
const [entry] = performance.getEntriesByType("navigation");
return document.documentElement.dataset.ready === "yes" ? entry.domComplete : null;"""


@click.group()
def report() -> None:
    """The HTML report in a real browser."""


@contextmanager
def _browser() -> Iterator[tuple[Browser, Path]]:
    pair = installed()
    if pair is None:
        step = "apt-get install chromium chromium-driver"
        raise UsageError(
            "no browser", where="benchmarks.report", got="no chromium and chromedriver", next=step
        )
    with (
        tempfile.TemporaryDirectory(prefix="patchgate-") as folder,
        started(*pair, Path(folder, "profile")) as made,
    ):
        yield made, Path(folder)


@report.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.argument("name")
def store(folder: Path, name: str) -> None:
    """Keep the last run in FOLDER as the stored run NAME."""
    click.echo(display_path(store_run(folder, name)))


@report.command()
def charts() -> None:
    """Draw the charts of docs/ anew from the figures that stand there and in golden/."""
    for name, text in drawings().items():
        write_atomically(DOCS / name, text)
        click.echo(f"docs/{name}")


@report.command()
def pictures() -> None:
    """Make docs/images/*.png anew from the stored run, in light and dark."""
    with _browser() as (browser, folder):
        page = write_page(folder / "report.html", load_run(RUN))
        for name, (part, width, height, start) in _PICTURES.items():
            for theme in _THEMES:
                browser.open(page, part, width=width, height=height, theme=theme)
                if start:
                    browser.run("document.querySelector(arguments[0]).scrollIntoView()", start)
                browser.settle()
                path = DOCS / "images" / f"{name}-{theme}.png"
                path.write_bytes(browser.picture())
                click.echo(f"docs/images/{path.name}: {path.stat().st_size:,} bytes")


@report.command()
@click.option(
    "--red",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    help="Share of red verdicts.",
)
def opening(red: float) -> None:
    """Print the milliseconds until a page of 10,000 verdicts is complete, its script included."""
    with _browser() as (browser, folder):
        page = write_page(folder / "report.html", _many_verdicts(red))
        times = []
        for _ in range(_TIMES):
            browser.open(page)
            times.append(float(browser.run(_READY)))
        size = page.stat().st_size
    click.echo(f"{_VERDICTS:,} verdicts, {red:.0%} red, {size / 1e6:.1f} MB, opened {_TIMES} times")
    click.echo(
        f"complete after {median(times):.0f} ms (median), {min(times):.0f} to {max(times):.0f} ms"
    )


def _many_verdicts(red: float) -> RunResults:
    """Made up: one patch on two releases, each red verdict in its own words."""
    verdicts = []
    for number in range(_VERDICTS):
        torch, item = ("2.11.0", "2.12.1")[number % 2], f"workload{number // 20:04}"
        case = Case(torch=torch, device="h200", workload=item, patch="many")
        wrong = number < red * _VERDICTS
        kind, code = (Kind.REGRESSED, "PG301") if wrong else (Kind.PASS, "PG300")
        actual = f"[2 1 {number}]" if wrong else "[2 1 3]"
        verdict = Verdict(
            code=code,
            kind=kind,
            check="kernels",
            case=case,
            item=case.name,
            fact=f"fact{number % 10}",
        )
        verdicts.append(
            replace(
                verdict,
                expected="[2 1 3]",
                actual=actual,
                why="made up",
                advice="correct the patch",
            )
        )
    patch = Patch(
        id="many", path="many.py", source="", claims=Claims(title="Ten thousand verdicts")
    )
    return RunResults(patch=patch, torches=("2.11.0", "2.12.1"), verdicts=tuple(verdicts))


if __name__ == "__main__":
    end_by_exit_code(report, "report")
