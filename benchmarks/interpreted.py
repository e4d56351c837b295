"""How far Triton's interpreter computes what a real GPU computes, workload by workload.

`PYTHONPATH=. PYTHON benchmarks/interpreted.py [WORKLOAD...]`, with the Python of a torch
environment and a GPU: both compile each workload at its small scale, with the same weights and
inputs. Prints the share of elements whose bits are equal, the largest difference in ulps, and the
errors of both against float64.
"""

from __future__ import annotations

import copy
import importlib
import runpy
import sys
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from patchgate.probe.compile.capture import no_caches
from patchgate.probe.interpret.generated import interpreting_backend
from patchgate.probe.numerics.numeric_metrics import distance, share_differing, ulps
from patchgate.probe.numerics.outputs import as_float64, tensors

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
PROFILE = "h200"


def main(names: list[str]) -> None:
    tomllib = importlib.import_module("tomllib")  # of Python 3.11
    profile = tomllib.loads((FIXTURES / "devices" / f"{PROFILE}.toml").read_text("utf-8"))
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    print("workload | elements | equal bits | ulps | error on the GPU | error interpreted | faults")
    for path in sorted((FIXTURES / "workloads").glob("*.py")):
        if not names or path.stem in names:
            try:
                print(
                    " | ".join([path.stem, *_row(runpy.run_path(str(path)), profile)]), flush=True
                )
            except Exception as error:
                print(f"{path.stem} | {type(error).__name__}: {error}".splitlines()[0], flush=True)


def _row(workload: dict[str, Any], profile: dict[str, Any]) -> list[str]:
    torch.manual_seed(0)
    module, args = workload["build"](
        torch.device("cpu"), getattr(torch, workload["DTYPE"]), "small"
    )
    exact, exact_args = (
        as_float64(copy.deepcopy(module)),
        pytree.tree_map(as_float64, copy.deepcopy(args)),
    )
    faults: dict[Any, Any] = {}
    with torch.no_grad(), no_caches():
        truth = tensors(exact(*exact_args))
        run = torch.compile(
            copy.deepcopy(module), dynamic=False, backend=interpreting_backend(profile, faults)
        )
        interpreted = tensors(run(*copy.deepcopy(args)))
        torch._dynamo.reset()
        on_gpu = copy.deepcopy(module).cuda() if isinstance(module, torch.nn.Module) else module
        given = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.cuda(), args)
        real = tensors(torch.compile(on_gpu, dynamic=False)(*given))
    equal = 1 - share_differing(real, interpreted)
    errors = [f"{distance(outputs, truth):.3g}" for outputs in (real, interpreted)]
    elements = sum(tensor.numel() for tensor in real)
    return [
        str(elements),
        f"{equal:.1%}",
        f"{ulps(interpreted, real):.3g}",
        *errors,
        str(len(faults)),
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
