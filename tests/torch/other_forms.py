"""Run by the Python of a torch row: the text on results of another dtype, shape or layout, or that
share memory; a program whose numbers are drawn, and one whose middle values are read again; the
text of an error of a C++ compiler; backends that keep weights; as JSON.
"""

import functools
import json
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor.exc import CppCompileError

from patchgate.probe.numerics.middle_values import with_readers
from patchgate.probe.numerics.operator_samples import program_of
from patchgate.probe.numerics.pass_programs import function_of
from patchgate.probe.numerics.sample_calls import Sample
from patchgate.probe.numerics.sample_compiles import error_text
from patchgate.probe.numerics.sample_differences import (
    NEXT_TO_ZERO,
    STEPS,
    _hard_to_read,
    _is_folded,
    _needs_a_device,
    departure,
    grown,
    layouts,
    shared_memory,
)
from patchgate.probe.numerics.weight_programs import weight_programs
from patchgate.probe.protocol import NEEDS_DEVICE

ONE, HALF = torch.ones(2), torch.ones(2, dtype=torch.float16)
MANY = torch.arange(-4.0, 5.0)
TEXT = "def program(a, b):\n    return a.mean(), a[b]\n"
IMAGES = torch.ones(2, 3, 4, 5)
IN_CHANNELS = IMAGES.contiguous(memory_format=torch.channels_last)
INPUTS = (torch.rand(300).requires_grad_(), torch.tensor([2, 0]))
CHAIN = "def program(a):\n    x = a.exp()\n    return x.sin(), torch.relu(x + a)\n"
WRITES = "def program(a):\n    x = a.exp()\n    x.add_(1)\n    return x.sin()\n"


def shared(one: list[torch.Tensor], given: list[torch.Tensor]) -> str:
    """The text on results that share memory, next to copies of them."""
    results = [
        {"output": each, "input": given, "shared": [shared_memory(each, given)]}
        for each in (one, [tensor.clone() for tensor in one])
    ]
    assert not departure(*results[::-1])["what"]  # copies do no harm
    return str(departure(*results)["what"])


def laid_out(after: torch.Tensor, before: torch.Tensor, *, of_layout: bool = True) -> str:
    """The text on equal results that are stored in two ways."""
    results = [{"output": [each], "layout": [layouts([each])]} for each in (after, before)]
    return str(departure(*results, of_layout=of_layout)["what"])


def follows_weights(keeps: Callable[[torch.Tensor], bool]) -> bool:
    """The result of the program that changes one weight at a time, with a backend that keeps some
    of its first inputs.
    """

    def backend(graph: Any, first: list[torch.Tensor]) -> Callable[..., Any]:
        kept = [each.detach().clone() if keeps(each) else None for each in first]
        return lambda *args: graph(
            *(b if a is None else a for a, b in zip(kept, args, strict=True))
        )

    programs = weight_programs(torch.Generator().manual_seed(0))
    text, inputs = next(each for each in programs if "follows" in each[0])
    compiler = functools.partial(torch.compile, backend=backend)
    return bool(function_of(text, compiler)(*inputs))


def raised_for(device: str) -> Exception:
    """The error for random numbers of a device without a registered module."""
    try:
        with torch.random.fork_rng(device_type=device):
            raise AssertionError
    except RuntimeError as error:
        return error


def what(after: list[torch.Tensor], before: list[torch.Tensor]) -> str:
    return str(departure({"output": after}, {"output": before})["what"])


def found(sample: str, after: list[float], before: list[float], program: str) -> dict[str, Any]:
    away = departure({"output": [torch.tensor(after)]}, {"output": [torch.tensor(before)]})
    return {"sample": sample, "program": program, **away}


ORDERED = [
    found("large", [3e30], [1.0], "aaa"),
    found("new_empty", [2.0], [1.0], "aa"),
    found("garbage", [94406142381936], [5], "a"),
    found("NaN", [float("nan")], [5.0], "aa"),
    found("integers", [3], [5], "a"),
    found("rounded", [1.0002], [1.0], "a"),
    found("no program", [2.0], [1.0], ""),
    found("long", [2.0], [1.0], "aaa"),
    found("short", [2.0], [1.0], "a"),
]


def forms(program: str) -> list[str]:
    """The forms of the results of a program that is written down, run twice with equal ones."""
    names: dict[str, Any] = {"torch": torch}
    exec(program, names)
    once, again = ([*names["call"](names["given"]())] for _ in range(2))
    assert all(map(torch.equal, once, again))
    return [f"{each.dtype}{list(each.shape)}" for each in once]


sample = Sample(TEXT, INPUTS, {})
drawn = program_of(sample, is_drawn=True)
print(
    json.dumps(
        {
            "alone": what([HALF], [ONE]),
            "one of three": what([ONE, HALF, ONE], [ONE, ONE, ONE]),
            "fewer": what([ONE], [ONE, ONE]),
            "digits": what([ONE.double() * (1 + 1e-7)], [ONE.double()]),
            "order": [each["sample"] for each in sorted(ORDERED, key=_hard_to_read)],
            "grown": [
                grown([(1, own), *[(0, 0)] * 3], [(1, own), (0, 0), *steps], STEPS["sizes"]).get(
                    "step", ""
                )
                for own in (1, 0)
                for steps in ([(1, 0), (0, own)], [(2, 0), (0, 0)], [(1, 0), (1, 0)], [(0, 3)])
            ],
            # A branch for small sizes is compiled once, and not for each size.
            "grown for fewer": [
                grown([(1, 0), (0, 0)] * 3, [*[(1, 0), (0, 0)] * 2, *steps], STEPS["sizes"]).get(
                    "step", ""
                )
                for steps in ([(2, 0), (0, 0)], [(1, 0), (1, 0)], [(2, 0), (1, 0)], [(3, 0)])
            ],
            "grown elsewhere": [
                grown([(2, 1)], [after], STEPS["programs"]).get("of", "")
                for after in ((2, 1), (3, 1), (2, 2), (1, 0), "an error")
            ],
            "numbers": grown(
                [(1, 0), (0, 0), (1, 0), (0, 0)],
                [(1, 0), (0, 0), (1, 0), (1, 0)],
                STEPS["numbers"],
            ).get("step", ""),
            "folded": [
                _is_folded(how, {"is_shared": is_shared})
                for how in (NEXT_TO_ZERO, "with NaN")
                for is_shared in (True, False)
            ],
            "near": [
                departure({"output": [ONE * factor]}, {"output": [ONE]})["is_near"]
                for factor in (1.0001, 2.0, float("nan"))
            ],
            "gross": [
                departure({"output": [after]}, {"output": [MANY]})["is_gross"]
                for after in (MANY.flip(0), MANY * 1.4, MANY * torch.inf, MANY)
            ],
            "small": [
                departure(*({"output": [ONE * each]} for each in pair), is_small=is_small)["excess"]
                > 1
                for pair in ((2e-8, 1e-8), (1.001e-8, 1e-8))
                for is_small in (True, False)
            ],
            "shared": [
                shared([MANY[:4], MANY[3:]], []),
                shared([ONE, MANY[1:]], [HALF, MANY[:2]]),
                shared([MANY[::2], MANY[1::2]], [MANY[:0]]),
            ],
            "layouts": [
                laid_out(IMAGES, IN_CHANNELS),
                laid_out(IN_CHANNELS, IMAGES),
                laid_out(IMAGES.mT.contiguous().mT, IN_CHANNELS),
                laid_out(IMAGES[:, :1].clone(), IN_CHANNELS[:, :1].clone()),
                laid_out(IMAGES, IN_CHANNELS, of_layout=False),
            ],
            "middle": [text for text, _ in with_readers([(CHAIN, (MANY,)), (CHAIN, (MANY,))])],
            "without": [*with_readers([(WRITES, (MANY,)), (TEXT, INPUTS)])],
            "outputs of a graph": departure(
                {"output": [ONE, HALF]}, {"output": [ONE, HALF]}, {"output": [ONE]}
            )["excess"],
            "needs a device": [
                _needs_a_device(each)
                for each in (f"{NEEDS_DEVICE}: hpu", error_text(raised_for("hpu")), {})
            ],
            "of a compiler": error_text(
                CppCompileError(["c++"], "k.cpp:3:7: error: no x here\nk.cpp:9:1: error: no y")
            ),
            "follows": [
                follows_weights(keeps)
                for keeps in (
                    lambda each: False,
                    lambda each: each.shape != (2, 4, 6, 6),  # the image
                    lambda each: each.dim() == 1,
                )
            ],
            "drawn": forms(drawn) == forms(program_of(sample)),
            "length": len(drawn),
            "values": len(program_of(sample)),
        }
    )
)
