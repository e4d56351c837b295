"""Prints where the seconds of a warm gate go after an edit, which questions were left out and why,
and a lint's cost.

It has no limits of its own: times on shared machines are no test.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from patchgate.runner.request_costs import load_costs

# Beside the folder of the gate, so that the compiled C++ of its runs is found again.
FOLDER = Path(".patchgate", "bench")
START, BUILDS, REST = "start of the servers", "C++ builds", "plan, judge, report"
#: Step of a run -> the questions that the probe is asked in it.
STEPS = {
    START: ("sentinel",),
    "import of the patch": (
        "apply",
        "applies",
        "stand-ins",
        "new interpreter",
        "surface",
        "undone",
        "functions",
    ),
    "compile": (
        *("observe", "code", "failing stage", "shapes", "options", "kernels"),
        *("cached", "recompiles", "calls", "hooks"),
    ),
    "numbers": (
        *("run", "plain run", "forms", "trace", "sample", "ranks"),
        *(
            "differ",
            "differ runs",
            "differ bits",
            "differ forms",
            "differ traces",
            "differ tokens",
            "differ samples",
        ),
        "offers",
        "operators",
        "custom operators",
    ),
    "latency": ("time",),
}
# Questions of which the processes that they start are compilers.
BUILDING = ("run", "forms", "trace", "sample", "operators")
Notes = Sequence[Mapping[str, Any]]


def main(arguments: list[str]) -> None:
    """Run the gate with `arguments`, of which the last is the patch, and print what each of its
    steps took.
    """
    _lint(arguments[-1])
    edited = _edited_copy(Path(arguments[-1]))
    started, before = time.time(), _computed()
    command = [
        sys.executable,
        "-m",
        "patchgate",
        "gate",
        *arguments[:-1],
        str(edited),
        "--folder",
        str(FOLDER),
    ]
    run = subprocess.run(command, capture_output=True, text=True)
    ended, notes = time.time(), load_costs(FOLDER)
    if not any("wall" in note for note in notes):
        sys.exit(run.stdout + run.stderr)
    print(
        "\n".join(
            [*steps_table(notes, started, ended, _computed() - before), *questions_table(notes)]
        )
    )
    print("\n".join(unasked_table(notes)))


def _edited_copy(patch: Path) -> Path:
    """A copy of the patch after an edit that changes nothing, so that it is measured although it
    was before.
    """
    copy = FOLDER.with_name("edited") / patch.name
    shutil.rmtree(copy.parent, ignore_errors=True)
    copy.parent.mkdir(parents=True)
    if patch.is_dir():
        shutil.copytree(patch, copy)
    else:
        shutil.copy(patch, copy)
    source = copy / "patch.py" if copy.is_dir() else copy
    with open(source, "a", encoding="utf-8") as file:
        file.write(f"# edited at {time.time()}\n")
    return copy


def steps_table(notes: Notes, started: float, ended: float, computed: float) -> Iterator[str]:
    """Wall and CPU seconds of each step of a run that began and ended then; it computed so many
    seconds in all.

    The wall seconds are those in which at least one question of the step was being answered: steps
    overlap.
    """
    asked = [note for note in notes if "wall" in note]
    step_of = {question: step for step, questions in STEPS.items() for question in questions}
    cpu: dict[str, float] = defaultdict(float)
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for note in asked:
        step, built = step_of[note["do"]], note.get("below", 0.0) if note["do"] in BUILDING else 0.0
        spans[step].append((note["at"], note["at"] + note["wall"]))
        cpu[step] += note.get("child", 0.0) - built
        cpu[BUILDS] += built
    first, last = (
        min(note["at"] + note["wall"] for note in asked),
        max(note["at"] + note["wall"] for note in asked),
    )
    spans[START], spans[REST] = [(started, first)], [(last, ended)]
    cpu[START] += sum(
        {note["torch"]: note["warm_up"] for note in asked if "warm_up" in note}.values()
    )
    cpu[REST] = computed - sum(cpu.values())
    yield f"one gate run: {ended - started:.1f} s wall, {computed:.1f} s of CPU; steps overlap"
    yield f"  {'step':22} {'wall':>8} {'CPU':>8}  share of CPU"
    for step in (*STEPS, BUILDS, REST):
        # Builds are part of the questions that need them.
        wall = "-" if step == BUILDS else f"{covered(spans[step]):.1f}"
        yield f"  {step:22} {wall:>8} {cpu[step]:8.1f}  {cpu[step] / computed:6.1%}"
    alone = ended - started - covered([span for each in spans.values() for span in each])
    yield f"no question was being answered for {alone:.1f} s in between"
    held = [note["held"] for note in asked if note.get("held")]
    if held:
        yield (
            f"the device was held alone for {sum(held):.0f} s, in {len(held)} cases that were timed"
        )


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Seconds that lie in at least one of the spans."""
    total, until = 0.0, 0.0
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def questions_table(notes: Notes) -> Iterator[str]:
    """CPU seconds of the children by question, device and side."""
    children: dict[str, list[float]] = defaultdict(list)
    for note in notes:
        if "child" in note:
            side = "patched" if note["patch"] else "unpatched"
            children[f"{note['do']}, {note['device'] or 'no device'}, {side}"].append(note["child"])
    yield f"CPU by question, in {sum(map(len, children.values()))} children:"
    for question, seconds in sorted(children.items(), key=lambda item: -sum(item[1])):
        yield f"  {sum(seconds):6.1f} s  {len(seconds):4} x  {question}"


def unasked_table(notes: Notes) -> Iterator[str]:
    """How many questions were not asked, by reason."""
    unasked: dict[str, Counter[str]] = defaultdict(Counter)
    for note in notes:
        if "unasked" in note:
            unasked[note["unasked"]][note["do"]] += 1
    yield f"not asked: {sum(each.total() for each in unasked.values())} questions"
    for why, questions in sorted(unasked.items(), key=lambda item: -item[1].total()):
        counts = ", ".join(f"{question} {times}" for question, times in questions.most_common())
        yield f"  {questions.total():4} x  {why}: {counts}"


def _computed() -> float:
    """Processor seconds of every process that has ended so far: unlike wall time, nearly the same
    on a busy machine.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _lint(patch: str) -> None:
    """Wall time and peak memory of linting the same patch over every indexed release."""
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "patchgate", "lint", patch], stdout=subprocess.DEVNULL)
    wall = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    print(f"lint over every release: {wall:.2f} s wall, {used} MiB at most")


if __name__ == "__main__":
    main(sys.argv[1:])
