"""Small programs that compile a module with a backend and call it again with other weights: written
in place, loaded, replaced, or those of another module of the class.

Programs are separated by empty lines and read inputs by name, as fragments of models do.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from patchgate.probe.numerics.model_fragments import written_programs
from patchgate.probe.numerics.random_programs import Program

# The modules are in training: a backend for inference only may keep whatever it likes.
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
    """Texts of programs and their inputs; they compile a module with `compiled`."""
    yield from written_programs(_PROGRAMS, generator, trained=False)
