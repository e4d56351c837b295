"""How far Triton's interpreter computes what a real GPU computes, kernel by kernel.

`PYTHON benchmarks/interpreted.py record FOLDER PART [I/N]`, with the Python of a torch environment
and without a GPU, interprets the kernels of a part, or of each N-th of its items from I on:
`workloads`, `operations` or `samples` of torch's operators. What each kernel was given, and what it
gave, goes to a file in the folder. `replay FILE...`, on a machine with the GPU, gives the same
kernels the same memory and prints a line of JSON for each. `table FILE...` makes tables of these.

`blocks [WORKLOAD...]`, as `record`, compares each workload in large blocks with the same in the
blocks that Inductor chooses, and prints a row of a table.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import json
import math
import runpy
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch._inductor.config as inductor_config
import torch.nn.functional as F
from torch._inductor.async_compile import AsyncCompile
from torch.utils import _pytree as pytree
from torch.utils._mode_utils import no_dispatch

from patchgate.probe.compile.capture import no_caches
from patchgate.probe.interpret import interpreting_backend
from patchgate.probe.numerics import operator_samples, sample_calls
from patchgate.probe.numerics.numeric_metrics import distance, share_differing, ulps
from patchgate.probe.numerics.outputs import as_float64, reproducible, tensors

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
PROFILE = "h200"
DTYPES = ("float32", "bfloat16", "float16")
# Samples of each operator, and the elements of an input of an operation.
_SAMPLES, _ELEMENTS = 10, 1 << 16
# Name -> the operation, which is compiled alone.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "exp": torch.exp,
    "log": lambda x, y, z: torch.log(x.abs()),
    "rsqrt": lambda x, y, z: torch.rsqrt(x.abs()),
    "sqrt": lambda x, y, z: torch.sqrt(x.abs()),
    "reciprocal": torch.reciprocal,
    "division": torch.div,
    "a * b + c": lambda x, y, z: x * y + z,
    "erf": torch.erf,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "gelu": F.gelu,
    "sin": torch.sin,
    "cos": torch.cos,
    "pow": lambda x, y, z: torch.pow(x.abs(), y),
    "to bfloat16": lambda x, y, z: x.to(torch.bfloat16),
    "to float16": lambda x, y, z: x.to(torch.float16),
    "to float8_e4m3fn": lambda x, y, z: x.to(torch.float8_e4m3fn),
    "maximum": torch.maximum,
    "sum of 64": lambda x, y, z: x.view(-1, 64).sum(-1),
    "sum of 4096": lambda x, y, z: x.view(-1, 4096).sum(-1),
    "softmax of 64": lambda x, y, z: x.view(-1, 64).softmax(-1),
    "variance of 64": lambda x, y, z: x.view(-1, 64).var(-1),
    "cumsum of 64": lambda x, y, z: x.view(-1, 64).cumsum(-1),
    "dropout": lambda x, y, z: F.dropout(x, 0.5),
}
_ARGUMENTS = {"division": 2, "maximum": 2}


@contextlib.contextmanager
def recorded_launches() -> Iterator[list[dict[str, Any]]]:
    """Within it, the first launch of each kernel is kept: its source, and its arguments before and
    after it.
    """
    launches: list[dict[str, Any]] = []
    known: dict[Any, tuple[str, str]] = {}
    make, run = interpreting_backend._Kernels.triton, interpreting_backend._Kernel.run

    def make_recorded(self: Any, name: str, source: str, *args: Any, **kwargs: Any) -> Any:
        kernel = make(self, name, source, *args, **kwargs)
        known[kernel] = name, source
        return kernel

    def run_recorded(self: Any, *args: Any, **kwargs: Any) -> None:
        name, source = known[self]
        if any(launch["source"] == source for launch in launches):
            return run(self, *args, **kwargs)
        with no_dispatch():
            before = _detached(args)
        run(self, *args, **kwargs)
        with no_dispatch():
            after = _detached(args)
        launches.append({"kernel": name, "source": source, "before": before, "after": after})
        return None

    with (
        mock.patch.object(interpreting_backend._Kernels, "triton", make_recorded),
        mock.patch.object(interpreting_backend._Kernel, "run", run_recorded),
    ):
        yield launches


def _detached(args: Sequence[Any]) -> list[Any]:
    """A copy; tensors that share memory share it in the copy too."""
    return copy.deepcopy([arg.detach() if torch.is_tensor(arg) else arg for arg in args])


def _profile() -> dict[str, Any]:
    tomllib = importlib.import_module("tomllib")  # of Python 3.11
    profile: dict[str, Any] = tomllib.loads(
        (FIXTURES / "devices" / f"{PROFILE}.toml").read_text("utf-8")
    )
    return profile


def record(folder: Path, part: str, first: int, step: int) -> None:
    """Write a file for each item of the part."""
    profile = _profile()
    items = {"workloads": _workloads, "operations": _operations, "samples": _samples}[part]()
    folder.mkdir(parents=True, exist_ok=True)
    for number, (item, run) in enumerate(items):
        if number % step != first:
            continue
        faults: dict[Any, Any] = {}
        written: dict[str, Any] = {"part": part, "item": item, "error": ""}
        torch._dynamo.reset()
        backend = interpreting_backend.interpreting_backend(profile, faults)
        with recorded_launches() as launches, reproducible(profile):
            try:
                written |= run(backend)
            except Exception as error:
                written["error"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        written |= {"launches": launches, "faults": [*faults.values()]}
        torch.save(written, folder / f"{part}-{number:04}.pt")


def _workloads() -> Iterator[tuple[str, Callable[[Any], dict[str, Any]]]]:
    """Each workload at its small scale, in each dtype."""
    for path in sorted((FIXTURES / "workloads").glob("*.py")):
        for dtype in DTYPES:
            yield f"{path.stem} {dtype}", partial(_run_workload, path, dtype)


def _run_workload(path: Path, dtype: str, backend: Any) -> dict[str, Any]:
    module, args = _build(path, dtype)
    wide, wide_args = (
        as_float64(copy.deepcopy(module)),
        pytree.tree_map(as_float64, copy.deepcopy(args)),
    )
    truth = tensors(wide(*wide_args))
    outputs = tensors(torch.compile(module, dynamic=False, backend=backend)(*args))
    return {"path": str(path), "dtype": dtype, "outputs": outputs, "truth": truth}


def _build(path: Path, dtype: str) -> tuple[Any, tuple[Any, ...]]:
    torch.manual_seed(0)
    built: tuple[Any, tuple[Any, ...]] = runpy.run_path(str(path))["build"](
        torch.device("cpu"), getattr(torch, dtype), "small"
    )
    return built


def _operations() -> Iterator[tuple[str, Callable[[Any], dict[str, Any]]]]:
    for name, operation in OPERATIONS.items():
        for dtype in DTYPES:
            torch.manual_seed(0)
            given = [torch.randn(_ELEMENTS).mul(4).to(getattr(torch, dtype)) for _ in range(3)]
            count = 3 if operation.__name__ == "<lambda>" else _ARGUMENTS.get(name, 1)

            yield f"{name} {dtype}", partial(_run_operation, operation, given[:count])


def _run_operation(
    operation: Callable[..., Any], args: Sequence[torch.Tensor], backend: Any
) -> dict[str, Any]:
    torch.compile(lambda *args: operation(*args), dynamic=False, backend=backend)(*args)
    return {}


def _samples() -> Iterator[tuple[str, Callable[[Any], dict[str, Any]]]]:
    """The first samples of each operator of torch, compiled together, or alone where one raises."""
    for op in sample_calls.op_db():
        name = f"{op.name}/{op.variant_test_name}".rstrip("/")
        yield name, partial(_run_samples, op)


def _run_samples(op: Any, backend: Any) -> dict[str, Any]:
    found = [each for each in sample_calls.samples_of(op) if not each.first][:_SAMPLES]
    torch.set_grad_enabled(True)
    samples, *_ = operator_samples.steady(found, len(found))
    try:
        operator_samples.run_compiled(samples, backend)
        return {"samples": len(samples), "failed": []}
    except Exception:
        failed = []
    for sample in samples:
        try:
            operator_samples.run_compiled([sample], backend)
        except Exception as error:
            failed.append(f"{type(error).__name__}: {error}".splitlines()[0][:200])
    return {"samples": len(samples), "failed": failed}


def replay(paths: Sequence[str]) -> None:
    """Print what a GPU makes of the same memory, kernel by kernel."""
    inductor_config.compile_threads = 1
    with no_caches():
        for path in paths:
            written = torch.load(path, weights_only=False)
            item = {name: written.get(name) for name in ("part", "item", "error", "failed")}
            faults = sorted({each["kind"] for each in written["faults"]})
            count = {"samples": written.get("samples"), "kernels": len(written["launches"])}
            print(json.dumps({**item, **count, "faults": faults}), flush=True)
            for launch in written["launches"]:
                row = {"part": item["part"], "item": item["item"], "kernel": launch["kernel"]}
                print(json.dumps(row | _tried(partial(_replayed, launch))), flush=True)
            if written.get("outputs"):
                row = {"part": "whole", "item": item["item"]}
                print(json.dumps(row | _tried(partial(_whole, written))), flush=True)


def _tried(compare: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return compare()
    except Exception as error:
        return {"not run": f"{type(error).__name__}: {error}".splitlines()[0][:200]}


def _replayed(launch: dict[str, Any]) -> dict[str, Any]:
    """Elements that the kernel wrote, the share of equal bits, and ulps by dtype."""
    kernel = AsyncCompile().triton(launch["kernel"], launch["source"], device_str="cuda")
    kernel = kernel.result() if hasattr(kernel, "result") else kernel
    storages: dict[int, torch.Tensor] = {}
    args = [_on_gpu(arg, storages) for arg in launch["before"]]
    kernel.run(*args, stream=torch._C._cuda_getCurrentRawStream(0))
    torch.cuda.synchronize()
    elements, equal = 0, 0
    worst: dict[str, float] = {}
    for before, here, there in zip(launch["before"], launch["after"], args, strict=True):
        if torch.is_tensor(before) and before.numel():
            was, ours, theirs = (_whole_storage(tensor) for tensor in (before, here, there))
            written = _differs(was, ours) | _differs(was, theirs)
            ours, theirs = ours[written], theirs[written]
            elements += ours.numel()
            equal += int((~_differs(ours, theirs)).sum())
            name = str(before.dtype).removeprefix("torch.")
            worst[name] = max(worst.get(name, 0.0), ulps([ours], [theirs]))
    return {"elements": elements, "equal": equal, "ulps": worst}


def _on_gpu(arg: Any, storages: dict[int, torch.Tensor]) -> Any:
    if not torch.is_tensor(arg):
        return arg
    storage = arg.untyped_storage()
    if storage.data_ptr() not in storages:
        storages[storage.data_ptr()] = torch.empty(0, dtype=torch.uint8).set_(storage).cuda()
    moved = storages[storage.data_ptr()].untyped_storage()
    place = arg.storage_offset(), arg.size(), arg.stride()
    return torch.empty(0, dtype=arg.dtype, device="cuda").set_(moved, *place)


def _whole_storage(tensor: torch.Tensor) -> torch.Tensor:
    """All elements of the memory that the tensor lies in, on the CPU."""
    storage = tensor.untyped_storage()
    count = storage.nbytes() // tensor.element_size()
    whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return whole.set_(storage, 0, (count,), (1,)).cpu()


def _differs(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """The elements whose bits differ."""
    if not left.numel():
        return torch.zeros(0, dtype=torch.bool)
    bits = [each.view(torch.uint8).view(each.numel(), -1) for each in (left, right)]
    return (bits[0] != bits[1]).any(dim=1)


def _whole(written: dict[str, Any]) -> dict[str, Any]:
    """The workload on the GPU, with its matrix products and convolutions."""
    module, args = _build(Path(written["path"]), written["dtype"])
    module = module.cuda() if isinstance(module, torch.nn.Module) else module
    given = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.cuda(), args)
    torch._dynamo.reset()
    with torch.no_grad():
        real = tensors(torch.compile(module, dynamic=False)(*given))
    interpreted, truth = written["outputs"], written["truth"]
    return {
        "elements": sum(tensor.numel() for tensor in real),
        "equal": round(
            (1 - share_differing(real, interpreted)) * sum(tensor.numel() for tensor in real)
        ),
        "ulps": {written["dtype"]: ulps(interpreted, real)},
        "error": [distance(outputs, truth) for outputs in (real, interpreted)],
    }


def table(paths: Sequence[str]) -> Iterator[str]:
    """Tables of replayed kernels: by part and dtype, and by item."""
    rows = [json.loads(line) for path in paths for line in Path(path).read_text().splitlines()]
    for part in ("workloads", "operations", "samples", "whole"):
        compared = [row for row in rows if row["part"] == part and "elements" in row]
        items = [row for row in rows if row["part"] == part and "kernels" in row]
        lost = [row for row in rows if row["part"] == part and "not run" in row]
        yield f"{part}: {len(items)} items, {len(compared)} compared, {len(lost)} not"
        for row in items:
            for reason in filter(None, [row["error"], *(row["failed"] or [])]):
                yield f"  not interpreted: {row['item']}: {reason}"
        yield from (f"  not replayed: {row['item']}: {row['not run']}" for row in lost)
        yield from ("| item | kernels | elements | equal in bits | largest ulps |",)
        yield from ("| --- | --- | --- | --- | --- |",)
        by_item: dict[str, list[dict[str, Any]]] = {"all": compared}
        for row in compared:
            by_item.setdefault(row["item"], []).append(row)
        yield from (_table_row(item, of_item) for item, of_item in by_item.items())


def _table_row(item: str, rows: Sequence[dict[str, Any]]) -> str:
    elements, equal = (sum(row[name] for row in rows) for name in ("elements", "equal"))
    worst: dict[str, float] = {}
    for dtype, off in (pair for row in rows for pair in row["ulps"].items()):
        worst[dtype] = max(worst.get(dtype, 0.0), off)
    largest = ", ".join(f"{dtype} {off:.3g}" for dtype, off in sorted(worst.items()) if off)
    share = f"{equal / elements:.4%}" if elements else ""
    return f"| {item} | {len(rows)} | {elements} | {share} | {largest or 0} |"


def blocks(names: Sequence[str]) -> Iterator[str]:
    """A row for each workload and dtype: its launches and programs, and how its outputs differ."""
    profile = _profile()
    yield "| workload | launches | programs | differ | ulps | seconds, large and own |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for item, run in _workloads():
        if names and item.split()[0] not in names:
            continue
        outputs, seconds = [], []
        own: dict[str, list[str]] = {}
        for launches in (None, own):
            torch._dynamo.reset()
            begin = time.process_time()
            with reproducible(profile):
                outputs.append(
                    run(interpreting_backend.interpreting_backend(profile, {}, launches))["outputs"]
                )
            seconds.append(f"{time.process_time() - begin:.1f}")
        grids = [launch.partition(" programs")[0] for each in own.values() for launch in each]
        programs = sum(math.prod(map(int, grid.split(" x "))) for grid in grids)
        figures = f"{share_differing(*outputs):.2%} | {ulps(*outputs):.3g} | {', '.join(seconds)}"
        yield f"| {item} | {len(grids)} | {programs} | {figures} |"


def main(command: str, *args: str) -> None:
    if command == "record":
        first, step = (args[2] if len(args) > 2 else "0/1").split("/")
        record(Path(args[0]), args[1], int(first), int(step))
    elif command == "replay":
        replay(args)
    elif command == "blocks":
        for row in blocks(args):
            print(row, flush=True)
    else:
        print("\n".join(table(args)))


if __name__ == "__main__":
    main(*sys.argv[1:])
