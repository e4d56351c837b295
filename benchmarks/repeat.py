"""`python -m benchmarks.repeat`, which `nox -s repeat` runs: does the gate give the same answer
every time?

It judges a few patches by the command `patchgate gate` in several ways that must not matter, and
compares the verdicts, and the answers of the probe that were kept under one key. Without options of
the gate it judges one small workload: a patch takes a minute or so in each way on two cores.
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
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from patchgate.cli.main import end_by_exit_code
from patchgate.model.errors import UsageError
from patchgate.model.git import GitFailed, run_git
from patchgate.model.paths import ROOT
from patchgate.model.policy import POLICY, Kind, Meaning
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
_FIRST = "first"
# Characters of a value that a difference shows.
_SHOWN = 60
# Characters of what was seen, where two verdicts differ.
_TEXT = 600
_BUSY = "while True: pass"
#: Options of the gate where none is given.
NARROW = ("--workload", "pointwise")
# Folders of kept answers, and those that are copied with the compiled C++.
_KEPT = ("unpatched", "patched")
# Variables that a user may have, and that no verdict may depend on. The home is a new one anyway.
_SURROUNDINGS = {
    "LANG": "de_DE.UTF-8",
    "LC_ALL": "C",
    "PYTHONHASHSEED": "7",
    "OMP_NUM_THREADS": "5",
    "TORCH_LOGS": "+dynamo",
    "TORCHDYNAMO_VERBOSE": "1",
    "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
    "TRITON_DEBUG": "1",
}

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
    """The verdicts of one gate, and what it has kept; or the reason why there are none."""

    verdicts: tuple[Verdict, ...] = ()
    problem: str = ""
    #: Key -> what is kept under it, of all that lies in the folder.
    answers: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def red(self) -> int:
        return sum(POLICY[Kind(verdict["kind"])] is Meaning.RED for verdict in self.verdicts)


#: The differences of two runs, and why some of their verdicts could not be compared.
Difference = tuple[list[str], list[str]]
#: Judges every patch in one way, one after the other: its name and what came out.
Judging = Iterator[tuple[str, Judged]]
Judge = Callable[[], Judging]


def differences(first: Judged, other: Judged) -> Difference:
    """The differences of the verdicts of two runs, and why some could not be compared; both empty
    where all is equal.

    The order of verdicts says nothing; how many there are of a kind does.
    """
    problems = [run.problem or "no verdicts" for run in (first, other) if not run.verdicts]
    if problems:
        return [], problems
    sides = [by_subject(run.verdicts) for run in (first, other)]
    seen = [_actual(run.verdicts) for run in (first, other)]
    found: list[str] = []
    untold: list[str] = []
    for about in sorted({*sides[0], *sides[1]}):
        one, two = (side.get(about, Counter()) for side in sides)
        if any(json.loads(said)[1] in _NOT_JUDGED for said in (*one, *two)):
            untold.append(f"{subject_text(about)}: {said_text(one)} and {said_text(two)}")
        elif one != two:
            found.append(f"{subject_text(about)}: {said_text(one - two)} -> {said_text(two - one)}")
            texts = [side.get(about, "nothing") for side in seen]
            found[-1] += f"\n        {texts[0]}\n        {texts[1]}" * (texts[0] != texts[1])
    return [*found, *_unlike_answers(first.answers, other.answers)], untold


def _unlike_answers(first: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """The answers that both have under one key, and that are not the same: the key leaves out
    something that they depend on.
    """
    for key in sorted({*first} & {*other}):
        for place in _first_unlike(first[key], other[key]):
            yield f"kept answer {key[:12]} differs at {place}"


def _first_unlike(one: Any, two: Any, at: str = "entry") -> list[str]:
    """The first place at which two values of JSON differ, with both; none where they are equal."""
    if one == two:
        return []
    if isinstance(one, dict) and isinstance(two, dict) and one.keys() == two.keys():
        places = (_first_unlike(one[name], two[name], f"{at}.{name}") for name in one)
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        sides = enumerate(zip(one, two, strict=True))
        places = (_first_unlike(*side, f"{at}[{number}]") for number, side in sides)
    else:
        return [f"{at}: {str(one)[:_SHOWN]} -> {str(two)[:_SHOWN]}"]
    return next(filter(None, places))


def by_subject(verdicts: Sequence[Verdict]) -> dict[str, Counter[str]]:
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


def _actual(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """The subject of a verdict -> the texts of what was seen; they are shown, and not compared."""
    texts: dict[str, list[str]] = {}
    for verdict in verdicts:
        about = json.dumps([verdict[name] for name in _ABOUT], sort_keys=True)
        texts.setdefault(about, []).append(str(verdict.get("actual", "")))
    return {about: "; ".join(each)[:_TEXT] for about, each in texts.items()}


def subject_text(about: str) -> str:
    check, item, case, fact = json.loads(about)
    return " ".join(
        filter(None, [case["torch"], check, case["workload"], case["device"], item, fact])
    )


def said_text(counts: Counter[str]) -> str:
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
            "other surroundings": self._in_other_surroundings,
            "at once": self._at_once,
        }

    def _judge(self, place: str, *options: str, order: int = 1, **how: Any) -> Judging:
        """Judge the patches one after the other over one folder of kept answers."""
        for patch in self._patches[::order]:
            yield patch.name, self._gate(place, patch, *options, **how)

    def _gate(
        self,
        place: str,
        patch: Path,
        *options: str,
        rows: Mapping[str, str] | None = None,
        **how: Any,
    ) -> Judged:
        folder = self._home / place
        folder.mkdir(exist_ok=True)
        rows = rows or self._rows
        named = [word for torch, python in rows.items() for word in ("--row", f"{torch}={python}")]
        return _gate(folder, patch, [*named, *self._options, *options], **how)

    def _without(self, problem: str) -> Judging:
        for patch in self._patches:
            yield patch.name, Judged(problem=problem)

    def _in_fresh_environments(self) -> Judging:
        """With copies of the environments in which nothing has ever been run, and a new home."""
        try:
            rows = {
                torch: fresh_environment(python, self._home / f"env-{torch}")
                for torch, python in self._rows.items()
            }
        except (OSError, UsageError) as error:
            return self._without(f"no fresh environment: {error}")
        return self._judge("fresh", rows=rows)

    def _beside_a_load(self) -> Judging:
        """Next to two processes that compute all the time."""
        with contextlib.ExitStack() as stack:
            for _ in range(2):
                busy = subprocess.Popen([sys.executable, "-c", _BUSY])
                stack.callback(busy.wait)
                stack.callback(busy.kill)
            yield from self._judge("load")

    def _with_copied_answers(self) -> Judging:
        """As on a machine to which the kept answers of another one were brought."""
        kept = self._home / "first" / ".patchgate"
        if not kept.is_dir():
            return self._without("the first run has left no answers")
        for name in (*_KEPT, "cpp"):
            if (kept / name).is_dir():
                shutil.copytree(
                    kept / name, self._home / "copied" / ".patchgate" / name, symlinks=True
                )
        return self._judge("copied")

    def _in_other_surroundings(self) -> Judging:
        """With variables that another user has, on one core."""
        return self._judge("surroundings", variables=_SURROUNDINGS, one_core=True)

    def _at_once(self) -> Judging:
        """All patches at the same time over one folder of kept answers."""
        with ThreadPoolExecutor(len(self._patches)) as pool:
            judged = pool.map(lambda patch: self._gate("at-once", patch), self._patches)
            yield from zip((patch.name for patch in self._patches), judged, strict=True)


def _gate(
    folder: Path,
    patch: Path,
    options: Sequence[str],
    *,
    variables: Mapping[str, str] | None = None,
    one_core: bool = False,
) -> Judged:
    """The verdicts of `patchgate gate` as a user types it in `folder`, which is also its home."""
    results = Path(".patchgate") / patch.name
    gate = [sys.executable, "-m", "patchgate", "gate", str(patch), "--folder", str(results)]
    command = [*(["taskset", "--cpu-list", _core()] if one_core else []), *gate, *options]
    homes = {
        "HOME": str(folder / "home"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "TMPDIR": str(folder / "tmp"),
    }
    for place in homes.values():
        Path(place).mkdir(exist_ok=True)
    file = folder / results / "verdicts.json"
    file.unlink(missing_ok=True)  # an earlier one's
    begin = time.monotonic()
    ended = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | homes | dict(variables or {}),
        capture_output=True,
        text=True,
    )
    took = time.monotonic() - begin
    if ended.returncode not in (*_JUDGED, 4) or not file.is_file():
        last = (ended.stderr or ended.stdout).strip().splitlines()[-1:]
        return Judged(problem=f"exit code {ended.returncode}: {' '.join(last)[:200]}", seconds=took)
    verdicts = tuple(json.loads(file.read_text(encoding="utf-8"))["verdicts"])
    return Judged(verdicts, answers=_kept_answers(folder / ".patchgate"), seconds=took)


def _core() -> str:
    return str(min(os.sched_getaffinity(0)))


def _kept_answers(folder: Path) -> dict[str, Any]:
    """The kept answers by key, each with the digest of its file."""
    entries = [path for name in _KEPT for path in (folder / name).glob("*/*.json")]
    kept = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in entries}
    return {
        key: {"answer": each["content"], "file": each["file"]}
        for key, each in kept.items()
        if [*each["content"]] != ["seconds"]  # of checks: no answers, they differ each time
    }


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


@dataclass(frozen=True)
class Comparison:
    """One patch judged in one way, beside the first run of it."""

    way: str
    patch: str
    judged: Judged
    shared: int  #: kept answers that both have under one key
    different: Sequence[str] = ()
    problems: Sequence[str] = ()

    def __str__(self) -> str:
        found = len(self.different)
        outcome = f"{found} different" if found else "not compared" if self.problems else "equal"
        judged = f"{len(self.judged.verdicts)} verdicts, {self.judged.red} red"
        if self.way != _FIRST:
            judged += f", {self.shared} kept answers: {outcome}"
        took = f"{self.judged.seconds:.0f} s, load {os.getloadavg()[0]:.0f}"
        line = f"{self.way:18}  {self.patch:24}  {judged}; {took}"
        return "\n    ".join([line, *self.different, *self.problems])


def compared(ways: Mapping[str, Judge]) -> Iterator[Comparison]:
    """Each patch in each way, as soon as it is judged; the first way is what others are compared
    with.
    """
    (_, judge_first), *others = ways.items()
    first = {}
    for patch, judged in judge_first():
        first[patch] = judged
        yield Comparison(_FIRST, patch, judged, 0, problems=[judged.problem] * bool(judged.problem))
    for way, judge in others:
        for patch, judged in judge():
            # All that lies there by now: also what was judged before this patch.
            kept = {key: value for each in first.values() for key, value in each.answers.items()}
            shared = len({*kept} & {*judged.answers})
            found = differences(replace(first[patch], answers=kept), judged)
            yield Comparison(way, patch, judged, shared, *found)


def tree_text() -> str:
    """The commit that is run, with a mark where files differ from it."""
    with contextlib.suppress(GitFailed, FileNotFoundError):
        return run_git(ROOT, "describe", "--always", "--dirty", "--exclude", "*").decode().strip()
    return "no checkout"


def run_title(rows: Mapping[str, str], options: Sequence[str]) -> str:
    return (
        f"# {time.strftime('%Y-%m-%d %H:%M')}, {tree_text()}, torch {', '.join(rows)}, "
        f"{len(os.sched_getaffinity(0))} cores, gate {' '.join(options)}"
    )


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
@click.option(
    "--table", type=click.Path(dir_okay=False, path_type=Path), help="A file to add the lines to."
)
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[-- OPTION OF THE GATE...]")
def repeat(
    rows: tuple[str, ...],
    patches: tuple[str, ...],
    only: tuple[str, ...],
    table: Path | None,
    options: tuple[str, ...],
) -> None:
    """Judge each patch in every way, and show where the verdicts are not those of the first run."""
    paths = [_patch(name) for name in patches or SAMPLE]
    pythons, options = rows_of(rows), options or NARROW
    with tempfile.TemporaryDirectory(prefix="repeat-") as home:
        ways = Ways(Path(home), pythons, paths, options).all()
        unknown = [way for way in only if way not in ways]
        if unknown:
            raise UsageError(
                "no such way", where="--way", got=unknown[0], next=f"one of: {', '.join(ways)}"
            )
        chosen = {
            way: judge for way, judge in ways.items() if way == _FIRST or way in only or not only
        }
        found = untold = 0
        _say(run_title(pythons, options), table)
        for each in compared(chosen):
            found, untold = found + len(each.different), untold + len(each.problems)
            _say(str(each), table)
    _say(
        f"{len(paths)} patches, {len(chosen) - 1} ways: {found} differences, {untold} not compared",
        table,
    )
    raise SystemExit(1 if found else 4 if untold else 0)


def _say(line: str, table: Path | None) -> None:
    """Print a line, and add it to the stored result."""
    click.echo(line)
    if table:
        with table.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


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
