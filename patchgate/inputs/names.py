"""What a manifest may name: the kinds of effects, the workloads and devices of a symptom, and their facts.

Decides what is a name that nobody knows, and which one is nearest. Refuses to know where in a manifest it stands.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection
from pathlib import Path

from patchgate.inputs.golden import path_of
from patchgate.inputs.workloads import OPTIONS, load_workloads
from patchgate.model.facts import COMPILES, HISTOGRAMS, ON_REQUEST
from patchgate.model.paths import DEVICES, GOLDEN
from patchgate.model.records import Symptom

# What the probe tells of a module that is run; `thread-local` is an option that is meant for one thread only.
EFFECTS = (
    "compile",
    "config",
    "device",
    "environment",
    "files",
    "network",
    "process",
    "processes",
    "thread-local",
    "threads",
)


def advice(name: str, known: Collection[str]) -> str:
    """What to write instead of a name that is not among the known ones."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean `{close[0]}`?" if close else f"one of: {', '.join(sorted(known))}"


def unknown_effect(effect: str) -> tuple[str, str] | None:
    """What is wrong with an effect, and what to write instead; None where its kind is known."""
    kind = effect.partition(" ")[0]
    return None if kind in EFFECTS else (f"no kind of effect `{kind}`", advice(kind, EFFECTS))


def unknown_in(symptom: Symptom, beside: Path, golden: Path = GOLDEN) -> tuple[str, str, str] | None:
    """Key, what is wrong and what to write of the first name that nobody knows; `beside` has workloads of the patch.

    Facts are known of the workloads that have a record; one beside a patch may bring any of its own.
    """
    ours, theirs = {*load_workloads(), OPTIONS.name}, load_workloads(beside)
    devices = {file.stem for file in DEVICES.glob("*.toml")}
    for key, name, known in (
        ("workload", symptom.workload, ours | theirs.keys()),
        ("device", symptom.device, devices),
    ):
        if name not in known:
            return key, f"no {key} `{name}`", advice(name, known)
    facts = _facts(path_of(symptom.workload, symptom.device, golden))
    open_ended = symptom.workload in theirs or symptom.fact.startswith((*HISTOGRAMS, ON_REQUEST))
    if facts and not open_ended and symptom.fact not in facts | {COMPILES}:
        return "fact", f"no fact `{symptom.fact}`", _nearest_fact(symptom.fact, facts)
    return None


def _facts(path: Path) -> frozenset[str]:
    """The names that a record has, read without its values."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return frozenset(line.split()[0] for line in lines if "  " in line)


def _nearest_fact(name: str, facts: Collection[str]) -> str:
    plain = [fact for fact in facts if not fact.startswith(HISTOGRAMS)]
    return advice(name, plain)
