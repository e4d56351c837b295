"""Programs that compile Python code of many kinds: code that Dynamo reads and guards, and code with
views, writes, gradients and functions of higher order, which AOTAutograd handles.

Each program compiles by itself, and Inductor makes no code. One program takes 10 ms to 1.4 s of
CPU, and all programs take 35 s (2.11.0, measured once).
"""

from __future__ import annotations

from collections.abc import Iterable

# Each program is compiled by Dynamo alone.
_PYTHON = """
@compiled
def f(x, scale=2.0, *more, shift=0.5, **others):
    for each in more:
        x = x + each
    return x * scale + shift + others.get("y", 0.0) - len(others)
return f(a), f(a, 3.0), f(a, 3.0, b, shift=1.0), f(a, y=b), f(*(a, 1.5, b, b), **{"z": 1.0})

@compiled
def f(x, items):
    items.append(x.sin())
    items.insert(0, x + 1)
    items.extend([x * 2, x * 3])
    last = items.pop()
    items.reverse()
    items[1:3] = [items[2], items[1]]
    del items[0]
    items += [last]
    return sum(items[::2]), len(items), [1, 2].index(2), 3 in [3], items[-1] * 2
found = [a, b]
return *map(torch.as_tensor, f(a, found)), *found

@compiled
def f(x, known):
    known["new"] = x.cos()
    known.update(other=x * 2)
    y = known.pop("old") + known.setdefault("kept", x + 1)
    for key, value in known.items():
        y = y + value * len(key)
    z = {**known, "y": y}
    del known["new"]
    return y, list(z.values()), "new" in known, {key: value * 2 for key, value in z.items()}
found = {"old": a, 3: b} | {"z": a + b}
found.pop(3)
y = f(a, found)
return y[0], *y[1], torch.tensor(y[2]), *y[3].values(), *found.values()

import collections
@compiled
def f(x):
    order = collections.OrderedDict(a=x, b=x * 2, c=x * 3)
    order.move_to_end("a")
    many = collections.defaultdict(list)
    for at, value in enumerate(order.values()):
        many[at % 2].append(value)
    queue = collections.deque([x, x + 1, x + 2], maxlen=3)
    queue.append(x + 3)
    queue.appendleft(x + 4)
    queue.rotate(1)
    count = collections.Counter("abca")
    return list(order.values()), many[0] + many[1], list(queue), count["a"] * x
x = f(a)
return *x[0], *x[1], *x[2], x[3]

import collections
Point = collections.namedtuple("Point", ["left", "right"], defaults=[1.0])
@compiled
def f(x, point):
    other = point._replace(left=x * 3)
    left, right = other
    return Point(x), Point(right=left, left=right), other[0] + point.left, isinstance(other, tuple)
x = f(a, Point(b, a))
return *x[0][:1], torch.tensor(x[0].right), *x[1], x[2], torch.tensor(x[3])

import dataclasses
@dataclasses.dataclass
class Options:
    scale: float = 2.0
    shape: tuple = (2, 12)
    extra: dict = dataclasses.field(default_factory=dict)
    def scaled(self, x):
        return x * self.scale
@compiled
def f(x, options):
    made = Options(scale=3.0)
    made.extra["x"] = made.scaled(x)
    options.scale += 1
    return (options.scaled(x).reshape(options.shape), made.extra["x"],
        dataclasses.replace(made).scale)
first = Options()
x, y = f(a, first), f(a, Options(4.0, (24,)))
return *x[:2], *y[:2], torch.tensor([x[2], first.scale])

import enum
class Kind(enum.Enum):
    SUM = "sum"
    MEAN = "mean"
@compiled
def f(x, kind, name):
    if kind is Kind.SUM:
        y = x.sum(0)
    elif kind == Kind.MEAN:
        y = x.mean(0)
    else:
        y = x.amax(0)
    return y * {"one": 1.0, "two": 2.0}[name] * len(f"{kind.value}-{name:>5}")
return f(a, Kind.SUM, "one"), f(a, Kind.MEAN, "one"), f(a, Kind.MEAN, "two"), f(b, Kind.SUM, "two")

class Base:
    def __init__(self, scale):
        self.scale = scale
        self._calls = 0
    def called(self, x):
        self._calls += 1
        return x * self.scale
class Child(Base):
    factor = 3.0
    def __init__(self, scale):
        super().__init__(scale)
        self.values = [1.0]
    @property
    def twice(self):
        return self.scale * 2
    @twice.setter
    def twice(self, value):
        self.scale = value / 2
    @classmethod
    def made(cls, x):
        return cls(x)
    @staticmethod
    def shifted(x):
        return x + 1
    def called(self, x):
        return super().called(x) * self.factor
    def __call__(self, x):
        return self.shifted(self.called(x))
    def __getitem__(self, at):
        return self.values[at]
    def __contains__(self, value):
        return value in self.values
    def __eq__(self, other):
        return self.scale == other.scale
class Lazy:
    def __getattr__(self, name):
        if name == "missing":
            return 7.0
        raise AttributeError(name)
@compiled
def f(x, one):
    one.twice = one.twice + 2
    one.values.append(one[0] + 1)
    other = Child.made(2.0)
    setattr(other, "named", Lazy().missing)
    y = one(x) + other(x) * getattr(other, "named") + getattr(one, "absent", 0.5)
    return y, hasattr(one, "absent"), 1.0 in one, one == other, type(other) is Child, one._calls
one = Child(1.0)
x = f(a, one), f(a, one)
return x[0][0], x[1][0], torch.tensor([x[0][1:], x[1][1:]]), torch.tensor([one.scale, *one.values])

import functools, itertools, operator, math
@compiled
def f(x, y):
    part = functools.partial(torch.add, alpha=2)
    chain = itertools.chain([x], (y,), [part(x, y)])
    pairs = [p * q for p, q in itertools.product([x, y], [2.0, 3.0])]
    runs = list(itertools.accumulate([x, y, x], operator.add))
    folded = functools.reduce(lambda p, q: p * 0.5 + q, [x, y, x])
    zipped = [p - q for p, q in zip([x, y], reversed([x * 2, y * 3]), strict=True)]
    sliced = [*itertools.islice(itertools.cycle([x, y]), 3), *itertools.repeat(x, 2)]
    bent = [p.sum() for p, q in itertools.combinations([x, y, x + 1], 2)]
    numbers = math.sqrt(16.0) + math.floor(2.5) + math.prod([2, 3]) + max(2, 7, 4) + min([3, 1])
    ordered = sorted([3, 1, 2], key=lambda each: -each)
    return (*chain, *pairs, *runs, folded, *zipped, *sliced, *bent, x * numbers,
        x * ordered[0] + ordered[2], *map(torch.neg, filter(lambda each: each is not None, [x.sin(),
            None])),
        x + any([False, True]) + all([]) + sum([1, 2], 3) + divmod(7, 2)[1] + abs(-3) + round(2.6))
return f(a, b)

@compiled
def f(x):
    def made(count):
        for at in range(count):
            received = yield x * at
            if received is None:
                continue
    def outer():
        yield from made(3)
        yield x.sum()
    first, *others = outer()
    it = iter([x, x + 1])
    return first, others, next(it) + next(it), next(it,
        x * 9), [y for y in (z * 2 for z in made(2))]
x = f(a)
return x[0], *x[1], x[2], x[3], *x[4]

count, total = [0], 0.0
def f(x):
    nonlocal total
    step = 2.0
    def inner(y):
        nonlocal step
        step += 1
        count[0] += 1
        return y * step
    y = inner(x) + inner(x)
    total += step
    return y * total
f = compiled(f)
return f(a), f(a), f(b), torch.tensor([count[0], total])

def made(scale, shape):
    def f(x):
        return (x * scale).reshape(shape) + len(shape)
    return compiled(f)
one, other, third = made(2.0, (6, 4)), made(3.0, (24,)), made(2.0, (2, 3, 4))
return one(a), other(a), third(a), one(b), other(b)

import contextvars
scale = contextvars.ContextVar("scale", default=2.0)
name = contextvars.ContextVar("name")
@compiled
def f(x):
    return x * scale.get() + len(name.get()) + (1 if name.get() == "one" else 0)
found = []
for value, text in ((2.0, "one"), (3.0, "one"), (3.0, "two"), (3.0, "three")):
    name.set(text)
    changed = scale.set(value)
    found += [f(a), contextvars.copy_context().run(f, b)]
scale.reset(changed)
return *found, f(a)

import contextlib
depth = []
@contextlib.contextmanager
def noted(value):
    depth.append(value)
    try:
        yield value * 2
    finally:
        depth.append(-value)
@compiled
def f(x):
    with noted(1.0) as y, noted(2.0) as z:
        x = x * y + z
    with contextlib.nullcontext(3.0) as z, contextlib.suppress(KeyError):
        x = x + z
        {}["missing"]
    return x * len(depth)
return f(a), f(b), torch.tensor(depth)

class Refused(ValueError):
    pass
@compiled
def f(x, kind):
    try:
        if kind == 1:
            raise Refused("one", 5.0)
        if kind == 2:
            x = x + {}["missing"]
        if kind == 3:
            x = x + [1.0][4]
        x = x * 2
    except Refused as error:
        x = x + error.args[1]
    except (KeyError, IndexError) as error:
        x = x - 1 if isinstance(error, KeyError) else x - 2
    else:
        x = x + 10
    finally:
        x = x * 0.5
    return x
return [f(a, kind) for kind in range(4)]

@compiled
def f(x):
    torch._dynamo.graph_break()
    y = x.sin()
    if y.sum() > 0:
        y = y + 1
    else:
        y = y - 1
    z = [y * float(x[0, 0].item() > 0)]
    for _ in range(2):
        torch._dynamo.graph_break()
        z.append(z[-1] + y)
    return z, y.tolist()
x, y = f(a), f(-a)
return *x[0], *y[0], torch.tensor([x[1], y[1]])

@compiled
def f(x, flag):
    before = torch.is_grad_enabled()
    with torch.no_grad():
        y = x * 2
        with torch.enable_grad():
            z = x * 3
    with torch.set_grad_enabled(flag):
        t = x * 4
    torch.set_grad_enabled(flag)
    s = x * 5
    torch.set_grad_enabled(before)
    with torch.inference_mode(not flag):
        r = x * 6
    return y, z, t, s, r
x = a.clone().requires_grad_()
found = [each for flag in (True, False) for each in f(x, flag)]
with torch.no_grad():
    found += f(x, True)
return *found, torch.tensor([(y.requires_grad, y.is_inference()) for y in found])

@compiled
def f(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = x @ y
        with torch.autocast("cpu", enabled=False):
            t = x @ y
    with torch.autocast("cpu", torch.float16):
        s = x @ y
    return z, t, s, torch.is_autocast_enabled("cpu")
x, y = f(a, m), torch.no_grad()(f)(b, m)
with torch.autocast("cpu", dtype=torch.bfloat16):
    z = f(a, m)
return *x[:3], *y[:3], *z[:3], torch.tensor([x[3], y[3], z[3]])

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(m.clone())
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("hidden", v.clone(), persistent=False)
        self.steps, self.log, self._place, self._half = 0, [], 0, 0.5
        self.parts = torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.Tanh()])
        self.named = torch.nn.ModuleDict({"one": torch.nn.Sigmoid()})
        self.scales = torch.nn.ParameterList([v.clone(), w.clone()])
        self.cache = None
    def forward(self, x, *, again=True):
        self.calls += 1
        self.steps += 1
        self.log.append(self.steps)
        self._place += x.shape[0]
        self._half /= 2
        y = x @ self.weight + self.hidden + self._place * self._half
        for part in self.parts:
            y = part(y)
        for name, part in self.named.items():
            y = part(y) * len(name)
        y = y * self.scales[0] + self.scales[1] * self.steps
        self.cache = y if self.cache is None else self.cache + y
        return self(y, again=False) if again and self.training else y
layer = Layer()
f = compiled(layer)
x = f(a), f(b), f.eval()(a), layer(a, again=False)
layer.weight.data = n.clone()
layer.parts[0] = torch.nn.Identity()
return *x, f(a), *layer.state_dict().values(), layer.cache, torch.tensor([*layer.log, layer._place])

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(6, 6)
        self.scale, self.kind, self.floor = 0.5, "relu", None
    def forward(self, x):
        x = self.inner(x) * self.scale
        x = x.relu() if self.kind == "relu" else x.tanh()
        return x if self.floor is None else x.clamp_min(self.floor)
layer, other = Layer(), compiled(Layer())
layer.inner.load_state_dict({"weight": m, "bias": v})
f = compiled(layer)
found = [f(a)]
for name, value in (("scale", 2.0), ("kind", "tanh"), ("floor", 0.25), ("scale", 3.0)):
    setattr(layer, name, value)
    found.append(f(a))
f.scale = 4.0
handles = [f.register_forward_hook(lambda module, given, result: result + 1),
    f.register_forward_pre_hook(lambda module, given: (given[0] * 2,))]
found += [f(a), torch.tensor(layer.scale)]
for handle in handles:
    handle.remove()
other.load_state_dict(f.state_dict())
names = [len(list(each)) for each in (f.named_parameters(), f.state_dict())]
return *found, f(b), other(b), torch.tensor([*names, f.eval().training, layer.training])

layer = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6), torch.nn.Dropout(0.0))
layer.load_state_dict({"0.weight": m, "0.bias": v}, strict=False)
f, seen = compiled(layer), []
x = f(a)
handles = [layer[0].register_forward_hook(lambda module, given, result: result * 2),
    layer[1].register_forward_pre_hook(lambda module, given: (given[0] + 1,)),
    layer.register_forward_hook(lambda module, given, result: seen.append(result))]
y = f(a)
handles[0].remove()
z = f(a)
for each in handles[1:]:
    each.remove()
layer[0].requires_grad_(False)
return x, y, z, *seen, f(a), f.eval()(b), *layer.state_dict().values(), f(b)

@compiled
def f(x):
    return x.sum(0) * x.shape[0] + x.numel() + (x.size(1) if x.shape[0] > 3 else -1.0)
g = compiled(lambda x, count: x[:count].sum(0) * count, dynamic=True)
h = compiled(lambda x: x.reshape(x.shape[0] // 2, -1) if x.shape[0] % 2 == 0 else x, dynamic=True)
found = [f(torch.cat([a] * times)[:rows]) for times, rows in ((1, 4), (1, 3), (2, 8), (2, 7), (1,
    1))]
found += [g(torch.cat([a] * times), count) for times, count in ((1, 2), (2, 7), (2, 0), (3, 1))]
return *found, *(h(torch.cat([a] * 2)[:rows]) for rows in (8, 6, 5, 2, 1))

f = compiled(lambda x, scale: x * scale + (1 if scale > 2 else 0))
g = compiled(lambda x, flag: x * 2 if flag else x * 3)
h = compiled(lambda x, y: x * 2 if y is None else x + y)
found = [f(a, scale) for scale in (1, 3, 2.0, 3.5, True, float("inf"))]
found += [g(a, flag) for flag in (True, False, 0, "", "x", [], None)]
return *found, *(h(a, y) for y in (None, b, 2, v, None))

f = compiled(lambda x: x * 2 if x.dtype == torch.float32 else x * 3)
g = compiled(lambda x: x.t().contiguous() if x.is_contiguous() else x * 2)
h = compiled(lambda x: x.detach() * 3 if x.requires_grad else x * 2)
s = compiled(lambda x, y: x * 2 if x is y else x + y)
x = [a, a.double(), a.bfloat16(), a.t(), a[::2], a[:1], a[:0], a.to(torch.int64)]
return *map(f, x), *map(g, x[:-1]), h(a), h(a.clone().requires_grad_()), s(a, a), s(a, b)

value, table = 2.0, {"x": [1.0]}
class Holder:
    kind = "one"
    item = None
holder = Holder()
@compiled
def f(x):
    if holder.item is not None:
        x = x + holder.item
    return x * value * table["x"][-1] + (1 if Holder.kind == "one" else 2)
found = [f(a)]
for change in range(6):
    if change == 0:
        value = 3.0
    elif change == 1:
        table["x"].append(4.0)
    elif change == 2:
        Holder.kind = "two"
    elif change == 3:
        holder.item = b
    elif change == 4:
        table = {"x": [0.5]}
    else:
        holder.item = None
    found.append(f(a))
return found

import types
module = types.ModuleType("given")
module.scale, module.apply = 2.0, torch.sin
@compiled
def f(x):
    module.last = x * 2
    return module.apply(x) * module.scale
x = f(a)
module.scale = 5.0
y = f(a)
module.apply = torch.cos
return x, y, f(a), module.last

@compiled
def f(x, y):
    x.add_(1)
    x[0] = y[1]
    x[:, 1:3].mul_(2)
    y.t().copy_(x.t() * 2)
    x.relu_().clamp_(max=2.0)
    z = x.view(-1)
    z[::5] = 7.0
    y += z.view_as(y)
    return z, x.mean()
x, y = a.clone(), b.clone()
return *f(x, y), x, y

@compiled
def f(x, *at):
    first, *middle, last = x.unbind(0)
    x = torch.stack([first, *middle, last][::-1])
    y = x[..., None, 1:], x[:, [0, 2]], x[x[:, 0] > -9][:, -1:], x[at], x[slice(None, None, 2)]
    z = x.split(2)[1], x.chunk(3, -1)[-1], torch.tensor_split(x, (1,
        3))[1], x.unsqueeze(0).squeeze()
    return *y, *z, x.T.shape[0] * x, x.new_ones(2,
        3), x.type(torch.float64), x.flatten().tolist()[0] * x
return f(a, 1, 2), f(b, slice(1, 3)), f(a, Ellipsis, 0)

import numpy
@compiled
def f(x):
    y = x.numpy()
    z = numpy.tanh(y).sum(axis=0) + y.mean(1)[:1] * numpy.float32(2)
    z[0] = 3.0
    return torch.from_numpy(z), torch.as_tensor(y.reshape(-1)[::2].copy()), z.shape[0] * x
return f(a), f(b[:3])

class Tagged(torch.Tensor):
    calls = []
    @classmethod
    def __torch_function__(cls, function, kinds, args=(), kwargs=None):
        cls.calls.append(len(args))
        result = super().__torch_function__(function, kinds, args, kwargs or {})
        return result * 2 if function is torch.Tensor.add else result
class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result + 1 if function is torch.sin else result
f = compiled(lambda x, y: (x.add(y), torch.sin(x)))
x = f(a.as_subclass(Tagged), b)
with Mode():
    y = f(a, b)
return *(each.as_subclass(torch.Tensor) for each in x), *y, *f(a,
    b), torch.tensor(type(x[0]) is Tagged)

class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift=None):
        ctx.scale = scale
        ctx.save_for_backward(x)
        ctx.mark_non_differentiable(rest := (x > 0).float())
        return x * scale + (0 if shift is None else shift), rest
    @staticmethod
    def backward(ctx, grad, _):
        x, = ctx.saved_tensors
        return grad * ctx.scale * x.cos(), None, grad.sum(0) if ctx.needs_input_grad[2] else None
f = compiled(lambda x, y: Scaled.apply(x.sin(), 3.0, y)[0] * Scaled.apply(x, 2.0, None)[1])
x, y = a.clone().requires_grad_(), v.clone().requires_grad_()
z = f(x, y)
return z, *torch.autograd.grad(z.square().sum(), (x, y)), f(x, v), f(a, v)

@compiled
def f(x, y):
    z = (x * y).sum()
    z.backward()
    return x.grad * 2, y.grad
x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
z = compiled(lambda x: torch.autograd.grad((x * x).sum(), x)[0])
return *f(x, y), x.grad, z(a.clone().requires_grad_())

@compiled
def f(x):
    seen.append(x)
    x.register_hook(lambda grad: grad * 2)
    y = x.sin()
    y.register_hook(lambda grad: grad + 1)
    return y
seen, x = [], a.clone().requires_grad_()
f(x).sum().backward()
return x.grad, seen[0], torch.tensor(len(seen))

@torch._dynamo.disable
def skipped(x):
    return x * (3 if torch.compiler.is_compiling() else 5)
@torch.compiler.assume_constant_result
def constant():
    return 4.0
@compiled
def f(x):
    return (skipped(x), x * constant(), x * torch.compiler.is_compiling(),
        x * torch.compiler.is_dynamo_compiling())
return f(a), f(b), skipped(a), torch._dynamo.run(f)(b)

import warnings, logging, inspect
@compiled
def f(x, function):
    names = inspect.signature(function).parameters
    kind = callable(function), isinstance(x, torch.Tensor), issubclass(type(x), torch.Tensor)
    return function(**{name: x for name in names}), x * sum(kind), x * len(function.__name__), x * (
        len(torch.Size([2,
            3])) + torch.finfo(x.dtype).max / 1e38 + (x.device == torch.device("cpu")))
def one(left, right):
    return left * 2 + right
return f(a, one), f(b, lambda x: x.sin())

@compiled
def f(x, text, *items):
    words = text.upper().split("-")
    y = x * len("".join(words)) + text.startswith("one") + text.count("o") + ("two" in text)
    found = {*items, 2} & {1, 2, 3} | frozenset([5])
    z = y + len(found) + (3 in found) + ("%s" % text == text) + (text[::-1] < "x")
    z = z + int("12") + ord("a")
    (left, (middle, *_)), right = (x, [y, z]), x
    x, y = y, x
    return y if items and not text == "two" else x, left + right, middle, (1, 2) < (1, 3), z
x = [f(a, "one-two", 1, 3), f(a, "two"), f(b, "two-three", 2)]
return [torch.as_tensor(each) for one in x for each in one]

class Items(list):
    def total(self):
        return sum(self)
class Table(dict):
    def __missing__(self, key):
        return 2.0
@compiled
def f(x, items, table):
    items.append(x + 1)
    made = Items([x, x])
    table["seen"] = x * 2
    return items.total() * table["absent"], made.total(), type(made) is Items, [*reversed(made)][0]
items, table = Items([a]), Table(one=1.0)
x = f(b, items, table)
return *x[:2], torch.tensor(x[2]), x[3], *items, table["seen"]

@compiled
def f(x, at):
    while at > 0:
        x = x + at
        at -= 1
        if at == 3:
            continue
        if x is None or at == 1:
            break
    else:
        x = x * 100
    match at:
        case 1:
            y = x * 2
        case 0 | -1:
            y = x * 3
        case _:
            y = x
    assert at < 9, "too many"
    return y, lambda z: z + x, f"{at}"
x = [f(a, at) for at in (5, 0, 1)]
return (*(each[0] for each in x), *(each[1](b) for each in x),
    torch.tensor([int(each[2]) for each in x]))

import random
@compiled
def f(x):
    y = torch.rand(2, 3), torch.randn_like(x), torch.randint(0, 9,
        (4,)), torch.nn.functional.dropout(x)
    return (*y, torch.randperm(5), random.random() * x, torch.empty(3).uniform_(),
        torch.bernoulli(x.sigmoid()))
found = []
with torch.random.fork_rng(devices=[]):
    for _ in range(2):
        torch.manual_seed(3)
        random.seed(4)
        found += [*f(a), torch.rand(2)]
return [each.float() - other.float() for each, other in zip(found[:9], found[9:])]

f = compiled(lambda x: torch.nn.functional.relu(x) + 1, fullgraph=True)
g = compiled(lambda x, **given: {key: (x * value, [x]) for key, value in given.items()})
found = []
for each in (a.expand(2, 4, 6), a.to(torch.float16), torch.empty(0, 3), a.clone().requires_grad_()):
    found += [f(each), f(each.squeeze())]
y = g(a, one=1.0, two=b), torch.func.vmap(f)(a), torch.func.grad(lambda x: f(x).sum())(v)
return *found, *y[0]["one"][1], y[0]["two"][0], *y[1:]

def f(x):
    for _ in range(3):
        x = g(x)
    return x
def g(x):
    return x * 2 if h(x) else x.sin()
def h(x):
    return x.shape[0] > 3
f = compiled(f)
with torch._dynamo.config.patch(recompile_limit=2):
    found = [f(torch.cat([a] * 3)[:rows].to(dtype)) for rows in (4, 2) for dtype in
        (torch.float32, torch.float64, torch.float16, torch.bfloat16)]
return found

@compiled
def f(x, y):
    def body(z):
        return z.sin() + y
    z = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
    t = torch.utils.checkpoint.checkpoint(body, x, use_reentrant=False)
    return z, t, torch.func.vmap(lambda x: x.dot(x))(x), torch.func.jvp(body, (x,), (y,))
x = f(a, b), f(-a, b)
return *x[0][:3], *x[0][3], *x[1][:3]

class Holder:
    kind = 1.0
    def __init__(self):
        self.flag, self.count, self.items, self.extra = False, 0, [1, 2], 5
class Slots:
    __slots__ = ("value", "other")
def read(x, one):
    return x.sin() * one.items[0] if one.flag and table["on"] else x.cos() * Holder.kind
def work(x, one, two, breaks):
    before, table["on"], one.flag = one.flag, True, True
    one.count, two.value, one.items[0] = one.count + 1, two.value + 1, 9
    two.other = x * 2
    if breaks:
        torch._dynamo.graph_break()
        Holder.kind = 2.0
        Holder.kind = 2.0
    x = x * two.value + read(x, one) + two.other
    del one.extra, two.other
    x = x + hasattr(one, "extra") + hasattr(two, "other")
    one.flag, table["on"], one.extra = before, False, x.shape[0]
    one.count, two.value, one.items[0] = one.count - 1, two.value - 1, 1
    y = read(x, one)
    if breaks:
        Holder.kind = 1.0
    return x, y
f, one, two, table, found = compiled(work), Holder(), Slots(), {"on": False}, []
two.value = 3
for breaks in (False, False, True, True):
    found += f(a, one, two, breaks)
    found.append([one.flag, one.count, *one.items, one.extra, Holder.kind, two.value, table["on"]])
return *map(torch.as_tensor, found), torch.tensor([hasattr(two, "other"), "kind" in vars(one)])

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Dropout(0.0)
        self.register_buffer("state", v.clone())
        self.busy, self.depth = False, 0
    def __setattr__(self, name, value):
        if name in ("busy", "depth"):
            log.append((name, float(value)))
        super().__setattr__(name, value)
    @property
    def level(self):
        return self.depth * 10
    @level.setter
    def level(self, value):
        self.depth = value // 10
    def forward(self, x, breaks):
        held, was = self.state, self.training
        self.busy, self.level, self.state = True, self.level + 20, held * 2
        self.train(not was)
        try:
            x = self.inner(x) * self.state + self.level + self.training
            if breaks:
                torch._dynamo.graph_break()
            x = x + self.busy * 3
        finally:
            self.busy, self.level, self.state = False, self.level - 20, held
            self.train(was)
        return x + self.inner.training
log = []
layer = Layer()
f, found = compiled(layer), []
for breaks in (False, True, False):
    found += [f(a, breaks), layer.state, torch.tensor([layer.busy, layer.depth, layer.training])]
return *found, torch.tensor([value for _, value in log]), torch.tensor([len(n) for n, _ in log])

import weakref
class Node:
    def __init__(self, value, below=None):
        self.value, self.below, self.seen = value, below, []
    def __iter__(self):
        node = self
        while node is not None:
            yield node.value
            node = node.below
    def __len__(self):
        return sum(1 for _ in self)
    def __bool__(self):
        return self.value is not None
    def __hash__(self):
        return 7
    def __eq__(self, other):
        return isinstance(other, Node) and len(self) == len(other)
    def __lt__(self, other):
        return len(self) < len(other)
@compiled
def f(x, given):
    top = Node(x * 2, Node(x.sin(), given))
    top.below.seen.append(top.below.value + 1)
    top.seen, given.below = [each for each in top], Node(x.cos())
    first, *rest = (each + 1 for each in top)
    y = x * 3 if Node(None) or given < top else x * 5
    return top, first, rest, y, len(top), max(len(top), len(given)), top == Node(x)
given = Node(a * 7)
held = weakref.ref(given)
g = compiled(lambda x, ref: x * 2 if ref() is None else x + ref().value)
top, first, rest, y, size, most, is_same = f(a, given)
z = g(a, held)
return (*top, *top.seen, *top.below.seen, first, *rest, y, *given, z, torch.tensor([size, most,
    is_same, held() is given, top.below.below is given, given in {top: 1, given: 2}]))

def counted(x, steps):
    for at in range(9):
        steps.append(at)
        got = yield x * at
        x = x if got is None else x + got
@compiled
def f(x, steps):
    made, rest = counted(x, steps), counted(x * 2, steps)
    y = next(made) + next(made)
    z = made.send(x.sin())
    made.close()
    left = iter([x, x * 2, x * 3, x * 4])
    t = next(rest) + next(left)
    pairs = enumerate(left, 5)
    at, s = next(pairs)
    def later(scale):
        return x * scale + at + len(steps)
    return y, z, t, s, later, next(pairs)[1], *left, *map(torch.neg, [x, s]), steps.index(1)
g = compiled(lambda x, given: (next(given) + x, x * 2 + next(given)))
steps, given, other = [], iter([a, b, a + b, a - b, a]), zip([a, b, a], [1, 2, 3])
x, y = f(a, steps), f(b, steps)
z = *g(a, given), *g(b, given), *given
return (*x[:4], *y[:4], x[4](2.0), y[4](3.0), *x[5:], *y[5:], *z, torch.tensor(steps))

import contextlib, functools
@functools.lru_cache(maxsize=4)
def scale(value, times=2):
    calls.append(value)
    return value * times
@functools.singledispatch
def shown(value, x):
    return x + 1
@shown.register
def _(value: int, x):
    return x * value
@shown.register(list)
def _(value, x):
    return x * len(value) - 1
@contextlib.contextmanager
def pushed(value):
    log.append(value)
    yield value
    log.append(-value)
@compiled
def f(x):
    with contextlib.ExitStack() as stack:
        total = sum(stack.enter_context(pushed(each)) for each in (1, 2, 3))
        stack.callback(log.append, 50)
        x = x * total + len(log)
    y = x * scale(3), x * scale(3) + scale(4, times=5)
    return *y, shown(2, x), shown([1, 2], x), shown("", x)
calls, log = [], []
return *f(a), *f(b), torch.tensor(log)

@compiled
def f(x, text, names):
    found = {"one", *names} - {"two"}
    found.add("three")
    found.discard("absent")
    found ^= {"four", "one"}
    fixed = frozenset(names) | {"five"}
    table = {fixed: x * 2, frozenset(): x * 3}
    parts = text.strip().partition("=")
    line = f"{parts[0]!r:>8}|{len(text):03d}|{3.14159:.2f}|{'%5s-%-4d' % ('ab', 7)}|{x.shape}"
    line += "{0}{name:^7}{0}".format("*", name=parts[2].title()).replace("*", "--")
    numbers = [int(part) for part in "7,08,9".split(",") if part.isdigit()]
    y = x * len(line) + line.find("|") + line.rfind("-") + ord(line[3]) + sum(numbers)
    z = x + (found <= {"four", "three"}) + found.isdisjoint(fixed) * 2 + len(found & fixed) * 4
    return (y, z, table[fixed], sorted(found), line, text.lstrip("x").rstrip().swapcase(), line.
        encode(), "-".join(sorted(fixed)).center(30, "."), text.zfill(12).isupper(), sorted(fixed))
found = []
for text, names in ((" abc=def ", ("one", "two")), ("xX=y", ("two", "four")), ("q", ())):
    *tensors, names, line, other, coded, joined, is_upper, fixed = f(a, text, names)
    texts = [*names, line, other, coded.decode(), joined, str(is_upper), *fixed]
    found += [*tensors, torch.tensor([ord(letter) for one in texts for letter in one])]
return found

import dataclasses
@dataclasses.dataclass(order=True, frozen=True)
class Version:
    major: int
    minor: int = 0
    name: str = dataclasses.field(default="", compare=False)
    __match_args__ = ("major", "minor")
@compiled
def f(x, given):
    match given:
        case Version(1, minor):
            y = x + minor
        case Version(major=2 | 3 as major) if major < 3:
            y = x - major
        case [first, *rest, last] if len(rest) > 1:
            y = x * first - last * len(rest)
        case {"scale": float(scale), **others}:
            y = x * scale + len(others)
        case str() | None:
            y = x.sin()
        case _:
            y = x.cos()
    made = [Version(2, 1, "x"), Version(1, 5), Version(2)]
    low, middle, high = made[1], made[2], made[0]
    flags = low < middle, high > low, max(1, 2) == 2
    z = x * (middle <= high) + (made[0] == Version(2, 1))
    return y, x * low.minor + sum(flags), z, len(dataclasses.fields(low)), middle
every = Version(1, 4), Version(2), Version(3), [1.0, 2, 3, 4.0], {"scale": 2.0, "z": 1}, "x"
with torch._dynamo.config.patch(recompile_limit=20):
    found = [f(a, given) for given in every]
return *(x for each in found for x in each[:3]), torch.tensor([
    (each[3], each[4].major, each[4].minor) for each in found])

@torch._dynamo.nonstrict_trace
def kept(x, y):
    return x * 2 + y if x.shape[0] > 3 else x
@torch.compiler.disable(recursive=False)
def outer(x):
    return inner(x) + torch.compiler.is_compiling()
def inner(x):
    return x * (5 if torch.compiler.is_compiling() else 7)
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = torch.nn.ParameterDict({"one": v.clone(), "two": w.clone()})
    def forward(self, x, *, times=1):
        y = sum(x * each * len(name) for name, each in self.weights.items()) * times
        return y + ("one" in self.weights) + len(self.weights)
    @torch.compiler.disable
    def count(self, x):
        seen.append(x.shape[0])
        return x + len(seen)
layer, seen = Layer(), [1]
layer.register_forward_pre_hook(lambda module, given, named: ((given[0] + 1,), {"times": 3}),
    with_kwargs=True)
layer.register_forward_hook(lambda module, given, named, result: result * named["times"],
    with_kwargs=True, always_call=True)
f = compiled(lambda x, part: (kept(x, m[0]), outer(x), part(x), part.count(x) * 2))
x = f(a, layer), f(b, layer)
layer.weights["three"] = torch.nn.Parameter(v * 2)
return *x[0], *x[1], *f(a, layer), torch.tensor([*seen, len(layer.weights)])

import random, numpy
@compiled
def f(x, size, given):
    y = x * random.uniform(1, 2) + random.randint(3, 9) + random.randrange(5)
    z = x * given.random() + given.randint(0, 9)
    numpy.random.seed(3)
    t = torch.as_tensor(numpy.random.rand(3).astype("float32"))
    rows = size[:-1] + torch.Size([2, 3]) + (1,)
    s = x.new_ones(rows * 1).sum() + rows.numel() + size[-1] * 2 + (size == (4, 6)) + rows.index(3)
    return y, z, t, s, x.reshape(size[::-1]), x.new_zeros(torch.Size((2,)) * 2), isinstance(
        rows, torch.Size), len(rows)
before = random.getstate(), numpy.random.get_state()
found = []
try:
    for _ in range(2):
        random.seed(5)
        found += f(a, a.shape, random.Random(7))
        found += [random.random(), float(numpy.random.rand())]
finally:
    random.setstate(before[0])
    numpy.random.set_state(before[1])
return [torch.as_tensor(each) for each in found]

class Base:
    __slots__ = ("x", "tag")
    made = 0
    def __new__(cls, *given):
        one = super().__new__(cls)
        one.tag = len(given)
        return one
    def __init__(self, x, *_):
        self.x = x
    def __init_subclass__(cls, scale=1.0):
        cls.scale = scale
    def __mul__(self, other):
        return self.x * other.x
    def __rsub__(self, other):
        return other - self.x
    def __delitem__(self, at):
        self.x = self.x[at:]
class Kept:
    def __set_name__(self, owner, name):
        self.name = name
    def __get__(self, one, owner):
        return self if one is None else one.x * len(self.name)
class Child(Base, scale=4.0):
    wide = Kept()
def function(x, /, y=2, *more, flag=None, **others):
    return x * y
@compiled
def f(x, given):
    one = Child(x, 1)
    del given[1]
    z = 1.0 - one * Base(x) + (5.0 - one)
    names = len(function.__name__) + function.__defaults__[0] + len(function.__kwdefaults__)
    method = functools.partial(Base.__rsub__, one)
    tags = callable(one), type(one).__mro__[1] is Base, getattr(one, "none", 3), Child.scale
    return z, one.wide * one.tag, given.x * 2, x * names, method(x), x * sum(tags)
given = Base(a)
return *f(a, given), given.x

@torch._dynamo.disable
def checked(x, limit):
    if limit > 2:
        raise ValueError(limit)
    return x + limit
@compiled
def f(x, y, limit):
    scale, kept, other = x.sin(), [y.cos()], y * 3
    torch._dynamo.graph_break()
    try:
        kept.append(checked(x, limit))
        z = kept[1] * 2
    except ValueError as error:
        z = scale * error.args[0] + other
    finally:
        last = scale + len(kept)
    return z, last
@compiled
def g(x, y, limit):
    found, other = x + 1, y * 2
    for step in (0, 1, 2):
        try:
            other = checked(found, limit + step)
        except ValueError:
            other = found - y
            continue
        found = other * 2
    return found, other
@compiled
def h(x, y, limit):
    z, t = y.tanh(), x.exp()
    torch._dynamo.graph_break()
    try:
        with torch.no_grad():
            z = checked(x, limit) * z
    except (KeyError, ValueError):
        try:
            z = z + checked(y, limit - 1)
        except ValueError:
            return x - z, z, t
    return z, x, t
return [each for k in (f, g, h) for limit in (1, 3, 4) for each in k(a, b, limit)]

class First(torch.nn.Module):
    def forward(self, x):
        return x.sin() + 1
class Second(torch.nn.Module):
    def forward(self, x):
        return x.cos() * 2
seen = []
def noted(graph, given):
    seen.append(sum(isinstance(each, torch.SymInt) for each in given))
    return graph.forward
x = torch.compile(First(), backend=noted)(a)
y = torch.compile(Second(), backend=noted)(torch.cat([b, b]))
return x, y, torch.tensor(seen[1] <= seen[0])

import collections
def of_deques(x, y):
    y[0].rotate()
    y[1].rotate(-2)
    y[2].append(7)
    y[3].popleft()
    y[4].appendleft(7)
    y[5].extendleft([7, 8])
    y[6].reverse()
    y[7].insert(1, 7)
    y[8].remove(2)
    del y[9][0]
    y[10][1] = 7
    y[11].extend((7, 8))
    y[12].clear()
    return x * y[13].pop()
def of_lists(x, y):
    y[0].append(7)
    y[1].extend((7, 8))
    y[2].insert(1, 7)
    y[3].reverse()
    y[4].sort(key=lambda z: -z)
    y[5].remove(2)
    del y[6][0]
    y[7][1] = 7
    y[8].clear()
    y[9] += [7]
    y[10][1:] = [7, 8, 9]
    return x * y[11].pop(0)
def of_sets(x, y):
    y[0].add(7)
    y[1].discard(2)
    y[2].update([7, 2])
    y[3].difference_update([2])
    y[4].symmetric_difference_update([2, 7])
    y[5].intersection_update([2, 3])
    y[6].remove(2)
    y[7].clear()
    return x * len(y[8])
def of_dicts(x, y):
    y[0].pop(1)
    y[1].setdefault(7, 8)
    y[2].update({2: 7, 9: 1})
    y[3].popitem()
    y[4] |= {8: 3}
    del y[5][2]
    y[6].clear()
    y[7][1] = 9
    return x * len(y[8])
found = []
for function, kind in ((of_deques, collections.deque), (of_lists, list), (of_sets, set),
    (of_dicts, dict)):
    kept = [kind([(3, 4), (1, 2), (2, 6), (5, 8)] if kind is dict else [3, 1, 2, 5])
        for _ in range(14)]
    found.append(compiled(function)(a, kept))
    found += [torch.tensor([*each]) for each in kept]
    found += [torch.tensor([*each.values()]) for each in kept if kind is dict]
return found

import gc, weakref
layer, x = torch.nn.Linear(6, 6), a.clone()
f = compiled(lambda one, y: one(y).sin() + one.bias)
f(layer, x)
kept = weakref.ref(layer), weakref.ref(layer.weight), weakref.ref(x)
del layer, x, f
torch._dynamo.reset()
gc.collect()
return torch.tensor([each() is None for each in kept])
"""
# Each program has a graph of forward and backward, which is split as Inductor splits it.
_HIGHER = """
import concurrent.futures
f = compiled(lambda x, y: ((x @ y).sin(), x + 1))
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    x = pool.submit(f, a, m).result()
return *x, *f(b, m)

g = torch.utils.checkpoint.checkpoint
@compiled
def f(x, y):
    def inner(z):
        return (z @ m).sin().exp() * torch.nn.functional.silu(z @ n)
    z = g(inner, x, use_reentrant=False)
    return g(lambda z, t: z.cos() * t + z.sigmoid(), z, y, use_reentrant=False), x * z
x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
z = f(x, y)
return *z, *torch.autograd.grad(z[0].sum() + z[1].square().sum(), (x, y))

t = torch.func
f = compiled(lambda x, y: (t.vmap(lambda r: (r @ m).sin())(x),
    t.grad(lambda z: (z * y).sin().sum())(x),
    t.vmap(t.grad(lambda r: r.square().sum() * r[0]))(x), 
    t.jvp(torch.tanh, (x,), (y,))))
x = f(a, b)
return *x[:3], *x[3]

class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x + y
    @staticmethod
    def backward(ctx, one, other):
        x, y = ctx.saved_tensors
        return one * y * 2 + other, one * x
f = compiled(lambda x, y: Scaled.apply(x.sin(), y))
x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
z = f(x, y)
return *z, *torch.autograd.grad(z[0].sum() + z[1].cos().sum(), (x, y)), *f(a, y)

from torch._higher_order_ops import associative_scan, scan, while_loop
f = compiled(lambda x: (associative_scan(lambda p, q: p * q, x, 0, combine_mode="generic"),
    *scan(lambda c, x: (c + x, c * x), v, x), *while_loop(lambda at, x: at < 3,
    lambda at, x: (at + 1, x * 2), (torch.tensor(0), x))))
return f(a), f(b)

f = compiled(lambda x: torch.cond(x.sum() > 0, lambda x: (x.sin() @ m, x * 3), lambda x: (x * 2,
    x.cos()), (x,)))
found = []
for sign in (1, -1):
    x = (a.abs() * sign).requires_grad_()
    y = f(x)
    found += [*y, *torch.autograd.grad(y[0].sum() + y[1].sin().sum(), x)]
return found

f = compiled(lambda x: torch.vmap(lambda row: torch.rand_like(row) + row * 0,
    randomness="different")(x))
g = compiled(lambda x: torch.vmap(lambda row: torch.rand_like(row) + row * 0,
    randomness="same")(x))
one, other, same = f(a), f(a), g(a)
return tuple(torch.tensor(torch.equal(x, y)) for x, y in ((one[0], one[1]), (one, other),
    (same[0], same[1])))

@torch.compiler.nested_compile_region
def scaled(x, by):
    return x.sin() * by + by
f = compiled(lambda x, y: (scaled(x, 2.0), scaled(y, 2.0), scaled(x, 3.0), scaled(x.t(), 2.0)))
return *f(a, b), *f(b, a)

found = []
with torch._subclasses.fake_tensor.FakeTensorMode():
    made, x, strided = torch.empty, torch.empty(6, 6), torch.empty_strided
    for x in (x, x.t(), made(6, 12)[:, ::2], made(12, 6)[::2], made(6, 1).expand(6, 6), x.double(),
        strided((6, 6), (1, 7)), strided((6, 6), (14, 2)), x[:, :1], x[:0]):
        for y in (x + 1, x[1:], x[:, 1:], x.t(), x.mT @ x, x.sum(0), x.clone(), x.contiguous(),
            x.reshape(-1), torch.cat([x, x], 1), x.bfloat16(), x.unsqueeze(1), x.new_empty(3),
            torch.empty_like(x), x.flip(0), x.softmax(-1), x.expand(2, *x.shape), x > 0):
            found.append([*y.shape, *y.stride(), y.storage_offset(), y.itemsize])
return [torch.tensor(each) for each in found]

import torch.fx.experimental.proxy_tensor as proxies
def f(x, y):
    z = x.view(-1)[:6] * y
    x.add_(1)
    return z.sum(), torch.nn.functional.layer_norm(x, (6,)), x.shape[0] * y
found = []
for mode in ("real", "fake", "symbolic"):
    graph = proxies.make_fx(f, tracing_mode=mode)(a.clone(), v)
    found += [*graph(a.clone(), v), *torch.fx.symbolic_trace(graph)(b.clone(), v)]
made = proxies.make_fx(torch.func.functionalize(f))(a.clone(), v)
return *found, *made(b.clone(), v)
"""
# These programs are compiled likewise, for names of compiler stages after Dynamo.
_GRAPHS = """
@compiled
def f(x, y, z):  # ranks decide dtypes too
    pairs = (x, y), (x, z), (z, x), (y, x), (x.int(), y), (x.int(), z)
    found = [each(*pair) for each in (torch.xlogy, torch.add, torch.atan2) for pair in pairs]
    return *found, *(torch.logaddexp(*pair) for pair in pairs[:4])
return f(a.half().abs(), b.abs(), a.abs().sum())

f = compiled(lambda x, y: ((x @ m).relu() * y + v, x.sin().cos().exp(), (x * y).softmax(-1).sum()))
x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
z = f(x, y)
return *z, *torch.autograd.grad([each.square().sum() for each in z], (x, y)), *f(a, b)

@compiled
def f(x, y):
    x.mul_(2)
    z = x.view(-1)
    z[:3] += 1
    y.t_()
    return z, x, x.t(), y[0], y.detach(), x + 1
x, y = a.clone(), b.clone()
z = f(x, y)
z[0].add_(5)
return *z, x, y, torch.tensor([each.data_ptr() == x.data_ptr() for each in z])

@compiled
def f(x, y):
    y.add_(x)
    z = x.view(6, 4)
    return z, z * 2, y.view(-1), x.expand(2, 4, 6), x[1:3], x.unbind(0)[2]
base = torch.cat([a, b]).requires_grad_()
x = base * 1
y = x[2:6]
z = f(x[:4].clone(), y), f(b, a.clone())
sum(each.square().sum() for each in z[0]).backward()
return *z[0], *z[1], base.grad, y

f = compiled(lambda x, y, z: x.add_(1) + y * 2 + z.sum())
x = torch.cat([a, b])
y = f(x[:4], x[2:6], x[5:])
z = a.clone()
return y, x, f(z, z, z), z, f(x[::2], x[1::2], x[:1]), x

@compiled
def f(x):
    with torch.no_grad():
        state.mul_(0.9).add_(x.mean(0), alpha=0.1)
        layer.weight.mul_(1.1)
    return layer(x) + state, layer.weight.sum()
state, layer = v.clone(), torch.nn.Linear(6, 6)
layer.load_state_dict({"weight": m, "bias": v})
found = []
for _ in range(2):
    x = a.clone().requires_grad_()
    y = f(x)
    y[0].sin().sum().backward()
    found += [*y, x.grad, layer.weight.grad.clone(), layer.bias.grad.clone(), state.clone()]
return *found, *layer.state_dict().values()

f = compiled(lambda x, y: (x * 2, y, x.detach(), None, 3, (x > 0), x.to(torch.int64),
    x.sum() * 0 + y))
x = a.clone().requires_grad_()
y = f(x, b)
z = torch.tensor([torch.is_tensor(each) and each.requires_grad for each in y])
(y[0] * y[7]).sum().backward()
return y[0], y[1], y[2], torch.tensor(y[4]), *y[5:], x.grad, z

f = compiled(lambda x, count: (x[:count] * 2).cumsum(0).sin() + x.shape[0], dynamic=True)
found = []
for rows, count in ((4, 2), (7, 5), (3, 3), (8, 1)):
    x = torch.cat([a, b])[:rows].clone().requires_grad_()
    y = f(x, count)
    found += [y, *torch.autograd.grad(y.sum(), x)]
return found

layer = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6), torch.nn.GELU(),
    torch.nn.Linear(6, 6))
layer.load_state_dict({"0.weight": m, "0.bias": v, "3.weight": n, "3.bias": v}, strict=False)
layer[3].weight = layer[0].weight
f, o = compiled(layer), torch.optim.AdamW(layer.parameters(), lr=0.05)
for x in (a, b, a, torch.cat([a, b])):
    f(x).square().mean().backward()
    o.step()
    o.zero_grad(set_to_none=x is a)
return *layer.state_dict().values(), f.eval()(a), torch.no_grad()(f)(b)

f = compiled(lambda x, y: (x.sin() @ y.to(x.dtype), (x * 3).clamp(-1, 1).sum(-1), x.amax(0)))
x, y = p.clone().requires_grad_(), m.clone().requires_grad_()
z = f(x, y)
with torch.autocast("cpu", dtype=torch.bfloat16):
    t = f(a, y)
return *z, *torch.autograd.grad([each.sum() for each in (*z, t[0])], (x, y)), *t

f = compiled(lambda x, y: (torch.view_as_real(torch.fft.fft(x)), (x * 1j + y).real,
    x.to_sparse().to_dense()))
g = compiled(lambda x: (x.nonzero().shape[0] * x, torch.unique(x.round()).numel() + x))
x = a.clone().requires_grad_()
y = f(x, b)
return *y[:2], *torch.autograd.grad(y[0].square().sum(), x), *g(a), *g(b)

f = compiled(lambda x, y: (x.as_strided((3, 4), (6, 1), 2) * 2, x.transpose(0, 1).reshape(-1)[::3],
    y.unfold(1, 3, 2).sum(-1), x.diagonal() + 1, torch.einsum("ij,kj->ik", x, y), x.roll(1,
        0).flip(1)))
x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
z = f(x, y)
return *z, *torch.autograd.grad([(each * each).sum() for each in z], (x, y)), *f(turned, apart)

x = a.clone().requires_grad_()
f = compiled(lambda x: x.sin().exp() * x)
y = f(x)
y.sum().backward(retain_graph=True)
z = x.grad.clone()
y.sum().backward()
with torch.autograd.graph.saved_tensors_hooks(lambda each: each.double(),
    lambda each: each.float()):
    y = f(x)
return z, x.grad, *torch.autograd.grad(y.sum(), x)

from torch.testing._internal.two_tensor import TwoTensor
f = compiled(lambda x, y: ((x * 2 + y).sin(), x @ m, x.t(), x.view(-1)[:3]))
x = TwoTensor(a.clone(), b.clone()).requires_grad_()
y = f(x, a), f(TwoTensor(b, a), TwoTensor(a, b)), f(a, b)
sum(each.sum() for each in y[0]).backward()
pairs = x.grad, *y[0], *y[1]
return *(each for pair in pairs for each in (pair.a, pair.b)), *y[2]

class Layer(torch.nn.Module):
    def forward(self, x, y):
        return {"sum": x + y[0], "more": [x.sin() * x.shape[0], y[0].reshape(-1)]}
rows = torch.export.Dim("rows", min=2, max=64)
x = torch.export.export(Layer(), (a, (b,)), dynamic_shapes=({0: rows}, ({0: rows},)))
y = x.run_decompositions().module()
z = torch.cat([a, b])
found = [x.module()(a, (b,)), y(a, (b,)), y(z, (z * 2,))]
return [each for one in found for each in (one["sum"], *one["more"])]

import copy, pickle
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.weight = torch.nn.Linear(6, 6), torch.nn.Parameter(v.clone())
    def forward(self, x, scale=2.0):
        y = self.first(x).relu() * scale
        return torch.cat([y, x], -1)[:, :6] + self.weight
layer = Layer()
layer.first.load_state_dict({"weight": m, "bias": w})
graph = torch.fx.symbolic_trace(layer)
found = [graph(a), torch.fx.Interpreter(graph).run(a, 3.0),
    torch.fx.Transformer(graph).transform()(b)]
graph.graph.eliminate_dead_code()
torch.fx.replace_pattern(graph, lambda x, y: torch.relu(x) * y, lambda x, y: torch.sigmoid(x) + y)
for node in graph.graph.find_nodes(op="call_method", target="relu"):
    with graph.graph.inserting_after(node):
        node.replace_all_uses_with(added := graph.graph.call_function(torch.neg, (node,)))
        added.args = (node,)
graph.recompile()
graph.graph.lint()
return (*found, graph(a), copy.deepcopy(graph)(b), pickle.loads(pickle.dumps(graph))(a),
    *graph.state_dict().values())

from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner as Partitioner
from torch.fx.passes.operator_support import create_op_support
allowed = torch.sin, torch.cos, operator.add, operator.mul, torch.relu
support = create_op_support(lambda parts, node: node.target in allowed)
def f(x, y):
    z = torch.sin(x) + y
    far, t = torch.exp(z), torch.tanh(z)
    s = torch.cos(t) * z
    r = torch.relu(y) + torch.sin(y)
    return s + r, torch.exp(s), far, torch.relu(t), (x.t() * 2).sum(0)
graph, found = torch.fx.symbolic_trace(f), []
named = {node.name: node for node in graph.graph.nodes}
for move in (None, ("tanh", "add", "y"), ("relu", "y", "exp"), ("cos", "tanh", "x")):
    if move:
        node, old, new = map(named.get, move)
        node.replace_input_with(old, new)
        graph.recompile()
    every = Partitioner(graph, support, allows_single_node_partition=True)
    Partitioner(graph, support, non_compute_ops=["add"]).propose_partitions()
    found += graph(a, b)
made = every.fuse_partitions(every.propose_partitions(), prefix="joined")
made.graph.lint()
return *found, *made(a, b), *made(b, a)

from torch.fx.passes.split_module import split_module
from torch.fx.passes.shape_prop import ShapeProp
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.inner = torch.nn.Parameter(m.clone()), torch.nn.Linear(6, 6)
    def forward(self, x, y):
        z = (x @ self.weight).relu()
        t = self.inner(z) + y
        s = torch.sin(t) * z
        return s + self.weight.sum(), t.sum(0)
layer = Layer()
layer.inner.load_state_dict({"weight": n, "bias": v})
graph, found, codes = torch.fx.symbolic_trace(layer), [], []
for count, in_order in ((2, False), (3, True), (5, False)):
    order = {node: at for at, node in enumerate(graph.graph.nodes)}
    parts = split_module(graph, layer, lambda node: order[node] * count // len(order),
        keep_original_order=in_order)
    ShapeProp(parts).propagate(a, b)
    for node in parts.graph.nodes:
        meta = node.meta.get("tensor_meta")
        codes.append([*meta.shape, *meta.stride] if hasattr(meta, "shape") else [len(meta or ())])
    found += [*parts(a, b), *parts(b, a)]
return *found, *map(torch.tensor, codes)

from torch.fx.passes.dialect.common.cse_pass import CSEPass
from torch.fx.passes.infra.pass_base import PassResult
from torch.fx.passes.infra.pass_manager import PassManager
from torch.fx.passes.reinplace import reinplace
from torch.fx.experimental.proxy_tensor import make_fx
def f(x, y):
    z = x.clone()
    z = z.add(1).mul(y)
    t, s = x.sin() + y.cos(), x.sin() + y.cos()
    r = torch.zeros_like(x).view(-1)
    return z.relu(), t * s, r.add(1).view_as(x), x.sum(0) + x.sum(0), x.sum(1)
def dropped(graph):
    return PassResult(graph, graph.graph.eliminate_dead_code())
graph = make_fx(f)(a, b)
cse = CSEPass()
manager = PassManager([dropped, cse, dropped], run_checks_after_each_pass=True, steps=3)
result = manager(graph)
before = [*result.graph_module(a.clone(), b)]
again = make_fx(torch.func.functionalize(result.graph_module))(a.clone(), b)
changed = reinplace(make_fx(f)(a, b), a.clone(), b)
x = a.clone()
return *before, *again(a.clone(), b), *changed(x, b), x

from torch.fx.passes.utils import matcher_utils, source_matcher_utils as sources
from torch.fx.subgraph_rewriter import replace_pattern_with_filters as replaced
def f(x, y):
    z = torch.relu(x + y) * 2
    t = torch.relu(z + x) * 3
    s = torch.relu(t + 1.0)
    return z - s, torch.relu(s + t).sum(0), t
graph, small = map(torch.fx.symbolic_trace, (f, lambda x, y: torch.relu(x + y)))
sizes = []
for name in ("none", "match_output", "ignore_literals", "match_placeholder"):
    matcher = matcher_utils.SubgraphMatcher(small.graph, **({name: True} if name != "none" else {}))
    for given in (graph.graph, small.graph):
        sizes.append([len(matcher.match(given))])
tensors = lambda match, *_: all(hasattr(each, "op") for each in match.placeholder_nodes)
early = lambda match, original, pattern: match.anchors[0].name == "relu"
made = []
for filters in ([early], [tensors], [tensors, early], []):
    other = torch.fx.symbolic_trace(f)
    matches = replaced(other, lambda x, y: torch.relu(x + y),
        lambda x, y: torch.sigmoid(x * 0.5) + y, filters, ignore_literals=not filters)
    made += [*other(a, b), torch.tensor([len(each.replacements) for each in matches] + [9])]
graph = torch._dynamo.export(torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.ReLU()))(a)[0]
parts = sources.get_source_partitions(graph.graph, [torch.nn.Linear, torch.nn.ReLU, torch.add])
one, other = ([each for kind in parts[key] for each in [kind]][0] for key in [*parts][:2])
linked = sources.check_subgraphs_connected
sizes.append([len(one.nodes), len(other.input_nodes), linked(one, other), linked(other, one)])
return *made, *map(torch.tensor, sizes)

from torch.fx import Graph, GraphModule
f = lambda x, y: (torch.sin(x) * y + torch.cos(y)).sum(0)
source = torch.fx.symbolic_trace(f).graph
graph = Graph()
copied = {}
result = graph.graph_copy(source, copied)
first = next(iter(graph.nodes))
with graph.inserting_before(result):
    more = graph.node_copy(copied[[*source.nodes][2]], lambda node: node)
with graph.inserting_after(first):
    scale = graph.get_attr("deep.scale")
last = graph.call_function(torch.mul, (result, scale))
graph.output((last, more, [result, {"x": scale}], slice(None)))
result.append(more)
more.prepend(scale)
owner = torch.nn.Module()
owner.deep = torch.nn.Module()
owner.deep.scale = torch.nn.Parameter(v.clone())
made = GraphModule(owner, graph)
order = [*graph.nodes]
users = [len(node.users) for node in order]
order[-2].replace_input_with(scale, first)
order[-2].update_arg(1, 2.0)
graph.erase_node(graph.call_function(torch.neg, (first,)))
made.recompile()
x = made(a, b)
made.graph.eliminate_dead_code()
made.add_submodule("extra.one", torch.nn.Linear(6, 6))
kept = len([*made.named_modules()])
made.delete_all_unused_submodules()
return x[0], x[1], x[2][0], x[2][1]["x"], torch.tensor([*users, kept, len([*made.named_modules()]),
    len(order), order[1] < order[2]])

class Leaves(torch.fx.Tracer):
    def is_leaf_module(self, module, name):
        return isinstance(module, Inner) or super().is_leaf_module(module, name)
    def create_proxy(self, kind, target, args, kwargs, *more, **others):
        made = super().create_proxy(kind, target, args, kwargs, *more, **others)
        made.node.meta["at"] = len(self.graph.nodes)
        return made
    to_bool = lambda self, proxy: True
    iter = lambda self, proxy: iter([proxy[0], proxy[1]])
class Inner(torch.nn.Module):
    def forward(self, x, scale=1.0):
        return x.sin() if x.shape[0] > 99 else x * scale
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = Inner(), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())
    def forward(self, x, y, flag=True):
        one, other = x = self.outer(x) if y.sum() > 0 else x
        return self.inner(x, scale=3.0) + len([one, other]) + one * (2 if flag else 5), y[..., 1:]
class Swapped(torch.fx.Transformer):
    def call_module(self, target, args, kwargs):
        return args[0].cos() if target[-1] == "1" else super().call_module(target, args, kwargs)
class Counted(torch.fx.Interpreter):
    def run_node(self, node):
        ran.append([node.meta.get("at", 0), len(node.args)])
        return super().run_node(node)
ran, tracer = [], Leaves()
graph = tracer.trace(Layer(), concrete_args={"flag": False})
made = torch.fx.GraphModule(tracer.root, graph)
known = {node: b * 2 for node in graph.find_nodes(op="call_module", target="outer.0")}
return (*made(a, b, False), *Counted(made).run(b, a, False), *Swapped(made).transform()(a, b,
    False), *Counted(made, False).run(a, b, False, initial_env=known), torch.tensor(ran))

from torch._decomp import get_decompositions
from torch.fx.experimental.proxy_tensor import make_fx
aten = torch.ops.aten
table = get_decompositions([aten.native_layer_norm, aten.addmm, aten.silu, aten._softmax, aten.t])
def f(x, y):
    z = torch.nn.functional.layer_norm(x, (x.shape[1],))
    t = torch.addmm(y, z, z.t() @ z) if x.shape[0] > 2 else z
    return torch.nn.functional.silu(t), t.softmax(-1), t.view(x.shape[0] * 2, -1), x.shape[0] + 1
found, parts = [], []
for mode, given in (("symbolic", None), ("symbolic", table), ("fake", table), ("real", {})):
    graph = make_fx(f, tracing_mode=mode, decomposition_table=given)(a, v)
    text = " ".join(str(node.target) for node in graph.graph.nodes)
    parts.append([part in text for part in ("native_layer_norm", "addmm", "sym_size", "aten.silu")])
    sizes = [a, torch.cat([a, b]), torch.cat([a, b])[:5]] if mode == "symbolic" else [b]
    found += [each for x in sizes for each in graph(x, v)]
return *map(torch.as_tensor, found), torch.tensor(parts)

from torch.fx.experimental import symbolic_shapes as shapes
from torch._dynamo.source import ConstantSource
env = shapes.ShapeEnv(specialize_zero_one=True, duck_shape=False)
dims = shapes.DimDynamic.DYNAMIC
def made(value, name):
    source = ConstantSource(name)
    symbol = env.create_symbol(value, source, dynamic_dim=dims, constraint_dim=None)
    return env.create_symintnode(symbol, hint=value, source=source)
s, t, r = made(6, "one"), made(4, "two"), made(24, "three")
known, maybe = shapes.statically_known_true, shapes.guard_or_false
before = [known(s > 0), known(s >= 2), known(s > 5), known(s * t == r), known(s + 1 > s)]
checks = [bool(s * t == r), bool(s > t), bool((s * 2) % 3 == 0), bool(r // t == s), bool(s < 9)]
after = [known(s * t == r), known(s < 10), known(s < 8), known(s > t)]
u, k = env.create_unbacked_symint(), env.create_unbacked_symint()
loose = [maybe(u > 3), maybe(u == 0), shapes.guard_or_true(u == 5), known(u == u), known(u + 1 > u)]
torch._check(u >= 2)
torch._check(u <= 9)
torch._check(k == u * 2)
tight = [maybe(u > 1), maybe(u < 10), known(k <= 17)]
ranges = [env.bound_sympy(x.node.expr) for x in (u, k, u + k, (u * 7) // 2, s % 5, -u)]
spans = (2, 9), (4, 18), (6, 27), (7, 31), (0, 4), (-9, -2)  # bounds may be wider than these
ends = [bool(one.lower <= low and one.upper >= high) for one, (low, high) in zip(ranges, spans)]
hints = [int(x.node.hint) for x in (s, t, r, s * t - r, s % 4, abs(t - s), torch.sym_max(s, 9))]
return [torch.tensor(x) for x in (before, checks, after, loose, tight, ends, hints)]

import itertools, operator, sympy
from torch.utils._sympy.value_ranges import SymPyValueRangeAnalysis as Analysis, ValueRanges
spans = (-4, 3), (-5, -1), (0, 4), (1, 3), (2, 2), (6, 7)
python = {"floordiv": operator.floordiv, "mod": lambda x, y: abs(x) % abs(y) * (-1 if x < 0 else 1),
    "python_mod": operator.mod, "add": operator.add, "mul": operator.mul, "minimum": min,
    "maximum": max, "bitwise_and": operator.and_, "bitwise_or": operator.or_, "lt": operator.lt,
    "eq": operator.eq, "ge": operator.ge, "pow_by_natural": operator.pow,
    "abs": lambda x, y: abs(x)}
holds = []
for name, function in python.items():
    for left, right in itertools.product(spans, spans):
        if right[0] < 1 and name in ("mod", "python_mod", "floordiv", "pow_by_natural"):
            continue
        known = [ValueRanges(*map(sympy.Integer, span)) for span in (left, right)]
        if name == "abs":
            known.pop()
        got = getattr(Analysis, name)(*known)
        values = [function(x, y) for x in range(left[0], left[1] + 1)
            for y in range(right[0], right[1] + 1)]
        if got.is_bool:
            holds.append(all((got.lower == got.upper) <= (bool(got.lower) == x) for x in values))
            continue
        holds.append(bool(got.lower <= min(values)) and bool(got.upper >= max(values)))
return torch.tensor(holds)

import sympy
from torch.utils._sympy import functions, interp, reference, solve
x, y = sympy.symbols("x y", integer=True)
z = sympy.Symbol("z", integer=True, positive=True)
F, found = functions, []
forms = [F.FloorDiv(x, y), F.PythonMod(x, y), F.FloorDiv(x * 6 + y * 3, 3), F.Max(x, y + 1, 3),
    F.FloorDiv(F.FloorDiv(x, 2), 3), F.Min(x * 2, y, 5), F.Where(sympy.Gt(x, y), x + 1, y - 1),
    F.CeilDiv(x, z), F.ModularIndexing(z * 5, 2, 3), F.Mod(z * 7, 4), F.PythonMod(x * 4 + 8, 4),
    F.LShift(z, 2), F.RShift(z * 9, 1), F.PowByNatural(x, z), F.CleanDiv(z * 6, 3), F.Identity(x),
    F.ModularIndexing(F.ModularIndexing(z * 8 + y, 1, 64), 2, 4), F.FloorDiv(x * z, z),
    F.Max(F.Min(x, 4), F.Min(y, 4)), F.FloorDiv(z, z + 1), F.Mod(z * 6 + 3, 3), F.Max(z, 0)]
for one, other, positive in ((7, 2, 3), (-7, 2, 1), (5, -3, 6), (-8, -3, 2), (0, 4, 5)):
    known = {x: sympy.Integer(one), y: sympy.Integer(other), z: sympy.Integer(positive)}
    usual = [form for form in forms if other > 0 or not form.has(F.ModularIndexing)]
    found.append([int(form.subs(known)) for form in usual])
    run, values = interp.sympy_interp, {x: one, y: other, z: positive}
    found.append([int(run(reference.PythonReferenceAnalysis, values, form)) for form in forms[:6]])
for text in (sympy.Ge(x * 3 + 4, y), sympy.Eq(x * 2 + 6, 10), sympy.Lt(F.FloorDiv(x, 4), 3)):
    solved = solve.try_solve(text, x)[0]
    found.append([bool(solved.subs({x: at, y: 5})) for at in (-3, 1, 2, 11, 12)])
return [torch.tensor(each) for each in found]

import collections, dataclasses
from torch.utils import _pytree as pytree
Point = collections.namedtuple("Point", ["left", "right"])
@dataclasses.dataclass
class Pair:
    one: object
    other: object = None
class Box:
    def __init__(self, *items):
        self.items = items
pytree._private_register_pytree_node(Box, lambda box: (box.items, len(box.items)),
    lambda items, count: Box(*items), flatten_with_keys_fn=lambda box: (
        [(pytree.SequenceKey(at), each) for at, each in enumerate(box.items)], len(box.items)),
    serialized_type_name="program.Box")
pytree._private_register_pytree_node(Pair, lambda pair: ([pair.one, pair.other], None),
    lambda items, _: Pair(*items), serialized_type_name="program.Pair")
try:
    tree = {"z": Point(a, [b, None]), "y": collections.defaultdict(list, {2: (a * 2,), 1: []}),
        "x": Box(b * 3, Pair(a.sum(), 4)), "w": collections.OrderedDict(t=1, s=a[0])}
    tree["v"] = collections.deque([a[1], True], maxlen=3)
    leaves, spec = pytree.tree_flatten(tree)
    doubled = pytree.tree_map_only(torch.Tensor, lambda x: x * 2, tree)
    back = pytree.tree_unflatten(leaves[::-1], spec)
    keys, _ = pytree.tree_flatten_with_path(tree["w"])
    merged = pytree.tree_map(lambda x, y: [x, y], [a, (b,)], [1, (2,)])
    spread = pytree._broadcast_to_and_flatten([1, 2], pytree.tree_structure([(a, b), {"s": a}]))
    same = [spec == pytree.tree_structure(each) for each in (doubled, [tree])]
    same += [spec.num_leaves, spec.num_nodes, pytree.tree_any(lambda x: x is True, tree)]
    paths = [len(pytree.keystr(path)) for path, _ in keys]
    kinds = isinstance(back["z"], Point), back["x"].items[1].one is leaves[2], back["v"].maxlen
finally:
    pytree._deregister_pytree_node(Box), pytree._deregister_pytree_node(Pair)
every = [x for x in pytree.tree_leaves([leaves, doubled["z"], merged]) if x is not None]
return *map(torch.as_tensor, every), doubled["v"][0], torch.tensor([*same, *paths, *kinds, *spread])

from torch.fx.experimental import const_fold, normalize
from torch.fx import immutable_collections as fixed
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.shift = torch.nn.Parameter(m.clone()), torch.nn.Parameter(v.clone())
    def forward(self, x):
        scale = torch.relu(self.weight).t() + self.shift
        y = torch.nn.functional.linear(x, scale, self.shift * 2)
        return torch.add(y, x, alpha=3), torch.clamp(y, -1.0, max=2.0).sum(dim=1), scale * 2
layer = Layer()
folded = const_fold.split_const_subgraphs(layer, lambda node: node.op == "output")
folded.run_folding()
x = folded(a)
with torch.no_grad():
    layer.weight.mul_(2)
graph = torch.fx.symbolic_trace(layer)
normal = normalize.NormalizeArgs(graph, normalize_to_only_use_kwargs=True).transform()
counts = [[len(node.args), len(node.kwargs)] for node in normal.graph.nodes]
items, table = fixed.immutable_list([1, [2, 3]]), fixed.immutable_dict(x=1)
refused = []
for change in (lambda: items.append(1), lambda: table.update(y=2), lambda: items.__setitem__(0, 1)):
    try:
        change()
        refused.append(0)
    except (NotImplementedError, TypeError):
        refused.append(1)
return *x, *folded(b), *graph(a), *normal(a), torch.tensor(counts), torch.tensor(refused)

def chain(x):
    for step in range(5):
        y = torch.tanh(x @ m) if step % 3 else (x @ n).sin()
        x = x + torch.exp(-y * y) * torch.sigmoid(x)
    return x.square().mean()
found, kept = [], []
for budget in (0.7, 0.3):
    torch._dynamo.reset()
    with torch._functorch.config.patch(activation_memory_budget=budget):
        f, x, sizes = compiled(chain), a.clone().requires_grad_(), []
        f(x).backward()
        with torch.autograd.graph.saved_tensors_hooks(lambda each: (sizes.append(each.nbytes),
            each)[1], lambda each: each):
            z = f(x)
        kept.append(sum(sizes))
        found += [z, *torch.autograd.grad(z, x), x.grad]
return *found, torch.tensor(kept[0] >= kept[1])  # a smaller budget keeps no more

from torch.utils import checkpoint as saving
Policy, aten = saving.CheckpointPolicy, torch.ops.aten
saved = {"products": [aten.mm.default, aten.addmm.default], "sines": [aten.sin.default], "none": []}
def made(kind):
    def policy(context, op, *args, **kwargs):
        return Policy.MUST_SAVE if op in saved[kind] else Policy.MUST_RECOMPUTE
    contexts = functools.partial(saving.create_selective_checkpoint_contexts, policy)
    def inner(x, y):
        z = (x @ m).sin() * (x @ n).cos()
        return torch.nn.functional.gelu(z @ y).sin().exp()
    return compiled(lambda x, y: saving.checkpoint(inner, x * 2, y, use_reentrant=False,
        context_fn=contexts) + x)
found, kept = [], []
for kind in saved:
    f, sizes = made(kind), []
    x, y = a.clone().requires_grad_(), m.clone().requires_grad_()
    for _ in range(2):
        with torch.autograd.graph.saved_tensors_hooks(lambda each: (sizes.append(each.nbytes),
            each)[1], lambda each: each):
            z = f(x, y)
    found += [z, *torch.autograd.grad(z.square().mean(), (x, y))]
    kept.append(sum(sizes))
return *found, torch.tensor(kept[2] <= min(kept))  # what must be saved is kept in addition

from torch._functorch import aot_autograd, partitioners
from torch._functorch.compilers import nop
class Many(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, scale):
        ctx.scale = scale
        ctx.set_materialize_grads(False)
        return x * scale, None, y.sin(), scale * 2
    @staticmethod
    def backward(ctx, one, _, other, last):
        missing = torch.zeros_like(one) if other is None else other
        return one * ctx.scale + missing, None if other is None else other * 5, None
def boxed(graph, given):
    return aot_autograd.make_boxed_func(graph.forward)
def f(x, y):
    one, none, other, number = Many.apply(x, y, 3.0)
    return one.cos() * number, other * one, x.sum(0), none
found = []
for split in (partitioners.default_partition, partitioners.min_cut_rematerialization_partition):
    g = aot_autograd.aot_function(f, boxed, nop, partition_fn=split,
        decompositions={}, keep_inference_input_mutations=True)
    x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
    z = g(x, y)
    found += [*z[:3], *torch.autograd.grad(z[0].sum() + z[1].square().sum(), (x, y))]
    found += torch.autograd.grad(g(x, y)[0].sum(), (x, y), allow_unused=True)[:1]
    found += g(a, b)[:3]
return found

from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
def noted(graph, given):
    def run(*args):
        for x, y in zip(args, given):
            if torch.is_tensor(x):
                fits.extend(size == 1 or one == other
                    for size, one, other in zip(x.shape, x.stride(), y.stride()))
        return graph(*args)
    return make_boxed_func(run)
f = torch.compile(lambda x, y: ((x @ y).sin(), x.reshape(2, 3, 2, 2) * 2), dynamic=False,
    backend=aot_autograd(fw_compiler=noted, bw_compiler=noted))
found, fits = [], []
for given in (b, b.t().contiguous().t(), v.expand(4, 6)):
    x, y = a.clone().requires_grad_(), m.clone().requires_grad_()
    other = given.reshape(2, 3, 2, 2).contiguous(memory_format=torch.channels_last)
    found += torch.autograd.grad(f(x, y), (x, y), (given, other))
return *found, torch.tensor(fits)  # code is made for the strides of what it was compiled with

f = compiled(lambda x, y: (x.sin() * y).sum(-1))
x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
once, = torch.autograd.grad(f(x, y).square().sum(), x, create_graph=True)
try:
    torch.autograd.grad(once.sum(), x)
    refused = 0
except RuntimeError:
    refused = 1
def second(x, y):
    z, = torch.autograd.grad((x ** 3 * y).sum(), x, create_graph=True)
    return z, z.square().sum()
h = torch._functorch.aot_autograd.aot_function(second, lambda graph, given: graph)
t = h(x, y)
j = compiled(lambda x: (torch.func.jacrev(torch.tanh)(x), torch.func.vjp(torch.sin, x)[1](x)[0]))
layer = torch._functorch.aot_autograd.aot_module(torch.nn.Linear(6, 6), lambda graph, _: graph)
layer.load_state_dict({key: m if key.endswith("weight") else v for key in layer.state_dict()})
s = layer(x)
s.square().sum().backward()
return (once, torch.tensor(refused), t[0], *torch.autograd.grad(t[1], (x, y)), *j(v), s, x.
    grad, *(each.grad for each in layer.parameters()))

@compiled
def f(x, y, z):
    x.mul_(2)
    y.add_(x.detach().sum())
    t = z.detach()
    t.mul_(3)
    with torch.no_grad():
        z.add_(1)
    return x * y.mean(), y.view(-1)[1:], z.t(), z.t()[1:], (x + 1).view(2, -1), t
base = torch.cat([a, b, a]).requires_grad_() * 1
x, y, z = base[1:5], b.clone().view(-1), n.clone()
s = f(x, y, z)
sum(each.square().mean() for each in (s[0], s[1], s[4], base)).backward()
rows, flat = b.clone(), a.clone().view(-1)
again = f(rows, flat, m.clone())
same = [each.untyped_storage().data_ptr() == base.untyped_storage().data_ptr() for each in s]
views = [(each.requires_grad, each.storage_offset()) for each in s]
@compiled
def g(x, y):
    x.unsqueeze_(0).t_() if x.dim() == 1 else x.t_()
    return x + 1, x.transpose(0, -1), x * y.sum()
r, t = a.clone(), v.clone()
return (*s, base, z, *again, rows, flat, torch.tensor(same), torch.tensor(views), *g(r, a), r,
    *g(t, a), t, torch.tensor([*r.stride(), *t.stride()]))

from torch.utils import _pytree as pytree
class Scaled(torch.Tensor):
    @torch._dynamo.disable
    def __new__(cls, inner, scale):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, strides=inner.stride(),
            dtype=inner.dtype, requires_grad=inner.requires_grad)
    @torch._dynamo.disable
    def __init__(self, inner, scale):
        self.inner, self.scale = inner, scale
    def __tensor_flatten__(self):
        return ["inner"], self.scale
    @staticmethod
    def __tensor_unflatten__(inner, scale, size, stride):
        return Scaled(inner["inner"], scale)
    @classmethod
    def __torch_dispatch__(cls, function, kinds, args, kwargs=None):
        scales = [x.scale for x in pytree.tree_leaves(args) if isinstance(x, cls)]
        args, kwargs = pytree.tree_map_only(cls, lambda x: x.inner, (args, kwargs or {}))
        result = function(*args, **kwargs)
        if function is torch.ops.aten.sin.default:
            result = result * scales[0]
        return pytree.tree_map_only(torch.Tensor, lambda x: cls(x, scales[0] + 1), result)
f = compiled(lambda x, y: (x.sin() * y, x.t().clone(), (x @ m).relu().sum(0)))
x = Scaled(a.clone(), 2.0)
y = f(x, b), f(Scaled(b, 5.0), Scaled(a, 1.0)), f(Scaled(b, 2.0), b)
every = [each for one in y for each in one]
return *(each.inner for each in every), torch.tensor([each.scale for each in every])

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(6, 6)
        self.last = torch.nn.Linear(6, 6)
        self.last.weight = self.first.weight
        self.register_buffer("total", torch.zeros(6))
    def forward(self, x, y, scale=2):
        torch._check(x.shape[0] <= 40)
        self.total.add_(x.sum(0))
        z = self.last(self.first(x).relu()) * scale
        return z[: y.shape[0]] + y, self.total * 2, x.shape[0] * 3
layer = Layer()
layer.load_state_dict({"first.weight": m, "first.bias": v, "last.weight": m, "last.bias": w,
    "total": v})
rows = torch.export.Dim("rows", min=3, max=20)
shapes = {"x": {0: rows}, "y": {0: torch.export.Dim.AUTO}, "scale": None}
made = torch.export.export(layer, (torch.cat([a, b]), b), {"scale": 3}, dynamic_shapes=shapes)
found, refused, module = [], [], made.module()
for x, y, scale in ((a, b, 3), (torch.cat([a, b, a]), a, 3), (a[:2], b[:2], 3), (a, b, 4)):
    try:
        found += module(x, y, scale=scale)
        refused.append(0)
    except Exception:
        refused.append(1)
flat = torch.export.unflatten(made)
signature = made.graph_signature
counts = [len(signature.parameters), len(signature.buffers_to_mutate), len(made.state_dict)]
found += flat(a, b, scale=3)
return *map(torch.as_tensor, found), torch.tensor(refused), torch.tensor(counts), module.total

drop, saved = torch.nn.functional.dropout, torch.utils.checkpoint.checkpoint
def inner(x):
    return drop(x * 2, 0.5) * drop(x.abs() + 1, 0.25)
f = compiled(lambda x: saved(inner, x, use_reentrant=False))
g = compiled(lambda x: (drop(x, 0.4) * 3, torch.rand_like(x), (x > -9).float().bernoulli()))
h = compiled(lambda x: torch.func.vmap(lambda t: drop(t, 0.5), randomness="different")(x))
checks = []
with torch.random.fork_rng(devices=[]):
    for seed in (1, 2):
        torch.manual_seed(seed)
        x = a.abs().add(1).requires_grad_()
        y, z, t = f(x), g(x), h(x)
        slope, other = torch.autograd.grad(y.sum(), x)[0], torch.autograd.grad(z[0].sum(), x)[0]
        factors = y / (x * (x + 1))
        checks += [(slope / (2 * x + 1) - factors).abs().amax() < 1e-3, (y != 0).any(), (other * x -
            z[0]).abs().amax() < 1e-3, ((t == 0) | ((t - 2 * x).abs() < 1e-3)).all(), z[2].all()]
        torch.manual_seed(seed)
        checks += [(f(x) - y).abs().amax() == 0, (g(x)[1] - z[1]).abs().amax() == 0]
        checks += [(z[1] >= 0).all() & (z[1] < 1).all(), (h(x) == t).all()]
return torch.stack(checks)

import weakref
refs, living = [], []
def step(x, y=None):
    living.append(sum(ref() is not None for ref in refs))
    z = x.sin() + 1 if y is None else x * y
    refs.append(weakref.ref(z))
    return z
class Step(torch.nn.Module):
    forward = staticmethod(step)
root, graph = torch.nn.Module(), torch.fx.Graph()
root.step = Step()
last = first = graph.placeholder("x")
for at in range(7):
    last = graph.call_module("step", (last, first) if at == 4 else (last,))
graph.output(last)
made = torch.fx.GraphModule(root, graph)
x = made(a)
y = torch.fx.Interpreter(made).run(b)
return x, y, torch.tensor(max(living) <= 2)

from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
layouts = a, a.t(), q, q.transpose(1, 3), q.permute(3, 0, 2, 1), a[:, ::2], a.half().t(), i
functions = (torch.exp, torch.neg, torch.relu, torch.tanh, torch.abs, torch.sigmoid, torch.clone,
    torch.ones_like, torch.nn.functional.gelu, lambda x: x * 2, lambda x: x + x,
    lambda x: x.double(), lambda x: torch.where(x > 0, x, x * 3), lambda x: x.contiguous())
found, kinds = [], (DimDynamic.DYNAMIC, DimDynamic.STATIC)
for static in (False, True):
    mode = FakeTensorMode(shape_env=ShapeEnv())
    for x in layouts:
        sizes = [kinds[static and at > 0] for at in range(x.dim())]
        fake = mode.from_tensor(x, symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes))
        for function in functions:
            y = function(fake)
            found += [int(size) for size in (*y.shape, *y.stride())]
return torch.tensor(found)

def step(x, y):
    x.mul_(2)
    return y * 3
views = (lambda x: x[:, 0], lambda x: x[3], lambda x: x[::2], lambda x: x[4:], lambda x: x.t()[1],
    lambda x: x[:, 4:])
found = []
for at, first in enumerate(views):
    for second in (*views[:at][:2], *views[at + 1 :][:2]):
        torch._dynamo.reset()
        x = a.clone()
        found += [compiled(step)(first(x), second(x)), x]
return found
"""
# The first lines of a program.
_COMPILED = """import functools
torch._dynamo.reset()
compiled = functools.partial(torch.compile, backend="{backend}")
"""


def program_texts(names: Iterable[str]) -> str:
    """Texts of programs that compile the functions they call, separated by empty lines. Programs of
    Python code are for names of Dynamo, and programs of graphs for other names.
    """
    of_dynamo = [name.startswith("torch._dynamo.") for name in names]
    texts = {"eager": _PYTHON} if any(of_dynamo) else {}
    backend = "aot_eager_decomp_partition"
    texts[backend] = _HIGHER if all(of_dynamo) else f"{_HIGHER.rstrip()}\n{_GRAPHS}"
    return "\n\n".join(
        compiling(backend, text.strip().split("\n\n")) for backend, text in texts.items()
    )


def compiling(backend: str, programs: Iterable[str]) -> str:
    """Join the texts by empty lines. Each gets first lines that let it compile with the backend."""
    return "\n\n".join(_COMPILED.format(backend=backend) + program for program in programs)
