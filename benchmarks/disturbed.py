"""`python -m benchmarks.disturbed`, which `nox -s attacks` runs: kills, full disks, two at once.

Commands of patchgate are ended at random moments, run on disks of too few bytes, or started twice
in one folder. What they leave when they are then run again must be what an undisturbed run leaves,
or the exit code is 4. Exit codes: 0 as it must be, 1 a difference, 2 usage.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.repeat import by_subject, run_title, said_text, subject_text
from patchgate.cli.main import end_by_exit_code
from patchgate.model.paths import ROOT
from patchgate.runner.torch_environments import BESIDE_TORCH
from patchgate.runs.plan import rows_of

# The parts of what a command leaves -> what stands there. Two of them are compared.
Left = dict[str, str]
_PATCH = ROOT / "fixtures" / "patches" / "vllm-42686"
_TABLE = 'patches = ["mine"]\ngolden = "golden"\n'
_GATE = (
    *("gate", "mine", "--workload", "pointwise", "--folder", "results"),
    *("--check", "kernels", "--check", "version_gate", "--check", "effects", "--check", "parity"),
)
_SWEEP = ("sweep", "mine", "--workload", "pointwise", "--folder", "results")
_ACCEPT = ("accept", "--yes", "--reason", "disturbed", "--folder", "results")
# A gate says that such an environment could not be made.
_MAKE = """
from patchgate.runner.torch_environments import NotInstallable, cached_environment
try:
    cached_environment("2.11.0")
except NotInstallable:
    raise SystemExit(4)
"""
_MACHINE, _USAGE = 4, 2
# Parts of the bytes that an undisturbed run leaves: the disks that are too small for it.
_DISKS = (0.0, 0.02, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97)
# Less than what a folder needs to exist.
_LEAST = 64 * 1024
# Seconds after which a command has hung, and the exit code that stands for it.
_LIMIT, _HUNG = 600, -1000


@dataclass(frozen=True)
class Scene:
    """A command that is disturbed, and what it leaves in the folder in which it runs."""

    name: str
    command: tuple[str, ...]
    left: Callable[[Path], Left]
    #: The command whose results this one starts from.
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class End:
    """How a run of a command ended, and what it left."""

    code: int
    left: Left
    said: str
    seconds: float

    def fault(self, whole: End) -> str:
        """Why this is no good end of what an undisturbed run ends as `whole`; empty if it is."""
        if self.code == _MACHINE:
            return "" if "Traceback" not in self.said else f"a traceback: {self.said[-600:]}"
        if self.code != whole.code:
            return f"exit code {self.code}, not {whole.code}: {self.said[-600:]}"
        parts = sorted({*self.left} | {*whole.left})
        unlike = [
            f"{part}: {whole.left.get(part, 'nothing')[:200]} -> "
            f"{self.left.get(part, 'nothing')[:200]}"
            for part in parts
            if self.left.get(part) != whole.left.get(part)
        ]
        return "; ".join(unlike[:3])


def verdicts_in(home: Path) -> Left:
    """The verdicts by their subject, as `benchmarks.repeat` compares them."""
    file = home / "results" / "verdicts.json"
    if not file.is_file():
        return {}
    verdicts = json.loads(file.read_text(encoding="utf-8"))["verdicts"]
    return {subject_text(about): said_text(said) for about, said in by_subject(verdicts).items()}


def golden_in(home: Path) -> Left:
    """The golden files; a line of the history tells the day, which may be another one."""
    files = sorted(path for path in (home / "golden").rglob("*") if path.is_file())
    return {path.name: path.read_text(encoding="utf-8") for path in files}


def environment_in(home: Path) -> Left:
    """The installed files with their sizes, without what Python writes when it is run."""
    place = home / "cache" / "patchgate" / "environments"
    files = [path for path in place.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    inside = [path for path in files if "site-packages" in path.parts or path.name == "complete"]
    # It records when and from where each package came.
    plain = [path for path in inside if path.name not in ("RECORD", "uv_cache.json")]
    return {str(path.relative_to(place)): str(path.stat().st_size) for path in plain}


class Disturbed:
    """Runs scenes in folders below `home`, each a project with one patch."""

    def __init__(self, home: Path, rows: Mapping[str, str], chance: random.Random) -> None:
        self._home, self._chance = home, chance
        named = [word for torch, python in rows.items() for word in ("--row", f"{torch}={python}")]
        judge = [sys.executable, "-m", "patchgate"]
        gate = (*judge, *_GATE, *named)
        self.scenes = {
            "gate": Scene("gate", gate, verdicts_in),
            "sweep": Scene("sweep", (*judge, *_SWEEP, *named), verdicts_in),
            "accept": Scene("accept", (*judge, *_ACCEPT), golden_in, after=gate),
            "environment": Scene("environment", (sys.executable, "-c", _MAKE), environment_in),
        }
        self._wheels = home / "wheels"
        self._wheels.mkdir()
        for name in ("torch", *BESIDE_TORCH):
            write_wheel(self._wheels, name, "2.11.0")
        links = f"no-index = true\nfind-links = [{json.dumps(str(self._wheels))}]\n"
        (self._wheels / "uv.toml").write_text(links, encoding="utf-8")
        self._runs = 0
        self._lasts: dict[str, float] = {}

    def undisturbed(self, scene: Scene) -> tuple[Path, End]:
        """A folder in which the command has run, and how that ended."""
        folder = self._project(scene, scene.name)
        return folder, self.run(scene, folder)

    def killed(self, scene: Scene, warm: Path, whole: End, number: int) -> tuple[str, str]:
        """A kill at some moment and a run after it: in words, and the fault of them.

        Of three kills one meets a folder in which nothing is kept.
        """
        chance = self._chance
        folder = self._home / f"{scene.name}-killed"
        lasts = whole.seconds
        if number % 3 == 0 or scene.name in ("accept", "environment"):
            folder = self._project(scene, folder.name)
        else:
            lasts = self._lasts.get(scene.name, lasts)
        if not folder.is_dir():
            shutil.copytree(warm, folder, symlinks=True)
        sent = chance.choice((signal.SIGKILL, signal.SIGTERM))
        to_all, after = chance.random() < 0.5, chance.uniform(0, lasts)
        told = f"{sent.name} to {'all' if to_all else 'one'} after {after:.1f} s"
        first = self.run(scene, folder, kill=(after, sent, to_all))
        # A signal that comes before Python or after the last line ends it as any program.
        fault = first.fault(whole) if first.code >= 0 else ""
        told += f", exit code {first.code}"
        again = self.run(scene, folder)
        self._lasts[scene.name] = again.seconds  # with what is kept
        fault = fault or again.fault(whole)
        return f"{told}, then {again.code}", fault

    def full(self, scene: Scene, whole: End, part: float, used: int) -> tuple[str, str]:
        """As `killed`, by a disk that has only a part of the bytes that the command needs."""
        size = max(_LEAST, int(used * part))
        folder = self._home / f"{scene.name}-disk"
        folder.mkdir()
        disk = ("mount", "-t", "tmpfs", "-o")
        subprocess.run([*disk, "size=4g", "disk", str(folder)], check=True)
        try:
            self._project(scene, folder.name)
            there = _bytes_of(folder)
            subprocess.run([*disk, f"remount,size={there + size}", str(folder)], check=True)
            first = self.run(scene, folder)
            subprocess.run([*disk, "remount,size=4g", str(folder)], check=True)
            again = self.run(scene, folder)
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
            folder.rmdir()
        told = f"{size / 1e6:.1f} MB more, exit code {first.code}, then {again.code}"
        return told, first.fault(whole) or again.fault(whole)

    def twice(self, scene: Scene, warm: Path, whole: End) -> tuple[str, str]:
        """Two in one folder: one of them may be told who holds it."""
        folder = self._home / f"{scene.name}-twice"
        if not folder.is_dir():
            shutil.copytree(warm, folder, symlinks=True)
        first = self._start(scene, folder)
        time.sleep(self._chance.uniform(0, 3))
        second = self._start(scene, folder)
        ends = [each.end(scene, folder) for each in (first, second)]
        faults = [
            each.fault(whole)
            for each in ends
            if each.code != _USAGE or "a run that goes on" not in each.said
        ]
        codes = " and ".join(str(each.code) for each in ends)
        if not faults:
            faults = ["none of the two judged"]
        return f"exit codes {codes}", next(filter(None, faults), "")

    def run(
        self,
        scene: Scene,
        folder: Path,
        kill: tuple[float, signal.Signals, bool] | None = None,
    ) -> End:
        """Run the command, and end it as `kill` says: when, by what, with all that it started."""
        started = self._start(scene, folder)
        process = started.process
        if kill is not None:
            after, sent, to_all = kill
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(after)
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if to_all else os.kill)(process.pid, sent)
        return started.end(scene, folder)

    def _project(self, scene: Scene, name: str) -> Path:
        folder = self._home / (scene.name if scene.after else name)  # its results name the folder
        for each in folder.iterdir() if folder.is_dir() else ():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        shutil.copytree(_PATCH, folder / "mine", dirs_exist_ok=True)
        (folder / "patchgate.toml").write_text(_TABLE, encoding="utf-8")
        if scene.after:
            before = self._home / f"before-{scene.name}"
            if before.is_dir():
                shutil.copytree(before, folder, symlinks=True, dirs_exist_ok=True)
            else:
                self.run(Scene("before", scene.after, verdicts_in), folder)
                shutil.copytree(folder, before, symlinks=True)
        return folder

    def _start(self, scene: Scene, folder: Path) -> Started:
        homes = {"HOME": "home", "XDG_CACHE_HOME": "cache", "TMPDIR": "tmp"}
        with contextlib.suppress(OSError):  # a full disk
            for name in homes.values():
                (folder / name).mkdir(exist_ok=True)
        variables = {variable: str(folder / name) for variable, name in homes.items()}
        variables |= {"UV_CONFIG_FILE": str(self._wheels / "uv.toml"), "PYTHONPATH": str(ROOT)}
        self._runs += 1
        output = self._home / f"output-{self._runs}"  # a pipe would be kept open by what is left
        with output.open("w") as file:
            process = subprocess.Popen(
                scene.command,
                cwd=folder,
                env=os.environ | variables,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Started(process, output, time.monotonic())


@dataclass(frozen=True)
class Started:
    """A command that runs, and the file of what it says."""

    process: subprocess.Popen[bytes]
    output: Path
    begin: float

    def end(self, scene: Scene, folder: Path) -> End:
        """Wait for it; one that does not end counts as killed by us."""
        try:
            self.process.wait(_LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            return End(_HUNG, {}, f"no end within {_LIMIT} s", _LIMIT)
        took = time.monotonic() - self.begin
        said = self.output.read_text(encoding="utf-8", errors="replace")
        self.output.unlink()
        return End(self.process.returncode, scene.left(folder), said, took)


def write_wheel(folder: Path, name: str, version: str, files: int = 2000) -> Path:
    """A package of many small files, whose installation takes a while."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    told = f"{name}-{version}.dist-info"
    texts = {f"{name}/part_{number}.py": f"x = {number}\n" * 50 for number in range(files)}
    texts |= {
        f"{name}/__init__.py": "",
        f"{told}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{told}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    texts[f"{told}/RECORD"] = "".join(f"{each},,\n" for each in (*texts, f"{told}/RECORD"))
    with zipfile.ZipFile(path, "w") as wheel:
        for each, text in texts.items():
            wheel.writestr(each, text)
    return path


def _bytes_of(folder: Path) -> int:
    """The bytes that a folder takes on its disk."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def disturbances(
    disturbed: Disturbed, scene: Scene, kills: int, disks: bool, pairs: int
) -> Iterator[tuple[str, str]]:
    """Each disturbance of a command in words, with the fault of what came out; empty for none."""
    warm, whole = disturbed.undisturbed(scene)
    used = _bytes_of(warm)
    unfit = whole.fault(whole) or ("" if whole.left else f"it left nothing: {whole.said[-600:]}")
    yield f"undisturbed: exit code {whole.code}, {whole.seconds:.0f} s, {used / 1e6:.1f} MB", unfit
    if unfit:
        return
    for number in range(kills):
        yield disturbed.killed(scene, warm, whole, number)
    for _ in range(pairs):
        yield disturbed.twice(scene, warm, whole)
    for part in _DISKS if disks else ():
        yield disturbed.full(scene, whole, part, used)


@click.command()
@click.option(
    "--row", "rows", multiple=True, metavar="TORCH=PYTHON", required=True, help="A torch release."
)
@click.option(
    "--kills",
    multiple=True,
    metavar="COMMAND=COUNT",
    default=("gate=30", "sweep=10", "accept=30", "environment=30"),
    show_default=True,
)
@click.option("--disks/--no-disks", default=True, help="Run on ten disks that are too small.")
@click.option("--pairs", default=20, show_default=True, help="Gates that are started twice.")
@click.option("--seed", default=1, show_default=True)
def disturb(
    rows: tuple[str, ...], kills: tuple[str, ...], disks: bool, pairs: int, seed: int
) -> None:
    """Disturb commands at random, and show what came out otherwise than undisturbed."""
    pythons = rows_of(rows)
    click.echo(run_title(pythons, (*_GATE[2:4], f"seed {seed}")))
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="disturbed-") as home:
        disturbed = Disturbed(Path(home), pythons, random.Random(seed))
        for entry in kills:
            name, _, count = entry.partition("=")
            is_gate = name == "gate"
            found = disturbances(
                disturbed,
                disturbed.scenes[name],
                int(count),
                disks and name in ("gate", "environment"),
                pairs if is_gate else 0,
            )
            for told, fault in found:
                counts["faults" if fault else "as undisturbed, or exit code 4"] += 1
                click.echo(f"{name:12} {told}" + (f"\n    {fault}" if fault else ""))
    click.echo(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    raise SystemExit(1 if counts["faults"] else 0)


if __name__ == "__main__":
    end_by_exit_code(disturb, "disturbed")
