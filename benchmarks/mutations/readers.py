"""The inputs of the commands, kind by kind: a reader, and whole files of the repository."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from patchgate.inputs.devices import load_profile
from patchgate.inputs.golden import read_golden
from patchgate.inputs.matrix import load_matrix
from patchgate.inputs.models import load_model, model_workloads
from patchgate.inputs.patch import load_claims, load_patch
from patchgate.inputs.project import Project, find_project, project_around
from patchgate.inputs.torch_range import torch_range
from patchgate.inputs.workloads import workloads_with
from patchgate.lint.baseline import without_known, write_baseline
from patchgate.lint.ecosystem import judge_projects
from patchgate.lint.findings import Finding
from patchgate.lint.index.release import Index, Release, load, releases
from patchgate.lint.run import lint
from patchgate.lint.usage import usage
from patchgate.model.paths import GOLDEN, ROOT
from patchgate.model.policy import Kind
from patchgate.model.public_model_figures import Part, impact_of
from patchgate.model.records import Case, Facts, Observation, Verdict
from patchgate.model.results import JudgedCell
from patchgate.probe.process.message_schema import reply_fault
from patchgate.report.comment import render_comment
from patchgate.report.formats import JudgedPatch, write_files
from patchgate.report.models import impact_html, impact_markdown
from patchgate.runner.cache import Cache
from patchgate.runner.journal import Journal
from patchgate.runner.request_costs import load_costs
from patchgate.runner.results_folder import cells_before, put_aside
from patchgate.runner.run_settings import (
    ResultStore,
    Run,
    load_run,
    load_verdicts,
    runs_in,
    save_run,
    save_verdicts,
)
from patchgate.runs.accept import plan_changes
from patchgate.runs.gate import judged_before
from patchgate.runs.history.store import History
from patchgate.runs.init import inferred_manifest
from patchgate.runs.read_results import results_of

#: Reads a file of these bytes, which it writes below the folder.
Read = Callable[[Path, bytes], None]
#: Whole files, some of which are made in the folder.
Originals = Callable[[Path], Sequence[bytes]]
# Bytes of a file that is mutated.
_LARGEST = 200_000
SURFACE = GOLDEN / "surface"
CASE = Case(torch="2.11.0", device="h200", workload="pointwise", patch="mine")
FIXTURES = ROOT / "fixtures"
PATCH = FIXTURES / "patches" / "vllm-42686"
DIFF = b"""--- a/torch/_inductor/ir.py
+++ b/torch/_inductor/ir.py
@@ -1,3 +1,3 @@
 x = 1
-y = 2
+y = 3
 z = 4
"""


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
    callers = {"torch.a": "torch/b.py:4"}
    coverage = {"ran": [1, 2], "took": [[3, "true"]], "callers": callers}
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
    read_project(find_project(folder))


def read_project(project: Project) -> None:
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
    cells_before(folder)
    journal.begin("key")


def read_run(folder: Path, data: bytes) -> None:
    load_run(written(folder / "run.json", data))


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


def read_patch(folder: Path, data: bytes) -> None:
    """A manifest next to its patch, as the gate reads it."""
    shutil.copy(PATCH / "patch.py", folder)
    written(folder / "patch.toml", data)
    load_patch(folder)


def read_source_of_patch(folder: Path, data: bytes) -> None:
    """A patch as `lint`, `usage` and `init` read it."""
    path = written(folder / "patch.py", data)
    lint([path], newest_releases())
    usage([path], newest_releases())
    inferred_manifest(path, path, "patchgate gate")


def read_source_of_diff(folder: Path, data: bytes) -> None:
    path = written(folder / "change.diff", data)
    lint([path], newest_releases())
    load_patch(path)


@cache
def newest_releases() -> list[Release]:
    return [load(version) for version in releases()[-2:]]


@cache
def findings_of_patch() -> tuple[Finding, ...]:
    path = FIXTURES / "patches" / "helion-prologue" / "patch.py"
    return lint([path], newest_releases()).findings


def known_findings(folder: Path) -> bytes:
    write_baseline(folder / "known.json", findings_of_patch())
    return (folder / "known.json").read_bytes()


def read_known_findings(folder: Path, data: bytes) -> None:
    without_known(
        written(folder / "known.json", data), findings_of_patch(), [str(PATCH / "patch.py")]
    )


def read_index(folder: Path, data: bytes) -> None:
    """One file of the index of torch's API, and what lists their digests."""
    written(folder / "modules.jsonl", data)
    shutil.copy(SURFACE / "digests.json", folder)
    shutil.copy(SURFACE / "releases.json", folder)
    Index(folder).modules_in(1)


def read_digests(folder: Path, data: bytes) -> None:
    written(folder / "digests.json", data)
    for name in ("releases.json", "classes.jsonl", "modules.jsonl"):
        shutil.copy(SURFACE / name, folder)
    index = Index(folder)
    index.derived_from("IRNode")
    index.modules_in(1)


def read_project_around(folder: Path, data: bytes) -> None:
    """A pyproject.toml: its table of ours, and the torch that it requires."""
    written(folder / "pyproject.toml", data)
    patch = written(folder / "patch.py", b"import torch\n")
    torch_range(patch)
    read_project(find_project(patch))


def read_requirements(folder: Path, data: bytes) -> None:
    for name in ("requirements.txt", "setup.py"):
        written(folder / name, data)
    torch_range(written(folder / "patch.py", b"import torch\n"))


def read_matrix(folder: Path, data: bytes) -> None:
    load_matrix(written(folder / "matrix.toml", data))


def read_ecosystem(folder: Path, data: bytes) -> None:
    for _ in judge_projects(written(folder / "list.toml", data), folder, 1):
        pass


def read_again(name: str) -> Read:
    """One damaged file of a run's folder, as `report`, `comment` and `accept` read the folder."""

    def read(folder: Path, data: bytes) -> None:
        whole_results(folder)
        written(folder / name, data)
        try:
            render_comment([folder])
            for run in runs_in(folder):
                judged = judged_before(run)
                results_of(run, judged.patch, judged.verdicts)
                write_files(JudgedPatch(**judged._asdict()))
                plan_changes(list(run.store), ["2.11.0"], folder / "golden")
        finally:
            shutil.rmtree(folder)

    return read


def whole_results(folder: Path) -> Path:
    """The folder of a run that measured one case, with its code and times."""
    folder.mkdir(parents=True, exist_ok=True)
    facts: Facts = {"loads": (1, 2), "kernels.called": 3, "bytes.total": 4096}
    for case in (CASE, replace(CASE, patch=None)):
        code = written(folder / "code" / f"{case.id}.py", b"x = 1\n")
        ResultStore(folder / "observations").save(
            Observation(case=case, facts=facts, artifacts={"code": str(code)})
        )
    save_run(Run(folder=str(folder), patch=str(PATCH), rows={"2.11.0": "python"}))
    verdict = Verdict(code="PG300", kind=Kind.PASS, check="k", case=CASE, item="i", fact="loads")
    save_verdicts(folder, [verdict, replace(verdict, code="PG301", kind=Kind.CHANGED, after="7")])
    return folder


def file_of_results(name: str) -> Originals:
    """A whole file of a run's folder."""
    return lambda folder: [(whole_results(folder) / name).read_bytes()]


def files(*patterns: str) -> Originals:
    """The files of the repository of these patterns."""
    paths = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
    return lambda _: [path.read_bytes() for path in paths if path.stat().st_size < _LARGEST]


def made(make: Callable[[Path], bytes]) -> Originals:
    return lambda folder: [make(folder)]


def mine(data: bytes) -> Originals:
    return lambda _: [data]


_COSTS = b'{"torch": "2.11.0", "do": "observe", "child": 1.5}\n{"do": "run"}\n'
_REQUIREMENTS = b'# deps\ntorch>=2.9,<2.13; python_version >= "3.10"\nnumpy\n-r more.txt\n'
_OBSERVED = f"observations/{CASE.id}.json"
#: Kind of input -> its reader, and whole files of it.
KINDS: dict[str, tuple[Read, Originals]] = {
    "manifest": (read_manifest, files("fixtures/patches/*/patch.toml")),
    "patch": (read_patch, files("fixtures/patches/vllm-42686/patch.toml")),
    "diff": (read_diff, lambda _: [DIFF, *files("fixtures/**/*.diff")(_)]),
    "golden": (read_golden_file, files("golden/*.txt")),
    "entry": (read_entry, made(entry_bytes)),
    "observation": (read_observation, made(observation_bytes)),
    "verdicts": (read_verdicts, made(verdict_bytes)),
    "history": (read_history, made(history_bytes)),
    "reply": (read_reply, made(reply_bytes)),
    "model": (read_model, files("fixtures/models/*.toml")),
    "table": (read_table, mine(TABLE)),
    "profile": (read_profile, files("fixtures/devices/*.toml")),
    "journal": (read_journal, made(journal_bytes)),
    "run": (read_run, made(run_bytes)),
    "costs": (read_costs, mine(_COSTS)),
    "impact": (read_impact, made(impact_bytes)),
    "workload": (read_workload, files("fixtures/workloads/*.py")),
    "lint": (read_source_of_patch, files("fixtures/patches/*/*.py", "fixtures/fresh-*/*/*.py")),
    "lint-diff": (read_source_of_diff, files("fixtures/**/*.diff")),
    "baseline": (read_known_findings, made(known_findings)),
    "index": (read_index, files("golden/surface/modules.jsonl")),
    "digests": (read_digests, files("golden/surface/digests.json")),
    "pyproject": (read_project_around, files("pyproject.toml", "fixtures/**/pyproject.toml")),
    "requirements": (read_requirements, mine(_REQUIREMENTS)),
    "matrix": (read_matrix, files("ci/matrix.toml")),
    "ecosystem": (read_ecosystem, files("docs/ecosystem.toml")),
    **{
        f"again {name}": (read_again(name), file_of_results(name))
        for name in ("run.json", "verdicts.json", _OBSERVED)
    },
}
