"""Programs of torch's library around operators: distributions, derivatives, containers, initial
weights, copies, loaders of data, schedules of learning rates.

All run in eager mode. A patch may draw other random numbers from the same seed. So the shapes, the
moments and the generator of random numbers are compared, but not the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from torch.distributions import kl

_EAGER = """
d = torch.distributions
x = d.MADE
y = x.expand((2, *x.batch_shape))
found = [x.log_prob(VALUE), y.log_prob(VALUE)]
for each in ("mean", "variance", "mode", "entropy", "cdf", "enumerate_support"):
    try:
        value = getattr(x, each)
        found.append(value(*[VALUE] * (each == "cdf")) if callable(value) else value)
    except NotImplementedError:
        pass
with torch.random.fork_rng():
    z = [x.sample((2, 3)).shape, y.sample().shape]
    if x.has_rsample:
        z.append(x.rsample((2,)).shape)
return *found, torch.tensor([size for shape in z for size in shape])
"""
_COMPILED = """
d = torch.distributions
f = lambda v, w: d.MADE.log_prob(VALUE)
torch._dynamo.reset()
return f(v, w), torch.compile(f, backend="eager", fullgraph=True)(v, w)
"""
# Distribution -> a value that it may give.
_DISTRIBUTIONS = {
    "Normal(v, w)": "v * 2",
    "LogNormal(v, w)": "w",
    "Laplace(v, w)": "v * 2",
    "Cauchy(v, w)": "v * 2",
    "Gumbel(v, w)": "v * 2",
    "StudentT(w + 2, v, w)": "v * 2",
    "HalfNormal(w)": "w * 2",
    "HalfCauchy(w)": "w * 2",
    "Exponential(w)": "w * 2",
    "Gamma(w, w + 1)": "w * 2",
    "Chi2(w)": "w * 2",
    "Beta(w, w + 1)": "v.sigmoid()",
    "Kumaraswamy(w, w + 1)": "v.sigmoid()",
    "Dirichlet(w)": "v.softmax(0)",
    "Uniform(v, v + w)": "v + w / 2",
    "Pareto(w, w + 1)": "w * 3",
    "Weibull(w, w + 1)": "w * 2",
    "VonMises(v, w)": "v",
    "Bernoulli(logits=v)": "(v > 0).float()",
    "Bernoulli(v.sigmoid())": "(v > 0).float()",
    "Geometric(logits=v)": "(v > 0).float()",
    "Poisson(w)": "(v > 0).float()",
    "Binomial(5, logits=v)": "(v > 0).float()",
    "NegativeBinomial(5.0, logits=v)": "(v > 0).float()",
    "Categorical(logits=v)": "torch.tensor(3)",
    "OneHotCategorical(probs=v.softmax(0))": "torch.eye(6)[2]",
    "Independent(d.Normal(v, w), 1)": "v * 2",
    "MultivariateNormal(v, torch.diag(w))": "v * 2",
    "LowRankMultivariateNormal(v, torch.diag(v), w)": "v * 2",
    "MixtureSameFamily(d.Categorical(logits=v), d.Normal(v, w))": "torch.tensor(0.3)",
    "TransformedDistribution(d.Normal(v, w), [d.SigmoidTransform()])": "v.sigmoid()",
    "RelaxedBernoulli(torch.tensor(0.7), logits=v)": "v.sigmoid()",
    "RelaxedOneHotCategorical(torch.tensor(0.7), logits=v)": "v.softmax(0)",
    "OneHotCategoricalStraightThrough(logits=v)": "torch.eye(6)[2]",
    "ContinuousBernoulli(logits=v)": "v.sigmoid()",
    "InverseGamma(w + 3, w)": "w * 2",
    "FisherSnedecor(w + 5, w + 5)": "w * 2",
    "LogisticNormal(v[:5], w[:5])": "v.softmax(0)",
    "Multinomial(6, logits=v)": "torch.ones(6)",
    "LKJCholesky(3, 0.7)": "torch.eye(3)",
    "Wishart(torch.tensor(7.0), torch.diag(w))": "torch.diag(w)",
}
# Distributions at the bounds of their parameters, and of a batch of events.
_FURTHER = """
Uniform(v * 0, v * 0 + 1)
Beta(w * 0 + 1, w * 0 + 1)
Gamma(w * 0 + 1, w)
Bernoulli((v > 0).float())
Binomial(5, (v > 0).float())
Geometric((v > 0) * 0.5 + 0.5)
Categorical(torch.tensor([0.5, 0.0, 0.25, 0.25, 0.0, 0.0]))
OneHotCategorical(torch.eye(6)[2])
Poisson(w * 0)
Dirichlet(w.view(2, 3))
Independent(d.Normal(v.view(2, 3), w.view(2, 3)), 1)
MultivariateNormal(v.view(2, 3), torch.eye(3))
TransformedDistribution(d.Independent(d.Normal(v.view(2, 3), w.view(2, 3)), 1), AFFINE)
TransformedDistribution(d.Normal(v.view(2, 3), w.view(2, 3)), d.IndependentTransform(AFFINE, 1))
""".replace("AFFINE", "d.AffineTransform(0.5, 2.0)")
_DIVERGENCE = """
d = torch.distributions
return d.kl_divergence(d.FIRST, d.SECOND)
"""
_OTHERS = """
d = torch.distributions
x, y = d.Normal(v, w), d.Normal(w, w + 1)
return d.kl_divergence(x, y), d.kl_divergence(d.Gamma(w, w), d.Gamma(w + 1, w)), d.kl_divergence(
    d.Categorical(logits=v), d.Categorical(logits=w)
)

d = torch.distributions
x = (d.ExpTransform(), d.TanhTransform(), d.SoftplusTransform(), d.AffineTransform(v, w),
    d.PowerTransform(torch.tensor(3.0)), d.StickBreakingTransform(), d.SoftmaxTransform(),
    d.ReshapeTransform((6,), (2, 3)), d.LowerCholeskyTransform(), d.CorrCholeskyTransform(),
    d.ComposeTransform([d.SigmoidTransform(), d.AffineTransform(1.0, 2.0)])
)
given = [m if each.domain.event_dim == 2 else w for each in x]
y = [each(value) for each, value in zip(x, given)]
z = [each.inv(value) for each, value in zip(x, y)]
return *y, *z, *(x[at].log_abs_det_jacobian(given[at], y[at]) for at in (0, 1, 2, 3, 4, 5))

d = torch.distributions
x = d.transform_to(d.constraints.positive)(v), d.biject_to(d.constraints.simplex)(v)
return *x, *(each.check(v) for each in (d.constraints.real, d.constraints.unit_interval))

f = torch.func
g = lambda x: (x @ m).sin().sum(-1)
return (f.jacrev(g)(a), f.jacfwd(g)(a), f.hessian(lambda x: (x * v).sin().sum())(w),
    *f.jvp(g, (a,), (b,)), *f.vjp(g, a)[1](v[:4]), *f.grad_and_value(lambda x: g(x).sum())(a),
    f.functionalize(lambda x: x.clone().add_(1))(a), f.linearize(g, a)[1](b)
)

f, rows = torch.func.vmap, torch.arange(260.0).view(130, 2)
add = lambda x: x + torch.rand(2)
with torch.random.fork_rng():
    x, y = (f(add, randomness=each)(rows) - rows for each in ("same", "different"))
    z = f(add, randomness="same", chunk_size=50)(rows[:70]) - rows[:70]
t = [(each.max(0)[0] - each.min(0)[0] < 0.1).all() for each in (x, y, z[:50])]
return *map(torch.Tensor.float, t), f(torch.dot)(rows, rows), f(torch.sin, 1, 1)(rows), f(
    lambda x, y: (x * y, x.sum()), (None, 0), chunk_size=7)(v[:2], rows)[0]

f, g = torch.autograd.functional, lambda x: (x @ m).sin().sum(-1)
h = lambda x: g(x).sum()
return (f.jacobian(g, a), f.hessian(h, v), *f.jvp(g, a, b), *f.vjp(g, a, v[:4]), *f.hvp(h, v, w),
    *f.vhp(h, v, w)
)

layers = [torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)]
for each, x in zip(layers, (m, n)):
    each.load_state_dict({"weight": x, "bias": v})
x, y = torch.func.stack_module_state(layers)
call = lambda x, y: torch.func.functional_call(layers[0], (x, y), (a,))
z = torch.nn.Sequential(torch.nn.BatchNorm1d(6))
torch.func.replace_all_batch_norm_modules_(z)
return torch.func.vmap(call)(x, y), *x.values(), z(a), torch.tensor(z[0].running_mean is None)

f = torch.nn.functional
x = [each(a.clone()) for each in (f.relu_, f.elu_, f.celu_, f.selu_, f.hardtanh_, f.leaky_relu_)]
y = f.threshold_(a.clone(), 0.1, 2.0), f.lp_pool1d(q[0], 2.0, 2), f.lp_pool2d(image, 3.0, 2, 1)
z = f.max_pool1d_with_indices(q[0], 2), f.adaptive_max_pool2d_with_indices(image, (2, 3))
return *x, *y, *z[0], *z[1], f.conv_tbc(q[0], k[0].mT[:2, :, :3].contiguous(), v[:3], 1), (
    f.upsample(image, scale_factor=2))

f = torch.nn.functional
with torch.random.fork_rng():
    x, y = f.gumbel_softmax(a, 0.5, hard=True), f.gumbel_softmax(a, 0.5, dim=0)
    z = f.dropout1d(q[0] + 9, 0.5) != 0, f.dropout2d((image + 9).flatten(2, 2), 0.5).flatten(2) != 0
t = torch.tensor([bool((each.all(-1) | ~each.any(-1)).all()) for each in z])
return x.sum(-1), y.sum(0), x.max(-1)[0], f.dropout1d(q[0], 0.5, False), f.dropout(a, 0.0), t

n = torch.nn
x = n.ParameterDict({"x": m, "y": v}), n.ParameterList([m, v]), n.ModuleDict({"z": n.Linear(6, 6)})
x[2]["z"].load_state_dict({"weight": m, "bias": v})
y, places = n.MaxPool2d(2, return_indices=True)(image)
t = torch.tensor([sorted(x[0].keys()) == ["x", "y"], len(x[1]), "z" in x[2]])
return (t, x[0]["x"], x[1][1], x[2]["z"](a), n.MaxUnpool2d(2)(y, places), n.Identity()(a),
    n.TripletMarginWithDistanceLoss(margin=0.5)(a, b, a * 0.5), n.Dropout(0.0)(a),
    *x[0].state_dict().values(), n.AlphaDropout().eval()(a)
)

s = torch.nn.utils.rnn
x = s.pack_sequence([a, b[:2]], enforce_sorted=False)
y = s.unpad_sequence(s.pad_sequence([a, b[:2]]), torch.tensor([4, 2]))
return x.data, *s.unpack_sequence(x), *y

layer = torch.nn.Linear(6, 6)
layer.load_state_dict({"weight": m, "bias": v})
f = torch.nn.utils
with torch.random.fork_rng():
    x = f.weight_norm(layer, dim=0)(a), layer.weight_g, layer.weight_v
    f.remove_weight_norm(layer)
    other = f.skip_init(torch.nn.Linear, 6, 3)
y = f.fuse_conv_bn_eval(torch.nn.Conv2d(4, 4, 3).eval(), torch.nn.BatchNorm2d(4).eval())
return *x, layer(b), torch.tensor([*other.weight.shape, *y.weight.shape])

f, found = torch.nn.utils, []
for make in (f.spectral_norm, f.parametrizations.spectral_norm, f.parametrizations.orthogonal):
    layer = torch.nn.Linear(6, 6)
    layer.load_state_dict({"weight": m, "bias": v})
    with torch.random.fork_rng():
        make(layer)
    for name, each in layer.named_buffers():
        each.copy_(v / v.norm() if name.endswith("_u") else w / w.norm() if "_v" in name else each)
    x = layer(a), layer(b)
    sum(each.square().sum() for each in x).backward()
    found += [*x, *(each.grad for each in layer.parameters())]
    found += [layer.eval()(a), layer(b), *layer.state_dict().values()]
return found

x = torch.masked.masked_tensor(a, a > 0)
y = torch.masked
return (x.sum().get_data(), (x * 2).to_tensor(0.0), y.softmax(a, -1, mask=a > 0).nan_to_num(),
    y.mean(a, 0, mask=a > 0).nan_to_num(), y.var(a, -1, mask=a > -1).nan_to_num()
)

x = torch.nested.nested_tensor([a, b[:2]], layout=torch.jagged)
y = torch.nested.as_nested_tensor([a, b[:2]], layout=torch.jagged) * 2
return x.offsets(), *x.unbind(), torch.nested.to_padded_tensor(x, 1.5), *(y @ m).unbind()

x, y = torch.utils.data, torch.Generator().manual_seed(1)
z = x.ConcatDataset([range(3), range(5)]), x.Subset(range(9), [2, 4])
t = [*x.WeightedRandomSampler([0.0, 1.0], 4, generator=y)], sorted(x.SubsetRandomSampler([3, 1]))
return *(torch.tensor([*each]) for each in (*z, *t)), torch.tensor(x.StackDataset(a, b)[1][0])

f, found = torch.nn.init, []
for each in (f.uniform_, f.normal_, f.trunc_normal_, f.xavier_uniform_, f.xavier_normal_,
    f.kaiming_uniform_, f.kaiming_normal_, f.orthogonal_
):
    state, g = torch.random.get_rng_state(), torch.Generator()
    for x in (torch.empty(6, 4), torch.nn.Parameter(torch.empty(4, 6)), torch.empty(3, 4, 2)):
        y = [each(x, generator=g.manual_seed(by)).detach().clone() for by in (5, 5, 6)]
        found += [torch.equal(*y[:2]), torch.equal(*y[1:]), x.requires_grad, tuple(x.shape)]
    found.append(torch.equal(state, torch.random.get_rng_state()))
return torch.tensor([bool(each) for each in found])

f, found = torch.nn.init, []
with torch.random.fork_rng():
    x = [torch.empty(400, 60) for _ in range(8)]
    f.uniform_(x[0], -0.5, 2.0)
    f.normal_(x[1], 1.0, 0.3)
    f.trunc_normal_(x[2], 0.5, 2.0, -1.0, 1.5)
    f.xavier_uniform_(x[3], gain=f.calculate_gain("leaky_relu", 0.3))
    f.kaiming_normal_(x[4], 0.3, "fan_out", "leaky_relu")
    f.kaiming_uniform_(x[5], nonlinearity="relu")
    f.sparse_(x[6], 0.3)
    f.orthogonal_(x[7], gain=1.5)
    y = x[7].T @ x[7]
for mean, std, each in zip((0.75, 1.0, 0.28, 0, 0, 0, 0, 0),
    (0.722, 0.3, 0.7, 0.0892, 0.068, 0.1826, 0.0084, 0.075), x
):
    found += [abs(each.mean() - mean) < 0.1 * std, abs(each.std() / std - 1) < 0.05]
return torch.tensor(found), (y * 4).round(), f.eye_(m.clone()), f.dirac_(image.clone(), 2), f.ones_(
    a.clone()), f.constant_(v.clone(), 0.3)

import copy
x = torch.nn.Parameter(a.clone())
x.grad = b.clone()
y, z = copy.deepcopy(x), copy.deepcopy([x, x])
t = torch.tensor([y.grad is None, y.requires_grad, y.is_leaf, z[0] is z[1], y is not x,
    isinstance(y, torch.nn.Parameter), y.data_ptr() == x.data_ptr()])
return y, x.grad, t, copy.deepcopy(x.grad), copy.deepcopy(torch.nn.Parameter(v, False))

import copy
layer = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 6))
layer.load_state_dict({"0.weight": m, "0.bias": v, "2.weight": n, "2.bias": w}, strict=False)
layer[2].weight = layer[0].weight
layer(a).square().sum().backward()
x = copy.deepcopy(layer)
y = torch.tensor([p.grad is None for p in x.parameters()])
x(b).sin().sum().backward()
return x(a), y, *(p.grad for p in x.parameters()), *layer.state_dict().values()

import copy, io, pickle
x, y = torch.nn.Parameter(a.clone()), a[1:, ::2]
file = io.BytesIO()
torch.save({"x": x, "y": y, "z": y[0]}, file)
file.seek(0)
z = torch.load(file)
t = pickle.loads(pickle.dumps(x))
return *z.values(), t, copy.copy(x), torch.tensor([t.requires_grad, z["x"].requires_grad])

layer = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Dropout(), torch.nn.BatchNorm1d(6))
layer[0].register_buffer("counted", v.clone(), persistent=False)
layer.eval()
x = torch.tensor([each.training for each in layer.modules()])
layer.train().apply(lambda each: each.eval() if isinstance(each, torch.nn.Dropout) else None)
layer[0].weight.grad = m.clone()
layer.zero_grad(set_to_none=False)
y = torch.tensor([each.training for each in layer.modules()])
names = sorted(layer.state_dict()), [name for name, _ in layer.named_parameters("z")]
z = torch.tensor([len(name) for known in names for name in known])
return x, y, z, layer[0].weight.grad, *(each for _, each in layer.named_buffers())

x, state = torch.utils.data, torch.random.get_rng_state()
y, g = x.TensorDataset(a, torch.arange(4)), torch.Generator()
found = []
for by in (2, 2):
    g.manual_seed(by)
    found += [torch.cat([each for _, each in x.DataLoader(y, 3, shuffle=True, generator=g)])]
    found += [torch.tensor(each.indices) for each in x.random_split(range(9), [4, 5], generator=g)]
    found += [torch.tensor([*x.RandomSampler(range(9), generator=g)])]
t = [torch.equal(*each) for each in zip(found[:4], found[4:])]
z = [*x.BatchSampler(x.SequentialSampler(range(7)), 3, True)], [*x.DataLoader(y, 2)][1]
return torch.tensor(t), torch.tensor(z[0]), *z[1], *(each.sort()[0] for each in found[::3]), (
    x.default_collate([{"x": v, "y": 1.0}, {"x": w, "y": 2.0}])["x"])

import torch.nn.utils.prune
f = torch.nn.utils
layer, other = torch.nn.Linear(6, 6), torch.nn.Conv2d(4, 4, 3)
with torch.no_grad():
    layer.weight.copy_(m), layer.bias.copy_(v), other.weight.copy_(filters)
f.prune.l1_unstructured(layer, "weight", 0.4)
x = layer(a), layer.weight_mask
f.prune.remove(layer, "weight")
y = f.convert_conv2d_weight_memory_format(other, torch.channels_last).weight
f.vector_to_parameters(torch.arange(42.0), layer.parameters())
return *x, y, layer.weight, layer.bias, f.fuse_conv_bn_weights(
    filters, None, v[:4], w[:4], 1e-5, w[:4], v[:4])[0]

s = torch.optim.swa_utils
layer = torch.nn.Linear(6, 6)
layer.load_state_dict({"weight": m, "bias": v})
x, y = s.AveragedModel(layer), s.AveragedModel(layer, multi_avg_fn=s.get_ema_multi_avg_fn(0.9))
for _ in range(3):
    with torch.no_grad():
        layer.weight.mul_(0.5)
    x.update_parameters(layer)
    y.update_parameters(layer)
return *x.state_dict().values(), *y.state_dict().values()

p, s = torch.nn.Parameter(a.clone()), torch.optim.lr_scheduler
found = []
for make in (lambda o: s.MultiStepLR(o, [2, 3]), lambda o: s.ExponentialLR(o, 0.7),
    lambda o: s.CosineAnnealingWarmRestarts(o, 3, 2), lambda o: s.PolynomialLR(o, 4, 2.0),
    lambda o: s.CyclicLR(o, 0.1, 0.5, 3), lambda o: s.ConstantLR(o, 0.2, 3),
    lambda o: s.LambdaLR(o, lambda step: 0.9**step), lambda o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.2, 2), s.ExponentialLR(o, 0.7)], [2])
):
    o = torch.optim.SGD([p], lr=0.3, momentum=0.5)
    x = make(o)
    for _ in range(6):
        o.step()
        x.step()
        found.append(torch.tensor(x.get_last_lr()))
    y = make(torch.optim.SGD([p], lr=0.3, momentum=0.5))
    y.load_state_dict(x.state_dict())
    found.append(torch.tensor([y.last_epoch, *y.get_last_lr()]))
return found

s = torch.optim.lr_scheduler
o = torch.optim.SGD([torch.nn.Parameter(a.clone())], lr=0.3)
x, found = s.ReduceLROnPlateau(o, patience=1, factor=0.3, cooldown=1), []
for value in (1.0, 0.9, 0.95, 0.93, 0.92, 0.91, 0.5, 0.6, 0.7, 0.8):
    x.step(value)
    found.append(torch.tensor(x.get_last_lr()))
return found
"""


def library_programs(*, with_distributions: bool) -> str:
    """All programs, separated by empty lines; programs of distributions only if asked for."""
    made = [
        text.replace("MADE", made).replace("VALUE", value)
        for made, value in _DISTRIBUTIONS.items()
        for text in (_EAGER, _COMPILED)
    ]
    return "\n".join([_OTHERS, *([*made, *_divergences()] if with_distributions else [])])


def _divergences() -> Iterator[str]:
    """Programs of the divergence of two distributions, one for each pair whose classes torch has a
    formula for, and one with parameters of more dimensions.
    """
    known = {(first.__name__, second.__name__) for first, second in kl._KL_REGISTRY}
    every = [*_DISTRIBUTIONS, *_FURTHER.strip().splitlines()]
    for first in every:
        for second in every:
            names = first.partition("(")[0], second.partition("(")[0]
            if names in known or names[0] == names[1]:
                text = _DIVERGENCE.replace("FIRST", first).replace("SECOND", second)
                yield text
                yield re.sub(r"\bw\b", "(b.abs() + 0.5)", re.sub(r"\bv\b", "a", text))
