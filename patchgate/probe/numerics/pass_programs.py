"""Small programs for passes over graphs: forms that passes often match.

A program is text, so that a failing one can be printed and run. Eager mode shows which steps fit
the shapes.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

from patchgate.probe.numerics.model_fragments import fragments
from patchgate.probe.simulate.sent_tensors import OF_SENDING

# Steps on one value `x`, or on two: `y` often has a shape that fits. Passes often go wrong at an
# end of -1, at dimensions of one element, and at arguments that are left out.
_SLICES = (
    "x[:-1]",
    "x[1:]",
    "x[..., :-1]",
    "x[:, 1:3]",
    "x[::2]",
    "x[0]",
    "x[:x.shape[0]]",
    "x.narrow(-1, 0, 1)",
)
_VIEWS = (
    *(
        "x.reshape(-1)",
        "x.view(x.shape)",
        "x.unsqueeze(0)",
        "x.squeeze()",
        "x.transpose(0, -1)",
        "x.flatten(1)",
    ),
    *(
        "x.unsqueeze(1).expand(-1, 3, *x.shape[1:])",
        "x.clone()",
        "x.transpose(0, 1).contiguous()",
        "x.flip(0)",
    ),
)
_REDUCTIONS = (
    *(
        "x.sum()",
        "x.mean()",
        "x.amax()",
        "x.amin()",
        "x.sum(-1)",
        "x.mean(-1, keepdim=True)",
        "x.amax(0)",
    ),
    *(
        "x[:1].sum(0)",
        "x[..., :1].mean(-1)",
        "x[:1].amax(0, keepdim=True)",
        "x.sum(0, keepdim=True)",
        "x.argmax(-1)",
    ),
    *("x.var(-1)", "x.softmax(-1)", "x.cumsum(0)", "x.sum((0, 1))", "x[:1, :1].sum()"),
    *("x.sum(0).sum(0)", "x.mean(-1).amax(0)", "x.sum(-1, keepdim=True).sum(0)"),
)
_POINTWISE = (
    *(
        "x + y",
        "x - y",
        "x * 1",
        "x + 0",
        "x / 2",
        "2 - x",
        "x.relu()",
        "x.sigmoid()",
        "x.tanh() * x",
        "x * x",
    ),
    *(
        "torch.add(x, y, alpha=2)",
        "torch.where(x > 0, x, y)",
        "x.to(torch.float64).to(torch.float32)",
        "x.neg()",
    ),
    *(
        "x.masked_fill(x > 0, 1.5)",
        "torch.nn.functional.gelu(x)",
        "torch.nn.functional.silu(x) * y",
        "x.exp().log()",
    ),
    *(
        "x.to(torch.float32)",
        "x.clamp(-0.5, 0.5)",
        "x.rsqrt()",
    ),
)
_OTHER_DTYPES = (
    *(
        "(x * 4).to(torch.int64) * 1.0",
        "(x > 0) * 1",
        "(x * 4).to(torch.int32) / 1",
        "x.to(torch.float16) * 1.0",
    ),
    *(
        "(x > 0) + 0",
        "(x * 4).to(torch.int64) + 0.0",
        "x.to(torch.bfloat16) * y",
        "(x > 0).sum(0)",
        "x.double() * 1",
    ),
)
_IN_PLACE = (
    *(
        "x.clone().add_(1)",
        "x.clone().mul_(y)",
        "x.clone().relu_()[0]",
        "torch.zeros_like(x).copy_(x) + x",
    ),
    *(
        "torch.cat([x.clone()[:1].zero_(), x])",
        "x.new_zeros(x.shape).scatter_(0, x.argmax(0, keepdim=True), 1.0)",
    ),
)
_PRODUCTS = (
    *(
        "x @ y.transpose(-1, -2)",
        "torch.nn.functional.linear(x, y)",
        "torch.nn.functional.layer_norm(x, x.shape[-1:])",
    ),
    *(
        "torch.addmm(x @ x.T, x, x.T, beta=0.5, alpha=2)",
        "torch.bmm(x[None], x.T[None])",
        "torch.mm(x, x.T) + x[:, 0]",
    ),
    *("torch.addmm(x[:, 0], x, x.T, beta=2)", "torch.addmm(x[:, 0], x, x.T, alpha=3)"),
    "torch.baddbmm(x[None, :, :1], x[None], x.T[None], beta=2, alpha=0.5)",
)
_JOINED = (
    *(
        "torch.cat([x, y])",
        "torch.cat([x, y], -1)",
        "torch.stack([x, y])",
        "x.split(1)[0]",
        "x.chunk(2, -1)[-1]",
    ),
    *(
        "torch.nn.functional.pad(x, (1, 1))",
        "torch.cat([x[:1], x[1:]])",
        "torch.nn.functional.pad(x, (1, -1))",
    ),
    *("torch.nn.functional.pad(x, (0, 0, -1, 1))", "torch.nn.functional.pad(x, (0, 0))"),
)
_KINDS = (_SLICES, _REDUCTIONS, _POINTWISE, _OTHER_DTYPES, _IN_PLACE, _VIEWS, _PRODUCTS, _JOINED)
# The kinds take turns, so that some steps of each kind are run even if not all are.
_STEPS = tuple(step for turn in itertools.zip_longest(*_KINDS) for step in turn if step)
_SHAPES = ((4, 6), (4, 6), (1, 6))
_OTHER_SHAPES = ((3, 5), (3, 5), (1, 5))
#: The text of a program and its inputs.
Program = tuple[str, tuple[torch.Tensor, ...]]


def as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without compiling it."""
    return function


def function_of(
    source: str, compiled: Callable[[Any], Callable[..., Any]] = as_it_is
) -> Callable[..., Any]:
    """The function `program` that the text defines; the text may compile what it calls."""
    made: dict[str, Any] = {"torch": torch, "operator": operator, "compiled": compiled}
    made |= {function.__name__: function for function in OF_SENDING}
    exec(compile(source, "<program>", "exec"), made)  # the text is ours
    function: Callable[..., Any] = made["program"]
    return function


def programs(seed: int) -> Iterator[Program]:
    """Texts of programs and their inputs: each step alone, in turn with fragments of models."""
    generator = torch.Generator().manual_seed(seed)
    alone = [_written(step, _inputs(generator)) for step in _STEPS]
    further = itertools.zip_longest(itertools.chain(*alone), fragments(generator))
    yield from (program for turn in further for program in turn if program)


def resized_programs(seed: int) -> dict[str, list[Program]]:
    """Sizes -> the same texts with inputs of these sizes. If a pass keeps something of the first
    graph, it is wrong for the next graph, which has the same text.
    """
    generator = torch.Generator().manual_seed(seed)
    return {
        f"sizes {shapes[0]}": [
            program
            for step in (*_REDUCTIONS, *_SLICES)
            for program in _written(step, _inputs(generator, shapes))
        ]
        for shapes in (_SHAPES, _OTHER_SHAPES)
    }


def _inputs(
    generator: torch.Generator, shapes: tuple[tuple[int, int], ...] = _SHAPES
) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


def _written(step: str, inputs: tuple[torch.Tensor, ...]) -> Iterator[Program]:
    """The program of a step; none if the step does not fit the inputs."""
    x, y, _ = inputs
    with contextlib.suppress(RuntimeError, IndexError, TypeError), torch.no_grad():
        eval(step, {"torch": torch, "x": x, "y": y})  # the text is ours
        named = re.sub(r"\bx\b", "a", re.sub(r"\by\b", "b", step))
        yield f"def program(a, b, c):\n    v0 = {named}\n    return v0\n", inputs
