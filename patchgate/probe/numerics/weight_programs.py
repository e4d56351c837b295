"""Small programs that compile a module with a backend and call it again with other weights: written
in place, loaded, replaced, and those of the next module of the same class.

They stand between empty lines and read inputs by their names, as fragments of models do.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from patchgate.probe.numerics.model_fragments import written_programs
from patchgate.probe.numerics.random_programs import Program

# Modules are called as they are trained: a backend for inference alone may keep what it likes.
_PROGRAMS = """
class Layer(torch.nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight = torch.nn.Parameter(weight.clone())
        self.register_buffer("bias", bias.clone())
    def forward(self, x):
        return torch.tanh(x @ (self.weight.t() * 0.5)) + self.bias.exp()
layer, other = Layer(m, v), Layer(n, w)
call, found = compiled(layer), []
o = torch.optim.SGD(layer.parameters(), lr=0.5)
for _ in range(2):
    found.append(call(a))
    found[-1].sum().backward()
    o.step()
layer.load_state_dict({"weight": n, "bias": v * 2})
found.append(call(a))
layer.weight.data, layer.bias = m * 3, w.clone()
return *found, call(a), compiled(other)(a), layer.weight.grad
"""


def weight_programs(generator: torch.Generator) -> Iterator[Program]:
    """Texts of programs and their inputs; `compiled` is what they compile a module with."""
    yield from written_programs(_PROGRAMS, generator, trained=False)
