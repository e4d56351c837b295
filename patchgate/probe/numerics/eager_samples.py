"""Calls of samples with other strides, dtypes and modes, and after other calls. They run in eager
mode only, where calls cost little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from patchgate.probe.numerics.derived_samples import resized
from patchgate.probe.numerics.gpu_calls import on_a_gpu
from patchgate.probe.numerics.sample_calls import (
    AUTOCAST,
    BEFORE,
    COPIES,
    DEPLOYED,
    DRAWN,
    EXPANDED_GRADIENT,
    HALVES,
    OF_A_ROW,
    OWN_GENERATOR,
    REDRAWN,
    SEED,
    SLOPE,
    TRAINED_REDRAWN,
    Sample,
    cast_sample,
    column_major,
    flat,
    tensors_in,
)

# The most samples of each kind: plain ones, trained ones, modules that are copied, calls in another
# thread, and calls that are made long.
_PLAIN, _TRAINED, _COPIED, _THREADED, _LONG = 24, 8, 10, 2, 14
_WITHOUT_GRADIENT = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
_MODES = {
    **_WITHOUT_GRADIENT,
    DEPLOYED: torch.no_grad,
    AUTOCAST: partial(torch.autocast, "cpu", dtype=torch.bfloat16),
}
#: The second derivative of a call, and training after a call in inference mode.
SECOND, AFTER_INFERENCE = "its second derivative", "after a call in inference mode"
#: Calls under `torch.vmap`, into a tensor of the caller, with many elements, with a default dtype
#: as while models are loaded in half precision, and with tensors of a GPU.
VMAPPED, INTO_OUT, LONG = "torch.vmap gives what single calls give", "with `out=`", "long"
HALF_BY_DEFAULT, ON_A_GPU = "with bfloat16 as the default dtype", "on a GPU"
#: Calls that a function may refuse. Of their errors, only one that names two devices is judged.
MAY_REFUSE = (SECOND, VMAPPED, INTO_OUT, ON_A_GPU)
_TWICE_THE_ROWS = "evaluation, with twice the rows"
# Losses of one result -> the index of the result. Autograd gives the other results no gradient.
_ONE_RESULT = {"a loss of its first result alone": 0, "a loss of its last result alone": -1}
_HOOKED = "evaluation, with hooks"
_OTHER_THREAD = "in another thread"
# The length of long calls, and the most elements of one of their tensors. The length is larger than
# the integers that half precision holds exactly, and is not a multiple of a block.
_LENGTH, _ELEMENTS = 2051, 60_000
_DROPOUTS = torch.nn.Dropout, torch.nn.Dropout1d, torch.nn.Dropout2d, torch.nn.Dropout3d
# How often a function that draws random numbers is called, and the fewest elements of its result.
_DRAWS = 8
# Slopes are measured with these seeds, this number of directions and this length of a step.
_SEEDS, _DIRECTIONS, _STEP = range(SEED, SEED + 3), 2, 2**-7
# A gradient may be wrong by these shares of the slope and of the result.
_OFF, _ROUNDED = 0.05, 1e-3
# Tensors are changed between two calls by this factor, so that they stay valid arguments.
_WRITTEN = 0.75


def eager_calls(samples: Sequence[Sample], given: Sequence[Sample]) -> list[Sample]:
    """Return calls derived from `samples`, and the given samples that are for eager mode only."""
    parts = [s for s in given if s.is_module and not s.traced]
    alone = [s for s in (*samples, *parts) if not s.is_program and not s.first]
    plain = [s for s in alone if s.how in ("", "evaluation") and not _asks_for_gradient(s)]
    trained = _of_each_form(s for s in alone if not s.how and _asks_for_gradient(s))
    in_evaluation = [s for s in alone if s.how == "evaluation"]
    found = [replace(s, how=ON_A_GPU) for s in (*plain[:_PLAIN], *in_evaluation[:_COPIED])]
    found += [each for s in plain[:_PLAIN] for each in _of_plain(s)]
    of_modules = flat(
        [[s for s in in_evaluation if _is_half(s) is is_half] for is_half in (False, True)]
    )
    found += [
        replace(s, how=how) for s in of_modules[:_PLAIN] for how in (*_WITHOUT_GRADIENT, BEFORE)
    ]
    found += [
        replace(s, how=how)
        for s in in_evaluation[:_COPIED]
        for how in (_HOOKED, *COPIES, DRAWN, AUTOCAST, HALF_BY_DEFAULT, *_ONE_RESULT)
    ]
    for parts in (plain, in_evaluation):
        found += [replace(s, how=_OTHER_THREAD) for s in parts[:_THREADED]]
    functions = [s for s in plain if not s.is_module]
    around = (INTO_OUT, VMAPPED, HALF_BY_DEFAULT)
    found += [replace(s, how=how) for s in functions[:_PLAIN] for how in around]
    backwards = [counted for s in functions[:_PLAIN] if (counted := _from_the_end(s))]
    found += [each for s in backwards[:_TRAINED] for each in (s, replace(s, how=VMAPPED))]
    found += [each for s in _of_each_form(functions)[:_LONG] for each in _long(s)]
    # Sums of many rows in half precision depend on their order.
    whole = [s for s in in_evaluation if not _is_half(s)]
    found += map(_with_twice_the_rows, whole[:_COPIED])
    for sample in trained[:_TRAINED]:
        ways = (EXPANDED_GRADIENT, SECOND, AFTER_INFERENCE, AUTOCAST, *_ONE_RESULT)
        found += [replace(sample, how=how) for how in ways]
        found += [*_laid_out(sample), _transposed(sample)]
    in_training = _of_each_form(s for s in alone if s.how == "training")
    found += map(_transposed, in_training[:_TRAINED])
    made = [replace(each, traced=False) for each in found]
    slopes = [s for s in given if s.how == SLOPE]
    alone = [s for s in given if not s.traced and s.how != SLOPE]
    return [*slopes, *flat([made, alone])]


def _of_each_form(samples: Iterable[Sample]) -> list[Sample]:
    """Take one sample of each form in turn, because a kernel may take one form only. In each form,
    samples in half precision come last.
    """
    by_form: dict[tuple[str, ...], list[Sample]] = {}
    for sample in sorted(samples, key=_is_half):
        by_form.setdefault(sample.form, []).append(sample)
    return flat([*by_form.values()])


def _is_half(sample: Sample) -> bool:
    return any(tensor.dtype in HALVES for tensor in tensors_in(sample.args))


def around_module(module: Any, how: str) -> Any:
    """Return the module with hooks, with another dropout probability, or as a copy made before the
    original's weights become zero; None if there is no module.
    """
    if module is None:
        return None
    for each in module.modules() if how in (_HOOKED, DRAWN, TRAINED_REDRAWN, SLOPE) else ():
        if how == _HOOKED:
            each.register_forward_hook(_halved)
        elif isinstance(each, _DROPOUTS):
            each.p = 0.25
    if how not in COPIES:
        return module
    copied = COPIES[how](module)
    with torch.no_grad():
        for tensor in module.parameters():
            tensor.zero_()
    return copied


def _halved(module: Any, given: Any, result: Any) -> Any:
    return pytree.tree_map(lambda leaf: leaf * 0.5 if _is_float(leaf) else leaf, result)


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def around_calls(function: Callable[..., Any], how: str) -> Callable[..., Any]:
    """Wrap the function as `how` says: in a mode, after other calls, or as its gradient."""
    if how in _MODES:
        within: Callable[..., Any] = _MODES[how]()(function)
        return within
    if how in _ONE_RESULT:
        return _with_loss_of_one(function, _ONE_RESULT[how])
    ways = {
        _OTHER_THREAD: _in_another_thread,
        BEFORE: _after_others,
        SECOND: _gradient_of,
        AFTER_INFERENCE: _after_inference,
        DRAWN: _with_one_seed,
        SLOPE: _with_slopes,
        REDRAWN: _redrawn,
        TRAINED_REDRAWN: _redrawn,
        OWN_GENERATOR: _with_own_generator,
        VMAPPED: _vmapped,
        INTO_OUT: _into_out,
        HALF_BY_DEFAULT: _with_half_by_default,
        ON_A_GPU: on_a_gpu,
        OF_A_ROW: _of_a_row,
    }
    return ways[how](function) if how in ways else function


def _of_a_row(function: Callable[..., Any]) -> Callable[..., Any]:
    """Call the function with one row, expanded to the shape of its first tensor. The row is
    computed, because a pass never writes into an input.
    """

    def called(first: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return function((first[:1] * 2).expand(first.shape), *args, **kwargs)

    return called


def _in_another_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    """Call the function in a new thread, which lacks what the patch has set for its own thread."""

    def called(*args: Any, **kwargs: Any) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(function, *args, **kwargs).result()

    return called


def _vmapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Map the function over a batch of two. The batch is the first dimension of the first tensor,
    and the last dimension of all others. Each result is True if two single calls give the same.
    """

    def called(*args: Any, **kwargs: Any) -> list[torch.Tensor]:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        dims = [-1 if number else 0 for number in range(len(places))]

        def of_one(*tensors: torch.Tensor) -> Any:
            given = dict(zip(places, tensors, strict=True))
            new = [given.get(at, leaf) for at, leaf in enumerate(leaves)]
            args, kwargs = pytree.tree_unflatten(new, spec)
            return tensors_in(function(*args, **kwargs))

        pairs = [(leaves[at], _otherwise(leaves[at])) for at in places]
        batches = [torch.stack(pair, dim) for pair, dim in zip(pairs, dims, strict=True)]
        single = zip(*(of_one(*tensors) for tensors in zip(*pairs, strict=True)), strict=True)
        mapped = torch.vmap(of_one, tuple(dims))(*batches)
        return [
            torch.tensor(_is_near(together, torch.stack(alone)))
            for alone, together in zip(single, mapped, strict=True)
        ]

    without_gradient: Callable[..., Any] = torch.no_grad()(called)
    return without_gradient


def _is_near(found: torch.Tensor, known: torch.Tensor) -> bool:
    """True if shapes and dtypes are equal, and numbers differ by no more than another order of sums
    explains.
    """
    digit = torch.finfo(known.dtype).eps if known.dtype.is_floating_point else 0.0
    is_form = found.shape == known.shape and found.dtype is known.dtype
    return is_form and found.allclose(known, max(1e-3, 16 * digit), max(1e-5, digit), True)


def _into_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """Call the function with a tensor into which it writes its result, and return that tensor."""

    def called(*args: Any, **kwargs: Any) -> Any:
        out = torch.zeros_like(function(*args, **kwargs))
        function(*args, **kwargs, out=out)
        return out

    return called


def _with_half_by_default(function: Callable[..., Any]) -> Callable[..., Any]:
    """Call the function while bfloat16 is the default dtype, as it is while a model is loaded."""

    def called(*args: Any, **kwargs: Any) -> Any:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        try:
            return function(*args, **kwargs)
        finally:
            torch.set_default_dtype(before)

    return called


def _from_the_end(sample: Sample) -> Sample | None:
    """The call with its dimension counted from the end; None if the call names no dimension, or
    counts from the end already.
    """
    dim, first = sample.kwargs.get("dim"), next(iter(sample.args), None)
    if type(dim) is not int or dim < 0 or not isinstance(first, torch.Tensor):
        return None
    return replace(sample, kwargs={**sample.kwargs, "dim": dim - first.dim()})


def _long(sample: Sample) -> Iterator[Sample]:
    """The call with many elements along each dimension in turn, and with each number that may be a
    size replaced by a large number; in single and in half precision.
    """
    tensors = tensors_in((sample.args, sample.kwargs))
    dims = tensors[0].dim() if tensors and tensors[0].numel() else 0
    for dim in (*range(dims - 1), -1) if dims else ():
        rows = max(t.numel() // max(t.shape[dim], 1) for t in tensors if -t.dim() <= dim < t.dim())
        if rows * _LENGTH <= _ELEMENTS:
            args, kwargs = resized((sample.args, sample.kwargs), dim, _LENGTH)
            long = replace(sample, args=args, kwargs=kwargs, how=LONG)
            yield from (long, cast_sample(long, HALVES[dim % 2]))
    leaves, spec = pytree.tree_flatten((sample.args, sample.kwargs))
    for at, leaf in enumerate(leaves):
        if type(leaf) is int and leaf > 1:
            args, kwargs = pytree.tree_unflatten([*leaves[:at], _LENGTH, *leaves[at + 1 :]], spec)
            long = replace(sample, args=args, kwargs=kwargs, how=LONG)
            yield from (long, *(cast_sample(long, dtype) for dtype in HALVES))


def _with_twice_the_rows(sample: Sample) -> Sample:
    args, kwargs = resized((sample.args, sample.kwargs), 0, None)
    return replace(sample, args=args, kwargs=kwargs, how=_TWICE_THE_ROWS)


def _gradient_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The gradients of the sum of the squared results. Each gradient is made to depend on its
    tensor, so that a second derivative exists even if it is zero.
    """

    def gradients(*args: Any, **kwargs: Any) -> Any:
        wanted = [each for each in tensors_in((args, kwargs)) if each.requires_grad]
        results = tensors_in(function(*args, **kwargs))
        trained = [each for each in results if each.requires_grad and each.is_floating_point()]
        total = sum(each.square().sum() for each in trained)
        assert isinstance(total, torch.Tensor)
        found = torch.autograd.grad(total, wanted, create_graph=True, allow_unused=True)
        return [
            torch.where(torch.zeros_like(each, dtype=torch.bool), each, 0 if grad is None else grad)
            for each, grad in zip(wanted, found, strict=True)
        ]

    return gradients


def _with_loss_of_one(function: Callable[..., Any], at: int) -> Callable[..., Any]:
    """The function with all results but one detached. It raises TypeError if fewer than two results
    have a gradient.
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        results = function(*args, **kwargs)
        trained = [each for each in tensors_in(results) if each.requires_grad]
        if len(trained) < 2:
            raise TypeError("one result alone has a gradient")
        return pytree.tree_map(
            lambda leaf: (
                leaf if leaf is trained[at] or not torch.is_tensor(leaf) else leaf.detach()
            ),
            results,
        )

    return called


def _after_inference(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        others = pytree.tree_map(_otherwise, (args, kwargs))
        with torch.inference_mode():
            function(*others[0], **others[1])
        return function(*args, **kwargs)

    return called


def _redrawn(function: Callable[..., Any]) -> Callable[..., Any]:
    """Call the function several times; for each result, True if the calls differ.

    Results with few elements are left out, since they may be equal by chance. NaN counts as equal,
    because unwritten memory is filled with it.
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        first, *others = (tensors_in(function(*args, **kwargs)) for _ in range(_DRAWS))
        return [
            torch.stack([(one != other) & (one == one) for other in rest]).any()
            for one, *rest in zip(first, *others, strict=True)
            if one.numel() >= _DRAWS
        ]

    return called


def _with_own_generator(function: Callable[..., Any]) -> Callable[..., Any]:
    """Call the function twice with a generator of one seed. Return True if both calls agree and the
    process's generator is left alone.
    """

    def called(*args: Any, **kwargs: Any) -> torch.Tensor:
        before, generator = torch.get_rng_state(), torch.Generator()
        drawn = []
        for _ in range(2):
            result = function(*args, **kwargs, generator=generator.manual_seed(SEED))
            drawn.append([each.clone() for each in tensors_in(result)])
        is_left_alone = torch.equal(before, torch.get_rng_state())
        agree = all(torch.equal(*pair) for pair in zip(*drawn, strict=True))
        return torch.tensor(is_left_alone and agree)

    return called


def _with_one_seed(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        torch.default_generator.manual_seed(SEED)
        return function(*args, **kwargs)

    return called


def with_slope(sample: Sample) -> Sample:
    """The call in training. A probability of 0.5 becomes 0.25, because p and 1 - p must differ."""
    args, kwargs = pytree.tree_map(_trained_quarter, (sample.args, sample.kwargs))
    return replace(sample, args=args, kwargs=kwargs, how=SLOPE, traced=False)


def _trained_quarter(value: Any) -> Any:
    if _is_float(value):
        return value.detach().clone().requires_grad_()
    return 0.25 if isinstance(value, float) and value == 0.5 else value


def _with_slopes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return for each trained tensor True if its gradient is the slope of the results with the same
    random numbers, or if results with one seed differ.
    """

    def called(*args: Any, **kwargs: Any) -> list[torch.Tensor]:
        leaves, spec = pytree.tree_flatten((args, kwargs))

        def total(seed: int, at: int, tensor: torch.Tensor) -> torch.Tensor:
            new = [tensor if place == at else _kept(leaf) for place, leaf in enumerate(leaves)]
            given = pytree.tree_unflatten(new, spec)
            torch.default_generator.manual_seed(seed)
            return _sum_along_noise(tensors_in(function(*given[0], **given[1])))

        return [
            torch.tensor(all(_is_slope(partial(total, seed, at), leaf) for seed in _SEEDS))
            for at, leaf in enumerate(leaves)
            if _is_float(leaf) and leaf.requires_grad
        ]

    return called


def _is_slope(total: Callable[[torch.Tensor], torch.Tensor], given: torch.Tensor) -> bool:
    """True if the gradient predicts how the function rises in each of a few directions, and is not
    zero. True also if equal calls of the function differ.
    """
    leaf, again = (given.detach().clone().requires_grad_() for _ in range(2))
    result = total(leaf)
    if result != total(again):
        return True
    found = torch.autograd.grad(result, leaf, allow_unused=True) if result.requires_grad else [None]
    gradient = torch.zeros_like(given) if found[0] is None else found[0]
    noise, slopes, expected = torch.Generator().manual_seed(0), [], []
    for _ in range(_DIRECTIONS):
        step = _STEP * torch.randn(given.shape, generator=noise).to(given.dtype)
        ahead, behind = (
            total((given.detach() + each).requires_grad_()).detach() for each in (step, -step)
        )
        slopes.append((ahead - behind) / 2)
        expected.append((gradient * step).sum().detach())
    slope, away = torch.stack(slopes), torch.stack(slopes) - torch.stack(expected)
    rounded = _ROUNDED * _STEP * (1 + result.detach().abs())
    return bool(away.norm() <= _OFF * slope.norm() + rounded < slope.norm())


def _sum_along_noise(results: Sequence[torch.Tensor]) -> torch.Tensor:
    noise = torch.Generator().manual_seed(0)
    total = torch.zeros((), dtype=torch.float64)
    for each in filter(_is_float, results):
        total = total + (each.double() * torch.randn(each.shape, generator=noise)).sum()
    return total


def _asks_for_gradient(sample: Sample) -> bool:
    return any(tensor.requires_grad for tensor in tensors_in((sample.args, sample.kwargs)))


def _of_plain(sample: Sample) -> Iterator[Sample]:
    yield from _laid_out(sample)
    if sample.is_module:
        return
    for given in (sample, *(cast_sample(sample, dtype) for dtype in HALVES)):
        yield from (replace(given, how=how) for how in (*_WITHOUT_GRADIENT, BEFORE))


def _laid_out(sample: Sample) -> Iterator[Sample]:
    """The call with tensors of another layout in memory."""
    ways = {"by columns": column_major, "every second element": _second, "expanded": _expanded}
    for name, way in ways.items():
        args, kwargs = pytree.tree_map(partial(_as_leaf, way), (sample.args, sample.kwargs))
        how = f"{sample.how}, {name}" if sample.how else name
        yield replace(sample, args=args, kwargs=kwargs, how=how)


def _as_leaf(way: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not value.dim() or not value.numel():
        return value
    return way(value.detach()).requires_grad_(value.requires_grad)


def _second(value: torch.Tensor) -> torch.Tensor:
    return torch.stack([value, value], -1).flatten(-2)[..., ::2]


def _expanded(value: torch.Tensor) -> torch.Tensor:
    """The first row repeated for all rows, without copies in memory."""
    return value[:1].expand_as(value)


def _transposed(sample: Sample) -> Sample:
    """The call with tensors that can be reshaped to a matrix by a copy, but not by a view. If the
    first tensor is a matrix, it gets one more dimension.
    """
    leaves, spec = pytree.tree_flatten((sample.args, sample.kwargs))
    first = next((at for at, leaf in enumerate(leaves) if _is_float(leaf)), None)
    new = [_as_leaf(_twice if at == first else _kept, leaf) for at, leaf in enumerate(leaves)]
    args, kwargs = pytree.tree_unflatten([_as_leaf(_swapped, leaf) for leaf in new], spec)
    how = f"{sample.how}, transposed" if sample.how else "transposed"
    return replace(sample, args=args, kwargs=kwargs, how=how)


def _twice(value: torch.Tensor) -> torch.Tensor:
    return torch.stack([value, value.flip(-1)], 1) if value.dim() == 2 else value


def _swapped(value: torch.Tensor) -> torch.Tensor:
    """The tensor with its first two dimensions exchanged in memory."""
    return value.transpose(0, 1).contiguous().transpose(0, 1) if value.dim() > 2 else value


def _after_others(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls the given one with other tensors, then with the given tensors,
    then again after it has changed the numbers in the given tensors and in the weights.

    If a patch keeps results by tensor, it must notice another tensor, and a tensor whose numbers
    have changed. Loaders of weights and some optimizers write through `.data`, which does not
    increase a tensor's version. A mask is written in place, like a buffer that each batch fills
    again.
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        others = pytree.tree_map(_otherwise, (args, kwargs))
        function(*others[0], **others[1])
        del others
        first = pytree.tree_map(_kept, function(*args, **kwargs))
        weights = function.parameters() if isinstance(function, torch.nn.Module) else ()
        for tensor in (*tensors_in((args, kwargs)), *weights):
            if tensor.is_floating_point():
                tensor.data.mul_(_WRITTEN)
            elif tensor.dtype is torch.bool and tensor.dim():
                without_repeats(tensor)[..., :1].logical_not_()
        return first, function(*args, **kwargs)

    without_gradient: Callable[..., Any] = torch.no_grad()(called)
    return without_gradient


def without_repeats(value: torch.Tensor) -> torch.Tensor:
    """A view of an expanded tensor that contains each element of its memory once."""
    return value[tuple(slice(None) if step else slice(1) for step in value.stride())]


def _otherwise(value: Any) -> Any:
    """Another tensor of the same shape with other numbers."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    return value.detach() * (_WRITTEN * _WRITTEN)


def _kept(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value
