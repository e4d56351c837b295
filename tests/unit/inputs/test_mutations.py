"""Thousands of damaged inputs: each is read or refused in words, and none ends in a traceback."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from patchgate.inputs.devices import load_profile
from patchgate.inputs.golden import read_golden
from patchgate.inputs.models import load_model, model_workloads
from patchgate.inputs.patch import load_claims, load_patch
from patchgate.inputs.project import find_project, project_around
from patchgate.inputs.workloads import workloads_with
from patchgate.model.errors import UsageError
from patchgate.model.paths import DEVICES, GOLDEN, MODELS, ROOT
from patchgate.model.public_model_figures import Part, impact_of
from patchgate.model.records import Case, Facts, Kind, Observation, Verdict
from patchgate.model.results import JudgedCell
from patchgate.probe.process.message_schema import reply_fault
from patchgate.report.html.models_page import impact_html
from patchgate.report.models import impact_markdown
from patchgate.runner.cache import Cache
from patchgate.runner.costs import load_costs
from patchgate.runner.results_folder import Journal, put_aside, red_before
from patchgate.runner.run_settings import (
    ResultStore,
    Run,
    load_run,
    load_times,
    load_verdicts,
    save_run,
    save_verdicts,
)
from patchgate.runs.history.store import History

# The number of mutations of each kind; by hand, PATCHGATE_MUTATIONS=12500 makes it 200,000 in all.
COUNT = int(os.environ.get("PATCHGATE_MUTATIONS", "60"))
CASE = Case(torch="2.11.0", device="h200", workload="pointwise", patch="mine")
PIECES = [
    *(
        b"",
        b"\0",
        b"\xff\xfe",
        b"\n",
        b"\r",
        b"\t",
        b'"',
        b"'",
        b"[",
        b"]",
        b"{",
        b"}",
        b"=",
        b"..",
        b"#",
        b",",
    ),
    *(
        b"[" * 5000,
        b"{" * 3000,
        b'{"a":' * 3000,
        b"9" * 5000,
        b"1e999",
        b"NaN",
        b"-0",
        b"\\ud800",
        "é".encode(),
    ),
    *(
        b"true",
        b"null",
        b"2.11.0..2.6.0",
        b"(" * 3000,
        b"a" * 20_000,
        b"@@ -1,1 +1,1 @@\n",
        b"+++ b/x\n",
        b"-" * 999,
    ),
]
MANIFEST = (ROOT / "fixtures" / "patches" / "vllm-42686" / "patch.toml").read_bytes()
DIFF = b"""--- a/torch/_inductor/ir.py
+++ b/torch/_inductor/ir.py
@@ -1,3 +1,3 @@
 x = 1
-y = 2
+y = 3
 z = 4
"""


def mutated(data: bytes, chance: random.Random) -> bytes:
    """One to four changes: a byte, a stretch that goes or comes twice, a cut, or a piece that
    readers dislike.
    """
    for _ in range(chance.randint(1, 4)):
        at, to = sorted(chance.randint(0, len(data)) for _ in range(2))
        kind = chance.randrange(6)
        if kind == 0 and data:
            at = min(at, len(data) - 1)
            data = data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + data[to:]
        elif kind == 2:
            data = data[:to] + data[at:to][:5000] + data[to:]
        elif kind == 3:
            data = data[:to]
        elif kind == 4:
            lines = data.splitlines(keepends=True)
            chance.shuffle(lines)
            data = b"".join(lines)
        else:
            data = data[:at] + chance.choice(PIECES) + data[at:]
    return data


def written(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def read_manifest(folder: Path, data: bytes) -> None:
    load_claims(written(folder / "patch.toml", data))


def read_diff(folder: Path, data: bytes) -> None:
    load_patch(written(folder / "change.diff", data))


def read_golden_file(folder: Path, data: bytes) -> None:
    read_golden(written(folder / "golden.txt", data), "pointwise", "h200")


def read_entry(folder: Path, data: bytes) -> None:
    written(folder / "ab" / "abc.json", data)
    Cache(folder).load("abc", folder / "outputs")


def read_observation(folder: Path, data: bytes) -> None:
    written(folder / f"{CASE.id}.json", data)
    ResultStore(folder).load(CASE)


def read_verdicts(folder: Path, data: bytes) -> None:
    written(folder / "verdicts.json", data)
    load_verdicts(folder)


def read_history(folder: Path, data: bytes) -> None:
    history = History(written(folder / "history.sqlite", data))
    try:
        history.recent(5)
        history.series("pointwise", "h200", "loads")
        history.costs()
    finally:
        history.close()


def workloads_of(patch: Path) -> object:
    return workloads_with(patch, project_around(patch))


def read_workload(folder: Path, data: bytes) -> None:
    written(folder / "workloads" / "mine.py", data)
    workloads_of(written(folder / "patch.py", b"x = 1\n").parent)


def history_bytes(folder: Path) -> bytes:
    history = History(folder / "history.sqlite")
    verdict = Verdict(
        code="PG300", kind=Kind.PASS, check="kernels", case=CASE, item=CASE.name, fact="loads"
    )
    history.record(
        "r1", "2026-11-22", "mine", [verdict], [Observation(case=CASE, facts={"loads": (1, 2)})]
    )
    history.spend("r1", "mine", "2.11.0", 1.0)
    history.close()
    return (folder / "history.sqlite").read_bytes()


def entry_bytes(folder: Path) -> bytes:
    Cache(folder).save("abc", {"facts": {"loads": [1, 2]}})
    return (folder / "ab" / "abc.json").read_bytes()


def observation_bytes(folder: Path) -> bytes:
    ResultStore(folder).save(Observation(case=CASE, facts={"loads": (1, 2), "code": "x"}))
    return (folder / f"{CASE.id}.json").read_bytes()


def verdict_bytes(folder: Path) -> bytes:
    folder.mkdir(exist_ok=True)
    save_verdicts(
        folder,
        [Verdict(code="PG300", kind=Kind.PASS, check="k", case=CASE, item="i", fact="loads")],
    )
    return (folder / "verdicts.json").read_bytes()


def read_reply(folder: Path, data: bytes) -> None:
    """As the server reads what a child has written to its pipe."""
    with contextlib.suppress(ValueError, RecursionError):
        reply_fault("observe", json.loads(data))


def reply_bytes(folder: Path) -> bytes:
    facts = {"loads": [2, 1], "compiles": {"unmeasured": "no device"}, "bytes.total": 4096}
    coverage = {"ran": [1, 2], "took": [[3, "true"]]}
    stubbed = [{"name": "vllm._C", "where": "patch.py:3", "by_patch": True}]
    reply = {
        "facts": facts,
        "environment": {"torch": "2.11.0"},
        **coverage,
        "code": ["x"],
        "stubbed": stubbed,
    }
    assert reply_fault("observe", reply) is None
    return json.dumps(reply).encode()


def read_model(folder: Path, data: bytes) -> None:
    load_model(written(folder / "mine.toml", data))
    model_workloads(["mine.toml"], folder)


def read_table(folder: Path, data: bytes) -> None:
    written(folder / "patchgate.toml", data)
    project = find_project(folder)
    for answer in (
        project.patch_paths,
        project.own_workloads,
        project.check_profiles,
        lambda: project.import_path,
    ):
        answer()


def read_profile(folder: Path, data: bytes) -> None:
    load_profile("mine", {"mine": str(written(folder / "mine.toml", data))})


def read_journal(folder: Path, data: bytes) -> None:
    written(folder / "judged.jsonl", data)
    journal = Journal(folder)
    journal.cells()
    put_aside(folder)
    red_before(folder)
    journal.begin("key")


def read_run(folder: Path, data: bytes) -> None:
    load_run(written(folder / "run.json", data))


def read_seconds(folder: Path, data: bytes) -> None:
    written(folder / "times.json", data)
    load_times(folder)


def read_costs(folder: Path, data: bytes) -> None:
    written(folder / "costs.jsonl", data)
    load_costs(folder)


def read_impact(folder: Path, data: bytes) -> None:
    """As a comparison of models reads what each side was."""
    written(folder / f"{CASE.id}.json", data)
    found = ResultStore(folder).load(CASE) or Observation(case=CASE)
    whole = Observation(case=CASE, facts={"kernels.called": 3, "bytes.total": 4096})
    for pair in ((found, whole), (whole, found)):
        parts = {"mine": [Part(count=2, before=pair[0], after=pair[1])]}
        shown = impact_of(parts, before="unpatched", after="mine")
        impact_markdown("mine", shown)
        impact_html("mine", shown, at="now")


def journal_bytes(folder: Path) -> bytes:
    verdict = Verdict(code="PG300", kind=Kind.PASS, check="k", case=CASE, item="i", fact="loads")
    journal = Journal(folder)
    journal.begin("key")
    journal.append(JudgedCell(name="k[i]", seconds=1.0, verdicts=(verdict,)))
    assert journal.cells()
    return (folder / "judged.jsonl").read_bytes()


def run_bytes(folder: Path) -> bytes:
    return save_run(
        Run(folder=str(folder), patch="mine.py", rows={"2.11.0": "python"})
    ).read_bytes()


def impact_bytes(folder: Path) -> bytes:
    facts: Facts = {
        "kernels.called": 3,
        "bytes.total": 4096,
        "memory.peak": 10,
        "kernels.distinct": 2,
    }
    ResultStore(folder).save(Observation(case=CASE, facts=facts))
    return (folder / f"{CASE.id}.json").read_bytes()


TABLE = b"""releases = ["2.11.0", "2.12.1"]
torch_range = ">=2.9"
patches = ["patches/*.py", "one.py::install(True)"]
workloads = ["residual_stack"]
devices = ["h200", "cpu"]
models = ["llama-3-8b"]
requires = ["transformers>=4.50"]
path = ["src"]

[budgets]
latency = "-2 % .. 0.5 %"
"""
Read = Callable[[Path, bytes], None]
KINDS: dict[str, tuple[Read, Callable[[Path], bytes]]] = {
    "manifest": (read_manifest, lambda folder: MANIFEST),
    "diff": (read_diff, lambda folder: DIFF),
    "golden": (read_golden_file, lambda folder: (GOLDEN / "pointwise.h200.txt").read_bytes()),
    "entry": (read_entry, entry_bytes),
    "observation": (read_observation, observation_bytes),
    "verdicts": (read_verdicts, verdict_bytes),
    "history": (read_history, history_bytes),
    "reply": (read_reply, reply_bytes),
    "model": (read_model, lambda folder: (MODELS / "bert-large.toml").read_bytes()),
    "table": (read_table, lambda folder: TABLE),
    "profile": (read_profile, lambda folder: (DEVICES / "h200.toml").read_bytes()),
    "journal": (read_journal, journal_bytes),
    "run": (read_run, run_bytes),
    "seconds": (
        read_seconds,
        lambda folder: b'{"kernels[pointwise.h200]": 1.5, "parity[pointwise]": 12}',
    ),
    "costs": (
        read_costs,
        lambda folder: b'{"torch": "2.11.0", "do": "observe", "child": 1.5}\n{"do": "run"}\n',
    ),
    "impact": (read_impact, impact_bytes),
    "workload": (
        read_workload,
        lambda f: (ROOT / "fixtures" / "workloads" / "pointwise.py").read_bytes(),
    ),
}


def failures(read: Read, whole: bytes, folder: Path, seed: str) -> Iterator[str]:
    """Yield each mutation that ended otherwise than in a record or in words for the user."""
    chance = random.Random(seed)
    for number in range(COUNT):
        data = mutated(whole, chance)
        for leftover in folder.glob("history.sqlite-*"):
            leftover.unlink()
        try:
            read(folder, data)
        except UsageError as error:
            assert len(str(error)) < 5000
        except sqlite3.DatabaseError:
            pass  # the command says that the history is damaged
        except Exception as error:
            yield f"{number}: {type(error).__name__}: {error}: {data[:200]!r}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_input_is_read_or_refused_in_words(kind, tmp_path):
    read, whole = KINDS[kind]
    content = (
        whole(tmp_path / "made")
        if kind != "history"
        else whole(written(tmp_path / "x" / "y", b"").parent)
    )
    assert next(failures(read, content, tmp_path / "read", kind), "") == ""


@pytest.mark.parametrize("kind", ["manifest", "golden", "workload", "diff"])
def test_a_pipe_that_nobody_writes_hangs_nobody(kind, tmp_path):
    names = {
        "manifest": "patch.toml",
        "golden": "golden.txt",
        "workload": "workloads/mine.py",
        "diff": "change.diff",
    }
    path = tmp_path / names[kind]
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    readers = {
        "manifest": lambda: load_claims(path),
        "golden": lambda: read_golden(path, "pointwise", "h200"),
        "workload": lambda: workloads_of(written(tmp_path / "patch.py", b"x = 1\n").parent),
        "diff": lambda: load_patch(path),
    }
    with pytest.raises(UsageError):
        readers[kind]()
