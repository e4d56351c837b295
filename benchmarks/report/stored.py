"""Real runs that are kept: what is not green in full, green verdicts as counts, and the facts of a
few cases.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from patchgate.inputs.golden import expectation, load_golden
from patchgate.inputs.manifest import Claims, Patch
from patchgate.inputs.patch import load_patch
from patchgate.model.exit_code import exit_code
from patchgate.model.files import write_atomically
from patchgate.model.paths import GOLDEN, ROOT
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Case, Observation, Verdict
from patchgate.model.serialization import from_dict, to_dict
from patchgate.report.causes import HEADLINES, is_change
from patchgate.report.html.page_data import Page
from patchgate.report.html.page_file import render_html
from patchgate.runner.run_results import ComparedCase, RunResults
from patchgate.runner.run_settings import load_verdicts, runs_in

_STORED = Path(__file__).parent / "stored"


def title_of(name: str) -> str:
    """The first line that the run printed."""
    title: str = _read(name)["title"]
    return title


@cache
def _read(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((_STORED / f"{name}.json").read_text(encoding="utf-8"))
    return data


def load_run(name: str) -> RunResults:
    """The stored run of that name."""
    data = _read(name)
    verdicts = [from_dict(Verdict, one, where=name) for one in data["verdicts"]]
    for code, kind, check, torch, device, workload, item, count in data["green"]:
        case = Case(torch=torch, device=device, workload=workload)
        verdicts += [Verdict(code=code, kind=Kind(kind), check=check, case=case, item=item)] * count
    return RunResults(
        patch=_patch(name, data["title"]),
        torches=tuple(data["torches"]),
        verdicts=tuple(verdicts),
        compared=tuple(_compared(data)),
    )


def store_run(folder: Path, name: str) -> Path:
    """Keep the last run in `folder` under `name`: green verdicts are counted, but for what its
    first screen shows.
    """
    (run,), verdicts = runs_in(folder), load_verdicts(folder)
    patch = load_patch(Path(run.patch))
    kept = [
        v
        for v in verdicts
        if v.colour is not Colour.GREEN or v.item == "effects" or _is_headline(v)
    ]
    others = Counter(
        (v.code, v.kind.value, v.check, v.torch, v.case.device, v.case.workload, v.item)
        for v in verdicts
        if v not in kept
    )
    symptom = patch.claims.symptom
    shown = {v.case.name for v in kept if _is_headline(v)} | (
        {f"{symptom.workload}.{symptom.device}"} if symptom else set()
    )
    data = {
        "title": " ".join(filter(None, (patch.id, patch.claims.title, patch.claims.source))),
        "torches": list(run.torches),
        "verdicts": [to_dict(_anywhere(v)) for v in kept],
        "green": [[*place, count] for place, count in sorted(others.items())],
        "observations": [
            to_dict(replace(one, artifacts={})) for one in run.store if one.case.name in shown
        ],
    }
    path = _STORED / f"{name}.json"
    write_atomically(path, json.dumps(data, indent=1) + "\n")
    return path


def _is_headline(verdict: Verdict) -> bool:
    return verdict.fact in HEADLINES and is_change(verdict)


def _anywhere(verdict: Verdict) -> Verdict:
    """Without the places of this machine in its commands."""
    own = ("--row", "--problem", "--folder")
    commands = [
        replace(each, arguments=tuple(word for word in each.arguments if not word.startswith(own)))
        for each in verdict.commands
    ]
    return replace(verdict, commands=tuple(commands))


def _patch(name: str, title: str) -> Patch:
    folder = ROOT / "fixtures" / "patches" / name
    if folder.is_dir():
        return load_patch(folder)
    return Patch(id=name, path=f"{name}.py", source="", claims=Claims(title=title))


def _compared(data: Mapping[str, Any]) -> Iterator[ComparedCase]:
    observed = [
        from_dict(Observation, one, where="observations") for one in data.get("observations", ())
    ]
    unpatched = {(o.case.torch, o.case.name): o for o in observed if o.case.patch is None}
    for patched in (o for o in observed if o.case.patch is not None):
        case = patched.case
        golden = load_golden(case.workload, case.device, GOLDEN)
        unpatched_case = Case(torch=case.torch, device=case.device, workload=case.workload)
        yield ComparedCase(
            case=case,
            golden=expectation(golden, case),
            golden_unpatched=expectation(golden, unpatched_case),
            unpatched=unpatched[case.torch, case.name],
            patched=patched,
            code=None,
            on="simulated",
        )


def write_page(path: Path, results: RunResults, at: str = "2026-11-22 17:37 UTC") -> Path:
    """The HTML report of a run, as `patchgate gate` writes it."""
    page = Page()
    page.add(results)
    text = render_html(results.patch.id, page, at=at, code=exit_code(list(results.verdicts)))
    path.write_text(text, encoding="utf-8")
    return path
