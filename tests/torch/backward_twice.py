"""Run by the Python of a torch row: one model's forward and backward graphs by both autograd
engines, as JSON.
"""

import contextlib
import json

import torch
import torch.nn.functional as F
from torch._functorch.aot_autograd import aot_function, make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition

from patchgate.probe.simulate.backward import backward_in_python

HIDDEN, WORDS = 64, 100


class Scaled(torch.autograd.Function):
    """An argument that is no tensor before one that is, a tensor without gradient, and an output
    that nobody uses.
    """

    @staticmethod
    def forward(ctx, factor, x, still, y, asks_for_none):
        ctx.factor = factor
        if asks_for_none:
            ctx.set_materialize_grads(False)
        return x * factor, y * still

    @staticmethod
    def backward(ctx, first, second):
        return None, first * ctx.factor, None, first + (0 if second is None else second), None


def model(x, up, down, bias, words, tokens, norm):
    """Every way in which gradients meet: broadcast, views, ties, a shared weight, a tensor used
    thrice.
    """
    first, second = (F.rms_norm(x, (HIDDEN,), norm) @ up).chunk(2, -1)
    x = x + (F.silu(first) * second) @ down + bias + F.embedding(tokens, words)
    q = x.view(4, 4, 2, 32).transpose(1, 2)
    for asks_for_none in (False, True):
        x, _ = Scaled.apply(1.5, x, x.detach(), x * 2, asks_for_none)
    mixed = F.softmax(q @ q.transpose(-1, -2) / 3.0, -1) @ q
    z = F.layer_norm(x + mixed.transpose(1, 2).reshape(4, 4, HIDDEN), (HIDDEN,), norm)
    return F.cross_entropy((z @ words.t()).view(-1, WORDS), tokens.view(-1)), z.half(), x.detach()


def graphs(engine):
    found = {}

    def keep(name):
        def compiler(module, inputs):
            found[name] = module.code
            return make_boxed_func(module.forward)

        return compiler

    torch.manual_seed(0)
    shapes = [(4, 4, HIDDEN), (HIDDEN, 256), (128, HIDDEN), (HIDDEN,), (WORDS, HIDDEN)]
    leaves = [torch.randn(shape, requires_grad=True) for shape in shapes]
    tokens, norm = torch.randint(0, WORDS, (4, 4)), torch.ones(HIDDEN, requires_grad=True)
    with engine:
        compiled = aot_function(
            model,
            keep("forward"),
            keep("backward"),
            partition_fn=min_cut_rematerialization_partition,
        )
        loss, z, _ = compiled(*leaves, tokens, norm)
    (loss + z.sum()).backward()
    return found


print(json.dumps([graphs(contextlib.nullcontext()), graphs(backward_in_python())]))
