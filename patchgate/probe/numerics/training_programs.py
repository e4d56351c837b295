"""Small programs of functions for training: clipping and optimizers, checkpoints, autocast, state
of modules, functional calls. Other programs are for the library around operators, for keys of
caches, and for Python code that is compiled.

A replaced function is judged by the programs that call it. Programs are separated by empty lines
and read inputs by name, as fragments of models do.
"""

from __future__ import annotations

import cProfile
import inspect
import itertools
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from patchgate.probe.numerics.cache_key_programs import CACHE_KEY_PROGRAMS
from patchgate.probe.numerics.compiler_programs import compiling, program_texts
from patchgate.probe.numerics.library_programs import library_programs
from patchgate.probe.numerics.model_fragments import fragments, written_programs
from patchgate.probe.numerics.pass_programs import Program, function_of
from patchgate.probe.numerics.polyfill_programs import is_polyfill, polyfill_texts
from patchgate.probe.patch.snapshot import resolve

# These programs are run in eager mode and compiled, with gradients.
_COMPILED = """
f = torch.utils.checkpoint.checkpoint
return f(lambda x: (x @ m).relu(), a, use_reentrant=False) * 2

f = torch.utils.checkpoint.checkpoint
return f(lambda x, y: (x @ m).sin() + y, a, b, use_reentrant=False, preserve_rng_state=False)

f = torch.utils.checkpoint.checkpoint_sequential
return f([torch.sin, torch.cos, torch.nn.functional.relu], 2, a, use_reentrant=False)

f = torch.distributed.algorithms._checkpoint.checkpoint_wrapper.checkpoint_wrapper
return f(torch.nn.SiLU())(a) * 2, f(torch.nn.GELU(approximate="tanh"))(b)

with torch.amp.autocast("cpu", dtype=torch.bfloat16):
    return torch.nn.functional.linear(a, m), (a @ m).softmax(-1), a + b, (a @ m).sum()

with torch.amp.autocast("cpu", dtype=torch.bfloat16):
    x = a @ m
    with torch.amp.autocast("cpu", enabled=False):
        y = x.float() @ m
return x, y, torch.nn.functional.mse_loss(x, y)

return torch.func.vmap(lambda x: (x * v).sum())(a), torch.func.vmap(torch.dot, (0, None))(a, v)

return torch.func.grad(lambda x: (x @ m).sin().sum())(a)

with torch.no_grad():
    x = a @ m
return x + a, (x * b).detach() + a
"""
_EAGER = """
p = [torch.nn.Parameter(a.clone()), torch.nn.Parameter(v.bfloat16()), torch.nn.Parameter(m.clone())]
for each, grad in zip(p, (b, w, n)):
    each.grad = grad.to(each.dtype) * 3
return torch.nn.utils.clip_grad_norm_(p, 0.7), *(each.grad for each in p)

p = [torch.nn.Parameter(a.clone()), torch.nn.Parameter(m.clone()), torch.nn.Parameter(v.clone())]
for each, grad in zip(p, (b, n)):
    each.grad = grad.clone() * 3
x = torch.nn.utils.clip_grad_norm_(iter(p), 0.5, float("inf"), foreach=False)
y = torch.nn.utils.clip_grad_norm_(p[:2], 0.2, "inf")
return x, y, torch.nn.utils.clip_grad_norm_(p[:2], 0.1, 1), p[0].grad, p[1].grad

p = [torch.nn.Parameter(a.clone()), torch.nn.Parameter(m.clone())]
for each, grad in zip(p, (b, n)):
    each.grad = grad.clone()
x = torch.nn.utils.get_total_norm([each.grad for each in p], 2.0)
torch.nn.utils.clip_grads_with_norm_(p, 0.3, x)
torch.nn.utils.clip_grad_value_(p[1:], 0.1)
return x, p[0].grad, p[1].grad

return (torch.nn.utils.clip_grad_norm_(torch.nn.Parameter(a.clone()), 1.0),
    torch.nn.utils.parameters_to_vector([a, m])
)

layers = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Dropout(0.25))
found = []
with torch.random.fork_rng():
    for reentrant in (False, True):
        x = a.clone().requires_grad_()
        y = torch.utils.checkpoint.checkpoint(layers, x, use_reentrant=reentrant)
        torch.rand(2)
        y.sum().backward()
        found.append(x * x.grad - y)
return [each.detach() for each in found]

f = torch.nn.utils.fuse_conv_bn_weights
x = f(m.view(6, 6, 1), v, center, spread, 0.1, w, v)
y = f(m.view(6, 6, 1), w, center, spread, 0.1, v, None, transpose=True)
return *x, *y, *torch.nn.utils.fuse_linear_bn_weights(m, None, center, spread, 0.1, w, v)

p = torch.nn.Parameter(a.clone())
o = torch.optim.SGD([p], lr=1.0)
s = torch.optim.lr_scheduler
found = []
for each in (s.StepLR(o, 2, 0.5), s.CosineAnnealingLR(o, 4), s.LinearLR(o, 0.3, total_iters=3),
    s.OneCycleLR(o, 0.4, total_steps=9)
):
    for _ in range(4):
        o.step()
        each.step()
        found.append(torch.tensor(each.get_last_lr()))
return found

scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
p = torch.nn.Parameter(a.clone())
o = torch.optim.SGD([p], lr=0.1)
scaler.scale((p @ m).sum()).backward()
scaler.unscale_(o)
scaler.step(o)
scaler.update()
return p, p.grad, torch.tensor(scaler.get_scale())

layer = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6))
state = {"0.weight": m, "0.bias": v, "1.weight": w, "1.bias": v, "1.running_mean": center,
    "1.running_var": spread, "1.num_batches_tracked": torch.tensor(3)}
layer.load_state_dict(state, assign=True)
x = torch.compile(layer, backend="eager")
x.load_state_dict({f"_orig_mod.{key}": value for key, value in state.items()}, strict=True,
    assign=True
)
return layer.eval()(a), *layer.state_dict().values(), *x.state_dict(prefix="y.").values()

layer = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh(), torch.nn.Linear(6, 6))
layer[2].weight = layer[0].weight
o = torch.optim.SGD(layer.parameters(), lr=0.1)
layer.load_state_dict({"0.weight": m, "0.bias": v, "2.weight": m, "2.bias": w})
layer(a).sum().backward()
o.step()
return *layer.state_dict().values(), layer(b)

layer = torch.nn.Linear(6, 6)
o = torch.optim.SGD(layer.parameters(), lr=0.1)
layer.load_state_dict({"weight": m.double(), "bias": v.half()})
x = layer(a)
layer.double()(a.double()).sum().backward()
o.step()
return x, *layer.state_dict().values()

p = [torch.nn.Parameter(a.clone()), torch.nn.Parameter(a.clone())]
o = [torch.optim.AdamW([each], lr=0.1) for each in p]
for each, x in zip(p, o):
    o[1].load_state_dict(o[0].state_dict())
    for step in (1, 2):
        (each @ m * step).sin().sum().backward()
        x.step()
return *p, *(each for one in o[1].state.values() for each in one.values())

layer = torch.nn.Linear(6, 6)
layer.load_state_dict({"weight": m}, strict=False)
x = torch.func.functional_call(layer, {"weight": n, "bias": v}, (a,))
layer.bias = None
y = layer.to(torch.float64)(a.double())
return x, y, layer.requires_grad_(False).weight, sum(each.numel() for each in layer.parameters())

layer = torch.nn.Linear(6, 6)
layer.load_state_dict({"weight": m, "bias": v})
x = torch.nn.utils.parametrizations.weight_norm(layer, dim=1)
y = layer(a), *layer.state_dict().values()
torch.nn.utils.parametrize.remove_parametrizations(layer, "weight")
return *y, layer.weight, torch.nn.utils.fuse_linear_bn_weights(m, v, center, spread, 0.1, w, v)

class Own(torch.nn.Linear):
    moved = False
    def _apply(self, *args, **kwargs):
        self.moved = True
        return super()._apply(*args, **kwargs)
layer = torch.nn.Sequential(Own(6, 6), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 6))
layer.load_state_dict({"0.weight": m, "0.bias": v, "2.weight": n, "2.bias": w}, strict=False)
layer[2].weight = layer[0].weight
layer(a).square().sum().backward()
found = []
for dtype in (torch.float16, torch.float64, torch.bfloat16, torch.float32):
    layer[0].moved = False
    x = layer.to(dtype)
    y = layer[0].moved, x is layer, layer[2].weight is layer[0].weight
    found += [torch.tensor(y), *(each.clone() for each in layer.state_dict().values())]
    found += [each.grad.clone() for each in layer.parameters()]
return found

s = torch.nn.utils.rnn
x = s.pack_padded_sequence(q[0], [3, 2], batch_first=True, enforce_sorted=False)
return x.data, *s.pad_packed_sequence(x, batch_first=True, padding_value=2.0), s.pad_sequence(
    [a, b[:2]], True, 1.5
)

class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        return x * 2 + y
    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0], None
x = a.clone().requires_grad_()
y = Double.apply(x, b)
return y, *torch.autograd.grad(y.sum(), x), torch.autograd.functional.jacobian(torch.sin, v)

x = a.t(), b[1:, ::2], p, i, torch.nn.Parameter(m), torch.nn.Parameter(v, False)
y = [sent(each) for each in x]
return *y, torch.tensor([(z.requires_grad, type(z) is type(each)) for z, each in zip(y, x)])

return torch.tensor([device_after_sending(each) for each in (0, 1)])

p = [torch.nn.Parameter(x.clone()) for x in (a.bfloat16(), m.bfloat16(), v.double())]
found = []
for kind in (torch.optim.AdamW, torch.optim.Adamax, torch.optim.NAdam, torch.optim.RMSprop):
    o = kind(p, lr=0.1)
    for last in (3.0, 300.0):
        state = o.state_dict()
        for each in state["state"].values():
            each["step"] = torch.tensor(last)
        o.load_state_dict(state)
        o.zero_grad()
        sum(x.double().sin().sum() for x in p).backward()
        o.step()
    found += [x for one in o.state.values() for x in one.values()]
return *p, *found

normed = torch.nn.Sequential(torch.nn.Dropout(0.0), torch.nn.BatchNorm1d(6))
layer = torch.nn.Sequential(torch.nn.Linear(6, 6), normed, torch.nn.Linear(6, 6))
layer.load_state_dict(dict.fromkeys(("0.weight", "2.weight"), m), strict=False)
modes, trained = [], []
for part, mode in ((layer[1], False), (layer, True), (layer[2], True), (layer, False),
    (normed[0], True), (layer, False), (normed, True), (layer, True), (normed[1], False)):
    part.train(mode)
    part.requires_grad_(mode)
    modes.append([each.training for each in layer.modules()])
    trained.append([each.requires_grad for each in layer.parameters()])
layer.zero_grad()
return normed(a), torch.tensor(modes), torch.tensor(trained)
"""
# Steps of one optimizer with each of its options. The parameters have two dtypes. In each step some
# of them have no gradient, or a gradient of zeros.
_STEPS = """
import inspect, itertools
known = inspect.signature(torch.optim.KIND).parameters
alone = {"amsgrad": True, "maximize": True, "weight_decay": 0.1, "momentum": 0.9, "centered": True,
    "dampening": 0.2, "nesterov": True, "decoupled_weight_decay": True, "betas": (0.8, 0.9)}
alone = {key: value for key, value in alone.items() if key in known}
pairs = map(dict, itertools.combinations(alone.items(), 2))
settings = [{}, {"foreach": True}, {"fused": True}, {"lr": torch.tensor(0.05), "foreach": False},
    *({key: value} for key, value in alone.items()), *pairs, alone,
    {key: value for key, value in alone.items() if key != "dampening"}]
found, last = [], b if "KIND" == "Muon" else v  # which takes matrices alone
for each in settings:
    p = [torch.nn.Parameter(x.clone()) for x in (a, m, n.double(), last, m.double())]
    groups = [{"params": p[:3]}, {"params": p[3:], "lr": 0.02}]
    try:
        o = torch.optim.KIND(groups, **{"lr": 0.1, **each})
    except (TypeError, ValueError, RuntimeError):
        continue
    for step in range(1, 5):
        o.zero_grad(set_to_none=step != 3)
        sum((x * step).sin().sum() for at, x in enumerate(p) if (at + step) % 3).backward()
        o.step()
    found += [*p, *(x for one in o.state.values() for x in one.values())]
return found
"""
# These programs draw random numbers. Their results are smooth, so that slopes can be measured.
_DRAWN = """
f = torch.nn.functional
x = a + f.dropout(f.layer_norm(a, (6,), v, w).sin(), 0.25)
return x * v + f.dropout(f.gelu(x @ m), 0.4)

x = (q @ k.mT * 0.3).softmax(-1)
return torch.nn.functional.dropout(x, 0.25) @ u

x = torch.where(torch.rand_like(a) > 0.3, a.sin(), a * 0.5)
return x + a.exp() * torch.randn_like(a), torch.bernoulli(torch.full_like(b, 0.6)) * b.cos()
"""
# Fragments of models that are trained, for names that act on the graphs of forward and backward.
_TRAINED = 20
# These optimizers need gradients of another kind, or a loss that they call.
_OTHER_OPTIMIZERS = {"Optimizer", "SparseAdam", "LBFGS"}


def training_programs(
    names: Sequence[str], generator: torch.Generator
) -> Iterator[tuple[Program, bool]]:
    """Programs that call one of the named functions. Each comes with True if it is compiled as well
    as run in eager mode, or with False if it is only run in eager mode.
    """
    wanted = _wanted(names)
    kinds = [name for name, kind in vars(torch.optim).items() if isinstance(kind, type)]
    steps = (_STEPS.replace("KIND", name) for name in kinds if name not in _OTHER_OPTIMIZERS)
    of_library = library_programs(with_distributions=any(".distributions." in n for n in names))
    eager = "\n".join([_EAGER, *steps, of_library])
    for text, is_compiled in ((_COMPILED, True), (eager, False)):
        for program in written_programs(text, generator, trained=is_compiled):
            if wanted and _calls(program, wanted):
                yield program, is_compiled


def compiler_programs(names: Sequence[str], generator: torch.Generator) -> list[Program]:
    """Programs that compile functions by themselves and run one of the named functions, or one for
    which a polyfill is named.
    """
    others = [*itertools.filterfalse(is_polyfill, names)]
    wanted = _wanted(others)
    programs = written_programs(program_texts(others), generator, trained=False)
    called = (each for each in programs if wanted and _calls(each, wanted))
    return [*_of_polyfills(filter(is_polyfill, names), generator), *called]


def _of_polyfills(names: Iterable[str], generator: torch.Generator) -> list[Program]:
    """Programs that call the functions of the named polyfills."""
    seed = generator.initial_seed()
    texts = [text for name in names for text in polyfill_texts(name, seed)]
    if not texts:
        return []
    return [*written_programs(compiling("eager", texts), generator, trained=False)]


def cache_key_programs(names: Iterable[str], generator: torch.Generator) -> list[Program]:
    """Programs of two functions that share a cache. Only programs that call one of the named
    functions are taken, or all programs if an option is named, since an option has no code.
    """
    wanted = _wanted(names)
    programs = written_programs(CACHE_KEY_PROGRAMS, generator, trained=False)
    has_option = any(name.endswith("_cache_config_ignore_prefix") for name in names)
    return [each for each in programs if has_option or _calls(each, wanted)]


def drawing_programs(generator: torch.Generator) -> list[Program]:
    """Programs that draw random numbers, whose tensors have a gradient."""
    return [*written_programs(_DRAWN, generator, trained=True)][1::2]


def trained_programs(generator: torch.Generator) -> list[Program]:
    """The first programs of models whose tensors have a gradient."""
    return [*itertools.islice(fragments(generator), 1, 2 * _TRAINED, 2)]


def _wanted(names: Iterable[str]) -> list[types.CodeType]:
    """The code of the named functions. A table or a function of C++ has no code, so the code of
    functions that name it is taken instead.
    """
    objects = (name.partition("[")[0] for name in names)
    return [code for name in objects for code in _codes(_named(name)) or _readers(name)]


def _readers(path: str) -> list[types.CodeType]:
    """The code of functions that name an object, and of their callers, since such a function may
    keep the object that it has read. Only modules of the object's package are searched.
    """
    module, _, name = path.rpartition(".")
    package = module.rpartition(".")[0]
    within = package if "." in package else module
    codes = [
        code
        for known, owner in [*sys.modules.items()]
        if known.startswith(within) and isinstance(owner, types.ModuleType)
        for value in [*vars(owner).values()]
        if isinstance(value, type) or hasattr(value, "__wrapped__") or inspect.isfunction(value)
        for code in _codes(value)
    ]
    direct = [code for code in codes if name in code.co_names]
    names = {code.co_name for code in direct}
    return [*direct, *(code for code in codes if not names.isdisjoint(code.co_names))]


def _named(name: str) -> Any:
    """The object of this name, or None."""
    try:
        return resolve(name)
    except LookupError:
        return None


def _codes(found: Any, within: tuple[type, ...] = ()) -> list[types.CodeType]:
    """The code of a function, or of all methods of a class. A class may contain itself."""
    if isinstance(found, type):
        if any(found is each for each in within):
            return []
        within = (*within, found)
        return [code for value in vars(found).values() for code in _codes(value, within)]
    found = getattr(found, "__func__", found)
    code = getattr(inspect.unwrap(found) if callable(found) else found, "__code__", None)
    return [code] if isinstance(code, types.CodeType) else []


def _calls(program: Program, wanted: Sequence[types.CodeType]) -> bool:
    """True if the program runs to its end and calls one of the functions with this code."""
    text, inputs = program
    function, profile = function_of(text), cProfile.Profile(builtins=False)
    try:
        profile.runcall(function, *(tensor.clone() for tensor in inputs))
    except Exception:
        return False
    # Compared by identity, because code that Dynamo makes holds constants without a hash.
    ran = {id(each.code) for each in profile.getstats()}
    return any(id(code) in ran for code in wanted)
