"""Writes docs/what-inductor-changed.md from golden: what each torch release did to the workloads.

Only the facts of `FACTS` are shown; all others are in golden itself. With `--check` it only says
whether the page is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from patchgate.inputs.golden import expectation, golden_path, read_golden
from patchgate.inputs.matrix import load_matrix
from patchgate.inputs.workloads import OPTIONS, load_workloads
from patchgate.model.facts import UNPATCHED, format_value
from patchgate.model.files import write_atomically
from patchgate.model.paths import ROOT
from patchgate.model.records import Case, Facts, FactValue

PAGE = ROOT / "docs" / "what-inductor-changed.md"
DEVICE = "h200"
FACTS = {
    "dynamo.graphs": "graphs",
    "aten.ops": "ATen ops",
    "aot.saved_tensors": "tensors saved for backward",
    "lowering.ir_nodes": "IR nodes",
    "kernels.called": "kernels called",
    "loads": "loads of each kernel",
    "bytes.total": "bytes moved",
    "memory.peak": "peak memory",
}
HEAD = f"""# What Inductor changed

Made from `golden/` by `python docs/what_inductor_changed.py`; do not edit. Facts of every workload
on the simulated `{DEVICE}`, torch's own, without any patch. A row is a fact that moved; `=` means
as in the release before. Last come the options and modes that torch.compile knows.
"""


def page() -> str:
    releases = [row.torch for row in load_matrix()]
    lines, still = [], []
    for name in load_workloads():
        section = read_golden(golden_path(name, DEVICE), name, DEVICE)
        if not section.sections.get(UNPATCHED):
            continue
        recorded = [
            expectation(section, Case(torch=torch, device=DEVICE, workload=name)).facts
            for torch in releases
        ]
        moved = {fact: [facts.get(fact) for facts in recorded] for fact in FACTS}
        rows = [
            f"| {FACTS[fact]} | {_cells(values)} |"
            for fact, values in moved.items()
            if len(_distinct(values)) > 1
        ]
        if rows:
            lines += [
                "",
                f"## {name}",
                "",
                f"| | {' | '.join(releases)} |",
                "|---" * (len(releases) + 1) + "|",
                *rows,
            ]
        else:
            still.append(name)
    lines += ["", "## Nothing moved", "", ", ".join(still) or "none", *_options(releases)]
    return HEAD + "\n".join(lines) + "\n"


def _options(releases: Sequence[str]) -> list[str]:
    """Compare what each release lets torch.compile's caller choose, and list modes with the options
    that they set.
    """
    golden = read_golden(golden_path(OPTIONS.name, "cpu"), OPTIONS.name, "cpu")
    recorded = [
        expectation(golden, Case(torch=torch, device="cpu", workload=OPTIONS.name)).facts
        for torch in releases
    ]
    lines = [
        "",
        "## Options and modes of torch.compile",
        "",
        "| | new | gone | of modes |",
        "|---|---|---|---|",
    ]
    for torch, (before, after) in zip(releases[1:], pairwise(recorded), strict=True):
        new, gone = (_listed(facts, other) for facts, other in ((after, before), (before, after)))
        lines.append(f"| {torch} | {new} | {gone} | {_modes(before, after)} |")
    return lines


def _listed(facts: Facts, other: Facts) -> str:
    names = (
        name.removeprefix("options.listed.") for name in facts if name.startswith("options.listed.")
    )
    return ", ".join(f"`{name}`" for name in names if f"options.listed.{name}" not in other) or "-"


def _modes(before: Facts, after: Facts) -> str:
    names = sorted(name for name in {*before, *after} if name.startswith("options.mode."))
    moved = [name for name in names if before.get(name) != after.get(name)]
    return (
        ", ".join(f"`{n[13:]}`: {_shown(before.get(n))} -> {_shown(after.get(n))}" for n in moved)
        or "-"
    )


def _distinct(values: list[FactValue | None]) -> set[str]:
    return {_shown(value) for value in values}


def _cells(values: list[FactValue | None]) -> str:
    texts = [_shown(value) for value in values]
    return " | ".join(
        "=" if index and text == texts[index - 1] else text for index, text in enumerate(texts)
    )


def _shown(value: FactValue | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else format_value(value).strip("[]")


def main(arguments: list[str]) -> int:
    now = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    if "--check" in arguments:
        return 0 if now == page() else 1
    write_atomically(PAGE, page())
    print(f"wrote {Path(PAGE).relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
