"""`python -m benchmarks.repeat`, which `nox -s repeat` runs: does the gate give the same answer
every time?

It judges a few patches by the command `patchgate gate` in several ways that must not matter, and
compares the verdicts.
Exit codes: 0 equal, 1 a difference, 2 usage, 4 something could not run and nothing else differs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from patchgate.cli.main import end_by_exit_code
from patchgate.model.errors import UsageError
from patchgate.model.paths import ROOT
from patchgate.runs.plan import rows_of

#: Patches of fixtures/patches: the first five are sound, the others are broken in different ways.
SAMPLE = (
    *("harmless", "config-in-scope", "lowering-wrapped", "pt-silu", "helion-prologue-fixed"),
    *("vllm-42686", "stale-cache-any", "two-undoing", "helion-prologue", "zoo-identity"),
)
# Fields of a verdict that name its subject, and those that tell its result.
_ABOUT, _SAYS = ("check", "item", "case", "fact"), ("code", "kind", "before", "after", "recorded")
# Kinds of verdicts that say that nothing was judged: they differ from a judgement, and are no
# difference of one.
_NOT_JUDGED = ("infra", "stopped")
# Exit codes of the gate that come with verdicts: all green, and red.
_JUDGED = (0, 1)
_BUSY = "while True: pass"

Verdict = Mapping[str, Any]


@dataclass(frozen=True)
class Allowed:
    """Fields of some verdicts that may differ from run to run, and why."""

    why: str
    fields: tuple[str, ...]
    fits: Callable[[Verdict], bool]


#: The one list of what is allowed to differ.
ALLOWED = (
    Allowed(
        "times on a real GPU are measured with an error",
        ("before", "after", "recorded"),
        lambda verdict: verdict["check"] == "latency" and _device(verdict).startswith("cuda"),
    ),
)


def _device(verdict: Verdict) -> str:
    return str(verdict["case"]["device"])


@dataclass(frozen=True)
class Judged:
    """The verdicts of one gate, or the reason why there are none."""

    verdicts: tuple[Verdict, ...] = ()
    problem: str = ""


#: The differences of two runs, and why some of their verdicts could not be compared.
Difference = tuple[list[str], list[str]]
#: Judges every patch in one way; by the patch's name.
Judge = Callable[[], dict[str, Judged]]


def differences(first: Judged, other: Judged) -> Difference:
    """The differences of the verdicts of two runs, and why some could not be compared; both empty
    where all is equal.

    The order of verdicts says nothing; how many there are of a kind does.
    """
    problems = [run.problem or "no verdicts" for run in (first, other) if not run.verdicts]
    if problems:
        return [], problems
    sides = [_by_subject(run.verdicts) for run in (first, other)]
    found: list[str] = []
    untold: list[str] = []
    for about in sorted({*sides[0], *sides[1]}):
        one, two = (side.get(about, Counter()) for side in sides)
        if any(json.loads(said)[1] in _NOT_JUDGED for said in (*one, *two)):
            untold.append(f"{_subject_text(about)}: {_said(one)} and {_said(two)}")
        elif one != two:
            found.append(f"{_subject_text(about)}: {_said(one - two)} -> {_said(two - one)}")
    return found, untold


def _by_subject(verdicts: Sequence[Verdict]) -> dict[str, Counter[str]]:
    """Count each result by the subject of its verdict; leave out what is allowed to differ."""
    said: dict[str, Counter[str]] = {}
    for verdict in verdicts:
        free = {field for rule in ALLOWED if rule.fits(verdict) for field in rule.fields}
        about = json.dumps([verdict[name] for name in _ABOUT], sort_keys=True)
        says = json.dumps(
            [None if name in free else verdict[name] for name in _SAYS], sort_keys=True
        )
        said.setdefault(about, Counter())[says] += 1
    return said


def _subject_text(about: str) -> str:
    check, item, case, fact = json.loads(about)
    return " ".join(
        filter(None, [case["torch"], check, case["workload"], case["device"], item, fact])
    )


def _said(counts: Counter[str]) -> str:
    """`PG601 over 471,824 -> 472,316`, or what there is instead of verdicts."""
    texts = []
    for said, count in sorted(counts.items()):
        code, kind, before, after, recorded = json.loads(said)
        more = [f"{before} -> {after}"] * (before != after) + [f"recorded {recorded}"] * (
            recorded is not None
        )
        texts.append(" ".join([code, kind, *more, *([f"({count} times)"] if count > 1 else [])]))
    return "; ".join(texts) or "nothing"


class Ways:
    """Runs the gate in every way, each in a folder of its own below `home`."""

    def __init__(
        self, home: Path, rows: Mapping[str, str], patches: Sequence[Path], options: Sequence[str]
    ) -> None:
        self._home, self._rows, self._patches, self._options = home, rows, patches, options

    def all(self) -> dict[str, Judge]:
        """Name of a way -> what judges every patch in it; those that follow need the folder of
        `first`.
        """
        return {
            "first": lambda: self._judge("first"),
            "again": lambda: self._judge("first"),
            "fresh environment": self._in_fresh_environments,
            "other order": lambda: self._judge("order", order=-1),
            "-n 1": lambda: self._judge("n1", "-n", "1"),
            "-n 8": lambda: self._judge("n8", "-n", "8"),
            "beside a load": self._beside_a_load,
            "copied answers": self._with_copied_answers,
        }

    def _judge(
        self, place: str, *options: str, order: int = 1, rows: Mapping[str, str] | None = None
    ) -> dict[str, Judged]:
        """Judge the patches one after the other over one folder of kept answers."""
        folder = self._home / place
        folder.mkdir(exist_ok=True)
        named = [
            word
            for torch, python in (rows or self._rows).items()
            for word in ("--row", f"{torch}={python}")
        ]
        return {
            patch.name: _gate(folder, patch, [*named, *self._options, *options])
            for patch in self._patches[::order]
        }

    def _in_fresh_environments(self) -> dict[str, Judged]:
        """With copies of the environments in which nothing has ever been run, and a new home."""
        try:
            environments = (
                (torch, python, self._home / f"env-{torch}") for torch, python in self._rows.items()
            )
            rows = {
                torch: fresh_environment(python, place) for torch, python, place in environments
            }
        except (OSError, UsageError) as error:
            return {
                patch.name: Judged(problem=f"no fresh environment: {error}")
                for patch in self._patches
            }
        return self._judge("fresh", rows=rows)

    def _beside_a_load(self) -> dict[str, Judged]:
        """Next to two processes that compute all the time."""
        with contextlib.ExitStack() as stack:
            for _ in range(2):
                busy = subprocess.Popen([sys.executable, "-c", _BUSY])
                stack.callback(busy.wait)
                stack.callback(busy.kill)
            return self._judge("load")

    def _with_copied_answers(self) -> dict[str, Judged]:
        """As on a machine to which the kept answers of another one were brought."""
        kept = self._home / "first" / ".patchgate"
        if not kept.is_dir():
            return {
                patch.name: Judged(problem="the first run has left no answers")
                for patch in self._patches
            }
        for name in ("unpatched", "patched", "cpp"):
            if (kept / name).is_dir():
                shutil.copytree(
                    kept / name, self._home / "copied" / ".patchgate" / name, symlinks=True
                )
        return self._judge("copied")


def _gate(folder: Path, patch: Path, options: Sequence[str]) -> Judged:
    """The verdicts of `patchgate gate` as a user types it in `folder`, which is also its home."""
    results = Path(".patchgate") / patch.name
    command = [
        sys.executable,
        "-m",
        "patchgate",
        "gate",
        str(patch),
        "--folder",
        str(results),
        *options,
    ]
    homes = {
        "HOME": str(folder / "home"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "TMPDIR": str(folder / "tmp"),
    }
    for place in homes.values():
        Path(place).mkdir(exist_ok=True)
    file = folder / results / "verdicts.json"
    file.unlink(missing_ok=True)  # an earlier one's
    ended = subprocess.run(
        command, cwd=folder, env=os.environ | homes, capture_output=True, text=True
    )
    if ended.returncode not in (*_JUDGED, 4) or not file.is_file():
        last = (ended.stderr or ended.stdout).strip().splitlines()[-1:]
        return Judged(problem=f"exit code {ended.returncode}: {' '.join(last)[:200]}")
    return Judged(tuple(json.loads(file.read_text(encoding="utf-8"))["verdicts"]))


def fresh_environment(python: str, place: Path) -> str:
    """A copy of a virtual environment, without bytecode, that shares the files of its packages; its
    interpreter.

    Raises UsageError where the interpreter is in no virtual environment.
    """
    home = Path(python).absolute().parents[1]
    if not (home / "pyvenv.cfg").is_file():
        raise UsageError(
            "no virtual environment", where="--row", got=python, next="--row with a Python of one"
        )
    shutil.copytree(
        home,
        place,
        symlinks=True,
        ignore=shutil.ignore_patterns("__pycache__"),
        copy_function=_share,
    )
    return str(place / Path(python).absolute().relative_to(home))


def _share(source: str, target: str) -> str:
    """A second name for a file, or a copy of it on another disk."""
    with contextlib.suppress(OSError):
        os.link(source, target, follow_symlinks=False)
        return target
    return str(shutil.copy2(source, target))


def _compared(ways: Mapping[str, Judge]) -> Iterator[tuple[str, dict[str, Difference]]]:
    """Each way but the first, and for each patch its differences from that and what could not be
    compared.
    """
    (_, judge_first), *others = ways.items()
    first = judge_first()
    for way, judge in others:
        yield way, {patch: differences(first[patch], judged) for patch, judged in judge().items()}


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--row", "rows", multiple=True, metavar="TORCH=PYTHON", required=True, help="A torch release."
)
@click.option(
    "--patch",
    "patches",
    multiple=True,
    help="Only these of fixtures/patches, or folders; may be repeated.",
)
@click.option("--way", "only", multiple=True, help="Only these ways; may be repeated.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[-- OPTION OF THE GATE...]")
def repeat(
    rows: tuple[str, ...], patches: tuple[str, ...], only: tuple[str, ...], options: tuple[str, ...]
) -> None:
    """Judge each patch in every way, and show where the verdicts are not those of the first run."""
    paths = [_patch(name) for name in patches or SAMPLE]
    with tempfile.TemporaryDirectory(prefix="repeat-") as home:
        ways = Ways(Path(home), rows_of(rows), paths, options).all()
        unknown = [way for way in only if way not in ways]
        if unknown:
            raise UsageError(
                "no such way", where="--way", got=unknown[0], next=f"one of: {', '.join(ways)}"
            )
        chosen = {
            way: judge for way, judge in ways.items() if way == "first" or way in only or not only
        }
        found = untold = 0
        for way, by_patch in _compared(chosen):
            for patch, (different, problems) in by_patch.items():
                found, untold = found + len(different), untold + len(problems)
                verdict = (
                    f"{len(different)} different"
                    if different
                    else "not compared"
                    if problems
                    else "equal"
                )
                click.echo(f"{way:18} {patch:28} {verdict}")
                click.echo("".join(f"    {text}\n" for text in (*different, *problems)), nl=False)
    click.echo(
        f"{len(paths)} patches, {len(chosen) - 1} ways: {found} differences, {untold} not compared"
    )
    raise SystemExit(1 if found else 4 if untold else 0)


def _patch(name: str) -> Path:
    path = next(
        (at for at in (ROOT / "fixtures" / "patches" / name, Path(name)) if at.exists()), None
    )
    if path is None:
        raise UsageError(
            "no such patch", where="--patch", got=name, next="a folder's name in fixtures/patches"
        )
    return path.resolve()


if __name__ == "__main__":
    end_by_exit_code(repeat, "repeat")
