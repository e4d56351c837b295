"""Random programs: each line is a form whose operands and arguments are drawn.

Passes go wrong for combinations that no written program has, for example of a factor, a negative
dimension, operands in the other order and a value that is read again. Eager mode shows which lines
fit the shapes.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import torch

from patchgate.probe.numerics.mentioned_programs import mentioned_stems
from patchgate.probe.numerics.operators import Calls, stem
from patchgate.probe.numerics.pass_programs import Program

# One form a line. In braces: `x`, `y` and `z` are different values, `given` is an input, and the
# other names are arguments (`_ARGUMENTS`). Only inputs are compared, rounded or counted: if a
# computed value differs in its last digit, such a result could change as much as by an error. No
# form writes different values to one place or has an infinite gradient, because the results of
# sound code may then differ.
_FORMS = """
{x} + {y}
{x} - {y}
{x} * {y}
{x} * {x}
{x} + {x}
{x} / ({y}.abs() + 1)
{x} + {number}
{number} - {x}
{x} * {number}
{x} / {factor}
-{x}
torch.add({x}, {y}, alpha={factor})
torch.sub({x}, {y}, alpha={factor})
torch.rsub({x}, {y}, alpha={factor})
torch.addcmul({x}, {y}, {z}, value={factor})
torch.addcdiv({x}, {y}, {z}.abs() + 1, value={factor})
torch.lerp({x}, {y}, {factor})
torch.maximum({x}, {y})
torch.minimum({x}, {y})
torch.where({mask}, {x}, {y})
torch.where({mask}, {x}, {number})
{x}.masked_fill({mask}, {number})
{x}.clamp(min={number})
{x}.clamp({low}, {high})
{x}.pow({power})
{x}.relu()
{x}.sigmoid()
{x}.tanh()
{x}.sin()
{x}.abs()
{x}.clamp(-3, 3).exp()
({x}.abs() + 1).sqrt()
torch.rsqrt({x} * {x} + {positive})
{x}.abs().log1p()
torch.erf({x})
torch.nn.functional.gelu({x}, approximate={approximate})
torch.nn.functional.silu({x}) * {y}
torch.nn.functional.softplus({x}, {positive}, {limit})
torch.nn.functional.leaky_relu({x}, {factor})
torch.nn.functional.elu({x}, {factor})
torch.nn.functional.hardtanh({x}, {low}, {high})
{x}.sum({dims}, keepdim={flag})
{x}.sum({dims}, dtype=torch.float64)
{x}.mean({dims}, keepdim={flag})
{x}.amax({dims}, keepdim={flag})
{x}.amin({dims}, keepdim={flag})
{x}.var({dims}, correction={flag}, keepdim={flag})
{x}.prod({dim})
{x}.cumsum({dim})
{x}.softmax({dim})
torch.log_softmax({x}, {dim})
torch.logsumexp({x}, {dims}, keepdim={flag})
torch.linalg.vector_norm({x}, {positive}, {dims}, keepdim={flag})
{given}.argmax({dim}, keepdim={flag})
({given} > {number}).any({dim})
({given} > {number}).sum({dims})
{x}.transpose({dim}, {dim})
{x}.unsqueeze({dim})
{x}.squeeze({dim})
{x}.reshape(-1)
{x}.reshape(2, -1)
{x}.flatten({dim})
{x}.expand(3, *{x}.shape)
{x}.flip({dims})
{x}.roll({place}, {dim})
{x}.narrow({dim}, 0, {size})
{x}[{place}:]
{x}[:{place}]
{x}[..., {place}:]
{x}[:, {place}::2]
{x}.select({dim}, {place})
{x}.unfold({dim}, {size}, 1)
{x}.diagonal({place})
{x}.tril({place})
{x}.contiguous()
torch.clone({x})
{x}.detach()
{x}.repeat(2, 1)
{x}.repeat_interleave(2, {dim})
{x}.chunk(2, {dim})[{flag}]
{x}.split({size}, {dim})[0]
torch.cat([{x}, {y}], {dim})
torch.cat([{x}, {y}, {x}], {dim})
torch.cat([{x}, {x}], {dim})
torch.stack([{x}, {y}], {dim})
torch.nn.functional.pad({x}, ({place}, {size}), value={number})
torch.nn.functional.pad({x}, ({size}, 0, 0, {place}))
{x} @ {y}.mT
{x} @ {x}.mT
{x}.mT @ {y}
torch.nn.functional.linear({x}, {y}, {z})
torch.addmm({z}, {x}, {y}.mT, beta={factor}, alpha={factor})
torch.einsum("ij,kj->ik", {x}, {y})
torch.bmm({x}[None], {y}.mT[None])
torch.baddbmm({z}[None], {x}[None], {y}.mT[None], beta={factor}, alpha={factor})
torch.nn.functional.layer_norm({x}, {x}.shape[-1:], eps={limit})
torch.nn.functional.layer_norm({x}, {x}.shape[-1:], {y}, {z})
torch.nn.functional.rms_norm({x}, {x}.shape[-1:], {y})
torch.nn.functional.scaled_dot_product_attention({x}, {y}, {z}, is_causal={flag}, scale={factor})
torch.nn.functional.conv1d({x}[None], {y}[:, :, None])
torch.nn.functional.avg_pool1d({x}[None], {size}, {size})
torch.nn.functional.mse_loss({x}, {y}, reduction={reduction})
torch.nn.functional.cross_entropy({x}, k, label_smoothing={fraction}, reduction={reduction})
torch.nn.functional.embedding(k, {x})
{x}[i]
{x}[:, i]
{x}[i, i]
{x}.index_select({dim}, k)
{x}.gather({dim}, j)
{x}.scatter({dim}, j, {number})
{x}.scatter(0, j, {y})
{x}.scatter_add({dim}, j, {y})
{x}.index_add(0, k, {y}, alpha={factor})
{x}.index_put((i,), {y}, accumulate={flag})
{x}.slice_scatter({y}[:{size}], 0, 0, {size})
{x}.select_scatter({y}[0], 0, {place})
torch.clone({x}).add_({y}, alpha={factor})
torch.clone({x}).mul_({y})
torch.clone({x}).fill_({number})
torch.zeros_like({x}).copy_({y})
torch.full_like({x}, {number}) + {y}
torch.arange({x}.shape[-1]) * {x}
{given}.to({dtype})
{given}.to({dtype}).to(torch.float32) + {x}
({given} * 4).to(torch.int64) * {number}
({given} > {number}).to({dtype}) + {x}
({given} * 4).to(torch.int32) // {size}
"""
_ARGUMENTS = {
    "number": ("0", "1", "-1", "2", "0.5", "-0.25", "1.0", "0.0"),
    "factor": ("2", "0.5", "-1", "3", "1", "-0.75"),
    "positive": ("1", "2", "3"),
    "fraction": ("0.0", "0.1"),
    "limit": ("1e-5", "0.5", "20.0"),
    "power": ("2", "1", "3", "0", "2.0"),
    "low": ("-0.5", "0", "-2"),
    "high": ("0.5", "6", "1"),
    "dim": ("0", "-1", "1", "-2"),
    "dims": ("0", "-1", "1", "(0, 1)", "(-1,)", "(0, -1)", "-2"),
    "place": ("0", "1", "-1", "2", "-2"),
    "size": ("1", "2", "3"),
    "flag": ("True", "False"),
    "approximate": ('"none"', '"tanh"'),
    "reduction": ('"mean"', '"sum"', '"none"'),
    "dtype": ("torch.float64", "torch.int32", "torch.float32", "torch.bool"),
    "mask": ("p", "{given} > 0", "{given} < {number}", "~p"),
}
_HOLE = re.compile(r"\{(\w+)\}")
_FLOATS, _GIVEN = "abcd", "abcdijkp"
# In square shapes, a wrong order of dimensions raises no error.
_SHAPES = ((4, 6), (4, 6), (5, 5))
# The numbers of lines; a program ends earlier if few lines fit.
_LENGTHS = (2, 3, 4, 4, 6, 6, 8, 12, 24)
_TRIES = 4  # for each line
# The additional weight of all forms of mentioned operators, divided by the weight of all forms.
_MENTIONED = 1.0
# Five shares: lines that read the line before; lines whose form is in the program already (passes
# merge and reorder such lines); middle values that are returned too; programs with an input of
# other strides; and programs with an input of another dtype.
_IN_A_ROW, _AGAIN, _RETURNED, _STRIDED, _TYPED = 0.75, 0.25, 0.15, 0.2, 0.4
# Larger values would hide the others in sums.
_LARGEST, _ELEMENTS = 1e3, 2_000


def random_programs(seed: int, mentions: Sequence[str], *, trained: bool) -> Iterator[Program]:
    """Yield programs without end. If `trained`, their floating-point inputs require a gradient."""
    own = 2 * seed + trained  # programs with gradients are drawn from another seed
    chosen, generator = random.Random(own), torch.Generator().manual_seed(own)
    forms, mentioned = _FORMS.strip().splitlines(), mentioned_stems(mentions)
    called = (
        [_stems(form) & mentioned for form in forms] if mentioned else [set[str]()] * len(forms)
    )
    often = Counter(itertools.chain(*called))
    share = _MENTIONED * len(forms) / max(len(often), 1)
    weights = [1 + share * sum(1 / often[word] for word in words) for words in called]
    while True:
        inputs = _inputs(chosen, generator)
        lines = _lines(forms, weights, inputs, chosen)
        if lines:
            yield _written(lines, inputs, chosen, trained=trained)


def _stems(form: str) -> set[str]:
    """The stems of the operators that a form calls."""
    chosen = random.Random(0)
    inputs = _inputs(chosen, torch.Generator().manual_seed(0))
    named = {stem(word) for word in re.findall(r"\w+", _HOLE.sub("", form))}
    for _ in range(_TRIES):
        with Calls() as calls:
            if _value(_filled(form, [*_FLOATS], chosen), inputs) is not None:
                return named | {*map(stem, calls.words)}
    return named


def _inputs(chosen: random.Random, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw two matrices, the second sometimes stored by columns, a tensor that is broadcast, a
    matrix that may have another dtype, a mask, and indices: each row once, some counted from the
    end; each row once in each column; and any rows.
    """
    rows, columns = shape = chosen.choice(_SHAPES)
    a, b, d = (torch.randn(shape, generator=generator) for _ in range(3))
    broadcast = chosen.choice(((1, columns), (columns,), (rows, 1)))
    c = torch.randn(broadcast, generator=generator)
    if chosen.random() < _STRIDED:
        b = b.t().contiguous().t()
    if chosen.random() < _TYPED:
        d = (d * 2).to(chosen.choice((torch.float64, torch.int64, torch.bool)))
    from_end = torch.randint(0, 2, (rows,), generator=generator) * rows
    return {
        **{"a": a, "b": b, "c": c, "d": d},
        "i": torch.randperm(rows, generator=generator) - from_end,
        "j": torch.rand(shape, generator=generator).argsort(0),
        "k": torch.randint(0, rows, (rows,), generator=generator),
        "p": torch.randint(0, 2, shape, generator=generator).bool(),
    }


def _lines(
    forms: Sequence[str],
    weights: Sequence[float],
    inputs: dict[str, torch.Tensor],
    chosen: random.Random,
) -> list[str]:
    """Draw the lines of a program. Keep each line that runs with the inputs and earlier values."""
    values, lines, used = dict(inputs), list[str](), list[str]()
    length = chosen.choice(_LENGTHS)
    for _ in range(_TRIES * length):
        if len(lines) == length:
            break
        is_again = used and chosen.random() < _AGAIN
        form = chosen.choice(used) if is_again else chosen.choices(forms, weights)[0]
        # Few models compute with tensors that have no dimensions.
        names = [*_FLOATS, *(f"v{at}" for at in range(len(lines)) if values[f"v{at}"].dim())]
        line = _filled(form, names, chosen)
        value = _value(line, values)
        if value is not None:
            name = f"v{len(lines)}"
            values[name] = value
            lines.append(line)
            used.append(form)
    return lines


def _filled(form: str, names: Sequence[str], chosen: random.Random) -> str:
    """The form with all holes filled. For an argument that occurs twice, two values are drawn."""
    operands = dict(zip("xyz", chosen.sample(names, 3), strict=True))
    if names[-1] not in operands.values() and chosen.random() < _IN_A_ROW:
        operands[chosen.choice("xxxy")] = names[-1]

    def drawn(hole: re.Match[str]) -> str:
        name = hole[1]
        if name in operands:
            return operands[name]
        return chosen.choice(_ARGUMENTS.get(name, _FLOATS))

    while _HOLE.search(form):
        form = _HOLE.sub(drawn, form)
    return form


def _value(line: str, values: dict[str, torch.Tensor]) -> torch.Tensor | None:
    """The value of a line; None if the line raises, or if the value is large or not finite."""
    try:
        with torch.no_grad():
            value: torch.Tensor = eval(line, {"torch": torch, **values})  # the text is ours
    except (RuntimeError, IndexError, TypeError, ValueError):
        return None
    is_small = 0 < value.numel() <= _ELEMENTS
    return value if is_small and bool((value.double().abs() <= _LARGEST).all()) else None


def _written(
    lines: Sequence[str],
    inputs: dict[str, torch.Tensor],
    chosen: random.Random,
    *,
    trained: bool,
) -> Program:
    """The program and the inputs that it reads. It returns each value that no line reads, and some
    others.
    """
    named = {f"v{at}": line for at, line in enumerate(lines)}
    body = "".join(f"    {name} = {line}\n" for name, line in named.items())
    read = {*re.findall(r"\w+", " ".join(lines))}
    returned = [name for name in named if name not in read or chosen.random() < _RETURNED]
    given = [name for name in _GIVEN if name in read] or ["a"]
    tensors = tuple(
        inputs[name].requires_grad_(trained and inputs[name].is_floating_point()) for name in given
    )
    return f"def program({', '.join(given)}):\n{body}    return {', '.join(returned)}\n", tensors
