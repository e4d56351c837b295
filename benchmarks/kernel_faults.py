"""Seeds faults that act in Triton's code alone: is the gate red, with the line of the kernel?

`python -m benchmarks.kernel_faults judge RESULTS --device h200 --torch 2.11.0` (where there is a
GPU, `--device cuda`; any options of `patchgate gate`) writes a patch for each fault, and one for a
sound edit of the same place, and judges each. `table RESULTS` prints what each device said.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WORKLOAD = ROOT / "tests" / "torch" / "interpreted" / "odd_sizes.py"
# The patch of a project that computes minima and maxima by a choice.
_PROJECT = ROOT / "fixtures" / "projects" / "quantization" / "quant" / "float8"
# Edits the text of every kernel for the GPU.
_EDIT = """import re
from torch._inductor.codegen.triton import TritonKernel

original = TritonKernel.codegen_kernel


def edited(self, *args, **kwargs):
    return re.sub({pattern!r}, {replacement!r}, original(self, *args, **kwargs))


TritonKernel.codegen_kernel = edited
"""
_MANIFEST = 'title = "Edits kernels"\nnumerics = "rounding"\n'
_NUMBERS = {"PG502", "PG505"}


@dataclass(frozen=True)
class Fault:
    """Two edits of one place in a kernel, one faulty and one sound; a judge gives the faulty one a
    code of `codes`.
    """

    pattern: str
    fault: str
    sound: str
    codes: set[str]

    def patch(self, *, faulty: bool) -> str:
        """The text of a patch with the fault, or with the sound edit."""
        return _EDIT.format(pattern=self.pattern, replacement=self.fault if faulty else self.sound)


class _OfProject(Fault):
    """A fault in a patch that replaces how Triton's code for an operation is written."""

    def patch(self, *, faulty: bool) -> str:
        text = (_PROJECT / "_inductor_patch.py").read_text("utf-8")
        text = text.replace(self.pattern, self.fault) if faulty else text
        return f"{text}\n\n_patch_inductor_min_max_codegen()\n"


FAULTS = {
    "loses NaN in a choice": _OfProject(" | ({a} != {a})", "", "", {"PG506"}),
    "loses NaN in a maximum": Fault(
        r"triton_helpers\.maximum\((\w+), (\w+)\)",
        r"tl.maximum(\1, \2)",
        r"tl.maximum(\1, \2, tl.PropagateNan.ALL)",
        {"PG506"},
    ),
    "mask too wide": Fault(
        r"(xmask = xindex) < xnumel", r"\1 <= xnumel", r"\1 <= xnumel - 1", {"PG516"}
    ),
    "no bounds check": Fault(
        r"(tl\.store\(.*), xmask\)",
        r"\1, None)",
        r"\1, xmask & (xindex < xnumel))",
        {"PG516"},
    ),
    "loads the next element": Fault(
        r"(tl\.load\(in_ptr0 \+ \()r0_1", r"\g<1>1 + r0_1", r"\g<1>0 + r0_1", {"PG516"}
    ),
    "another value beside the mask": Fault(
        r"(tl\.full\(tmp\d+\.shape, 0)\.0", r"\1.5", r"\1.00", _NUMBERS
    ),
    "sums in bfloat16": Fault(
        r"tl\.sum\((\w+), 1\)",
        r"tl.sum(\1.to(tl.bfloat16), 1)",
        r"tl.sum(\1.to(tl.float32), 1)",
        _NUMBERS,
    ),
    "no store": Fault(r"(\n +tl\.store\(.*)", "", r"\1\1", {"PG516"}),
    "sum that begins at 1": Fault(
        r"(tl\.where\(r0_mask & xmask, \w+), 0\)", r"\1, 1)", r"\1, 0.0)", _NUMBERS
    ),
    "two programs store to one place": Fault(
        r"(tl\.store\(out_ptr\d \+ \(x\d)\)", r"\1 // 2)", r"\1 // 1)", {"PG516"}
    ),
    "another stride in a store": Fault(
        r"(tl\.store\(out_ptr\d \+ \()(r0_1) \+ (\d+)\*x0\)",
        r"\1\2 + (\3 - 1)*x0)",
        r"\1\3*x0 + \2)",
        {"PG516"},
    ),
}


def write(folder: Path) -> None:
    """Make a folder for each patch, with the workload of odd sizes."""
    for name, fault in FAULTS.items():
        for faulty, suffix in ((True, ""), (False, "-sound")):
            patch = folder / f"{name.replace(' ', '-').lower()}{suffix}"
            (patch / "workloads").mkdir(parents=True, exist_ok=True)
            shutil.copy(WORKLOAD, patch / "workloads")
            (patch / "patch.py").write_text(fault.patch(faulty=faulty), "utf-8")
            (patch / "patch.toml").write_text(_MANIFEST, "utf-8")


def judge(results: Path, options: Sequence[str]) -> None:
    """Judge all patches by the gate, several at once; what it prints goes to files."""
    write(results / "patches")

    def gate(patch: Path) -> None:
        given = ("--workload", "odd_sizes", "--check", "parity", "--folder")
        asked = (str(patch), *given, str(results / patch.name), *options)
        command = (sys.executable, "-m", "patchgate", "gate", *asked)
        with (results / f"{patch.name}.txt").open("w", encoding="utf-8") as printed:
            subprocess.run(command, stdout=printed, stderr=printed, check=False)

    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 4)) as pool:
        list(pool.map(gate, sorted((results / "patches").iterdir())))


def table(results: Path) -> list[str]:
    """A row for each patch and release: what each device said, with the line of a kernel."""
    rows = ["| patch | torch | device | red | in the kernel |", "| --- | --- | --- | --- | --- |"]
    for path in sorted(results.glob("*/verdicts.json")):
        verdicts = [
            each
            for each in json.loads(path.read_text("utf-8"))["verdicts"]
            if each["check"] == "parity" and each["case"]["device"] != "cpu"
        ]
        places = sorted({(v["case"]["torch"], v["case"]["device"]) for v in verdicts})
        for place in places:
            of_place = [v for v in verdicts if (v["case"]["torch"], v["case"]["device"]) == place]
            rows.append(" | ".join([f"| {path.parent.name}", *place, *_judged(of_place)]) + " |")
    return rows


def _judged(verdicts: list[dict[str, Any]]) -> list[str]:
    red = [verdict for verdict in verdicts if verdict["kind"] == "regressed"]
    other = sorted({verdict["code"] for verdict in verdicts if verdict not in red} - {"PG503"})
    codes = sorted({verdict["code"] for verdict in red})
    lines = [
        verdict["actual"].rpartition("; ")[2].replace("|", "\\|")
        for verdict in red
        if "`" in verdict["actual"]
    ]
    return [", ".join(codes) or " ".join(["no", *other]), *(lines[:1] or [""])]


if __name__ == "__main__":
    if sys.argv[1] == "judge":
        judge(Path(sys.argv[2]), sys.argv[3:])
    else:
        print("\n".join(table(Path(sys.argv[2]))))
