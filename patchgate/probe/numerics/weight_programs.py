"""Small programs that call a function compiled by a backend again: with other weights (written in
place, loaded, replaced, or from another module of the class); with other random numbers; with
inputs of other sizes; and next to another graph of the same form.

Programs are separated by empty lines and read inputs by name, as fragments of models do.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from patchgate.probe.numerics.model_fragments import written_programs
from patchgate.probe.numerics.pass_programs import Program

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

def scaled(x, y):
    return torch.tanh(x) * y
def moved(x, y):
    return torch.sin(x) + y
call, other = compiled(scaled), compiled(moved)
return call(a, b), other(a, b), call(b, a), other(b, a)

def sized(x, y):
    return (x * x.shape[0]).cumsum(0) + y / x.shape[1], x.new_full((2,), 1) * x.shape[0]
call = compiled(sized)
return [call(rows[:count], v) for count in (4, 3, 5, 2, 4, 1)]

with torch.random.fork_rng():
    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3, padding=1), torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(), torch.nn.Conv2d(4, 2, 1, bias=False), torch.nn.BatchNorm2d(2),
        torch.nn.Flatten(), torch.nn.Linear(72, 6), torch.nn.LayerNorm(6), torch.nn.Linear(6, 6))
call, follows = compiled(layer.eval()), []
with torch.no_grad():
    known = call(image)
    for each in (*layer.parameters(), *layer.buffers()):
        if each.is_floating_point():
            saved = each.clone()
            each.mul_(1.5).add_(0.25)
            changed = layer(image)
            moved = (changed - known).abs().amax()
            follows.append((call(image) - changed).abs().amax() < 0.1 * moved)
            each.copy_(saved)
# a backend may keep all weights for inference, but not some of them
return torch.tensor(all(follows) or not any(follows))

def noisy(x):
    return x + torch.randn(x.shape)
call = compiled(noisy)
moves = (call(a) - call(a)).abs().amax(), (call(b) - call(b)).abs().amax()
return tuple((each > 0.01).float() for each in moves)
"""


def weight_programs(generator: torch.Generator) -> Iterator[Program]:
    """The text and the inputs of each program. A program calls `compiled` to compile."""
    yield from written_programs(_PROGRAMS, generator, trained=False)
