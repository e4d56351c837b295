"""Formulas that passes over graphs look for, each with its own numbers and with one number changed.
A changed formula is another function, which a pass must not take for the formula that it knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch

from patchgate.probe.numerics.pass_programs import Program

# One formula a line; the numbers that define it are in braces.
_FORMULAS = """
a * (a + {3.0}).clamp({0.0}, {6.0}) / {6.0}
a * ((a + {3.0}).clamp({0.0}, {6.0}) / {6.0})
a * (torch.nn.functional.relu6(a + {3.0}) / {6.0})
a * torch.nn.functional.hardtanh(a + {3.0}, {0.0}, {6.0}) * {0.16666667}
(a / {6.0} + {0.5}).clamp({0.0}, {1.0})
a * {0.5} * (torch.erf(a * {0.7071067811865476}) + {1.0})
{0.5} * a * (torch.tanh({0.7978845608028654} * (a + {0.044715} * a**3)) + {1.0})
{0.5} * a * (torch.tanh((a + a * a * a * {0.044715}) * {0.7978845608028654}) + {1.0})
a * torch.sigmoid(a * {1.702})
a * torch.sigmoid(a) * {1.0}
a / (torch.exp(-a) + {1.0})
a * torch.tanh(torch.nn.functional.softplus(a, {1.0}, {20.0}))
torch.log(torch.exp(a) + {1.0})
torch.where(a > {0.0}, a, a * {0.01})
torch.where(a > {0.0}, a, (torch.exp(a) - {1.0}) * {1.0})
torch.maximum(a, a * {0.2})
a.sum(-1) / {6.0}
a.sum((0, 1)) / {24.0}
a.sum(0, keepdim=True) * {0.25}
a.sum() / a.numel() * {1.0}
(a * a).sum(-1, keepdim=True) / {6.0}
a * torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + {0.5})
(a - a.mean(-1, keepdim=True)) / torch.sqrt(a.var(-1, keepdim=True, correction=0) + {0.5})
torch.exp(a) / torch.exp(a).sum(-1, keepdim=True) * {1.0}
torch.exp(a - a.amax(-1, keepdim=True)) / torch.exp(a - a.amax(-1, keepdim=True)).sum(-1)[:, None]
torch.log(torch.exp(a).sum(-1)) + {0.0}
a / torch.sqrt((a * a).sum(-1, keepdim=True) + {0.5})
"""
_NUMBER = re.compile(r"\{(.+?)\}")
# The factor of a changed number, and the value that replaces a zero.
_FACTOR, _AS_ZERO = 1.25, 0.25


def formula_programs(generator: torch.Generator) -> Iterator[Program]:
    """Texts of programs and their inputs: one program for each formula."""
    for formula in _FORMULAS.strip().splitlines():
        numbers = [float(number) for number in _NUMBER.findall(formula)]
        form = _NUMBER.sub("{}", formula)
        results = [form.format(*numbers)]
        for at, number in enumerate(numbers):
            other = number * _FACTOR or _AS_ZERO
            results.append(form.format(*numbers[:at], other, *numbers[at + 1 :]))
        # The inputs exceed the bounds of formulas that clamp.
        inputs = torch.randn(4, 6, generator=generator) * 4
        yield f"def program(a):\n    return {', '.join(results)}\n", (inputs,)
