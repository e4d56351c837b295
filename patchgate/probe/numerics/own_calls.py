"""Calls of functions and modules for which torch has no samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch

from patchgate.probe.numerics.derived_samples import Call

_IMAGE, _ROWS = (2, 4, 6, 6), (4, 6)
# Class -> its arguments, and the shapes of the tensors that it is called with.
_CALLS: dict[str, list[tuple[tuple[Any, ...], dict[str, Any], tuple[tuple[int, ...], ...]]]] = {
    "ChannelShuffle": [((2,), {}, (_IMAGE,))],
    "CosineSimilarity": [((), {}, (_ROWS, _ROWS)), ((0,), {"eps": 0.5}, (_ROWS, _ROWS))],
    "CrossMapLRN2d": [((2,), {}, (_IMAGE,))],
    "Flatten": [((), {}, (_IMAGE,)), ((0, -2), {}, (_IMAGE,))],
    "Fold": [(((4, 5), (2, 2)), {}, ((2, 8, 12),))],
    "Hardsigmoid": [((), {}, (_ROWS,))],
    "PairwiseDistance": [((), {}, (_ROWS, _ROWS)), ((1.0,), {"keepdim": True}, (_ROWS, _ROWS))],
    "PixelShuffle": [((2,), {}, (_IMAGE,))],
    "PixelUnshuffle": [((2,), {}, (_IMAGE,))],
    "TripletMarginLoss": [((), {}, (_ROWS,) * 3), ((0.5,), {"swap": True}, (_ROWS,) * 3)],
    "Unflatten": [((1, (2, 2)), {}, (_IMAGE,))],
    "Unfold": [((2,), {}, (_IMAGE,)), (((2, 3),), {"padding": 1, "stride": 2}, (_IMAGE,))],
    "Upsample": [
        ((), {"scale_factor": 2}, (_IMAGE,)),
        (((4, 5),), {"mode": "bilinear", "align_corners": True}, (_IMAGE,)),
        ((), {"scale_factor": 1.6, "mode": "bilinear"}, (_IMAGE,)),
    ],
    "UpsamplingBilinear2d": [((), {"scale_factor": 2}, (_IMAGE,))],
    "UpsamplingNearest2d": [(((4, 5),), {}, (_IMAGE,))],
}


def own_calls(name: str, seed: int) -> list[Call]:
    """Calls of a function without samples in torch; empty if the function is neither known here
    nor in `torch.nn.functional`.
    """
    made = torch.Generator().manual_seed(seed)
    noise = partial(torch.randn, generator=made)
    flat_grid, deep_grid = noise(2, 2, 3), noise(1, 3, 4)
    known: dict[str, list[Call]] = {
        "nn.functional.affine_grid": [
            ((flat_grid, [2, 3, 4, 5]), {"align_corners": False}),
            ((flat_grid, [2, 1, 3, 2]), {"align_corners": True}),
            ((deep_grid, [1, 2, 3, 4, 5]), {"align_corners": False}),
        ],
        "nn.functional.fold": [
            ((noise(2, 8, 12), (4, 5), (2, 2)), {}),
            ((noise(2, 8, 6), (4, 6), 2), {"stride": 2}),
            ((noise(8, 12), (4, 6), (2, 2)), {"stride": (2, 2), "padding": (1, 1)}),
        ],
        **_quantisations(noise(4, 6)),
        **_recurrences(noise),
        **_prims(noise(4, 6)),
    }
    is_of_tensors = name.startswith("nn.functional.")
    return known.get(name) or [((noise(4, 6),), {}), ((noise(2, 3, 4),), {})] * is_of_tensors


def _quantisations(values: torch.Tensor) -> dict[str, list[Call]]:
    """Calls of fake quantisation, with values halfway between two steps and beyond the limits."""
    halves = torch.arange(-12.0, 12.0).view(4, 6) / 4
    scales, zeros = torch.rand(6) + 0.5, torch.arange(6, dtype=torch.int32)
    limits = ((0.5, 3, 0, 15), (0.5, 0, -8, 7), (0.25, -1, -8, 7))
    of_tensors = [(each, *how) for each in (values, values * 9, halves) for how in limits]
    by_channel = [(each, scales, zeros, 1, 0, 9) for each in (values * 9, halves)]
    name = "fake_quantize_per_{}_affine"
    return {
        f"{space}{name.format(kind)}{end}": [(args, {}) for args in calls]
        for kind, calls in (("tensor", of_tensors), ("channel", by_channel))
        for space, end in (("", ""), ("ops.aten.", "_cachemask.default"))
    }


def _recurrences(noise: Callable[..., torch.Tensor]) -> dict[str, list[Call]]:
    """Calls of recurrent layers, in one and in both directions, and of their cells."""
    found: dict[str, list[Call]] = {}
    for kind, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
        weights = [noise(gates * 5, 6), noise(gates * 5, 5), noise(gates * 5), noise(gates * 5)]
        calls: list[Call] = []
        for twice in (False, True):
            state = noise(1 + twice, 2, 5)
            before: Any = [state, state.cos()] if kind == "lstm" else state
            how = (True, 1, 0.0, True, twice, False)
            calls.append(((noise(3, 2, 6), before, weights * (1 + twice), *how), {}))
        row = noise(2, 5)
        row_before: Any = [row, row.cos()] if kind == "lstm" else row
        cell: list[Call] = [((noise(2, 6), row_before, *weights), {})]
        found |= {kind: calls, f"ops.aten.{kind}.input": calls}
        found |= {f"{kind}_cell": cell, f"ops.aten.{kind}_cell.default": cell}
    return found


def _prims(values: torch.Tensor) -> dict[str, list[Call]]:
    """Calls of operators that Inductor lowers. No function of torch has their names."""
    dtypes = (torch.float64, torch.bfloat16, torch.int32, torch.bool)
    return {
        "ops.prims.convert_element_type.default": [((values * 3, dtype), {}) for dtype in dtypes],
        "ops.prims.fma.default": [((values, values.cos(), values.flip(0)), {})],
        "ops.prims.rev.default": [((values, dims), {}) for dims in ([0], [1], [0, 1])],
    }


@dataclass(frozen=True)
class OwnModule:
    """The samples of a module, in fields named as in torch's `ModuleInfo`."""

    module_cls: Any
    name: str
    module_inputs_func: Any


def own_modules() -> list[OwnModule]:
    """The modules for which torch has no samples, with a few calls of each."""
    made: dict[str, Any] = {name: partial(_of_floats, calls) for name, calls in _CALLS.items()}
    made["EmbeddingBag"] = _bags
    return [OwnModule(getattr(torch.nn, name), f"nn.{name}", each) for name, each in made.items()]


def _of_floats(calls: Any, info: OwnModule, **how: Any) -> list[Any]:
    tensor = partial(torch.randn, dtype=how["dtype"], requires_grad=how["requires_grad"])
    return [
        _sample(args, kwargs, tuple(tensor(shape) for shape in shapes))
        for args, kwargs, shapes in calls
    ]


def _bags(info: OwnModule, **how: Any) -> Iterator[Any]:
    places = torch.randint(0, 5, (4, 3))
    places[0, 1] = 1  # the row of the padding, if there is any
    weights = torch.rand(4, 3, dtype=how["dtype"])
    for mode in ("mean", "sum", "max"):
        yield _sample((5, 6), {"mode": mode}, (places,))
        yield _sample((5, 6), {"mode": mode, "padding_idx": 1}, (places,))
        yield _sample((5, 6), {"mode": mode}, (places.flatten(), torch.tensor([0, 2, 2, 9])))
    yield _sample((5, 6), {"mode": "sum"}, (places, None, weights))


def _sample(args: tuple[Any, ...], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
    return SimpleNamespace(
        constructor_input=SimpleNamespace(args=args, kwargs=kwargs),
        forward_input=SimpleNamespace(args=given, kwargs={}),
    )
