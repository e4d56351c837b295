"""Combinations of arguments of `scaled_dot_product_attention`, and what torch makes of each.

On a machine with a GPU, `python tests/torch/attention_combinations.py` prints what
`tests/torch/recorded/attention.NAME.txt` holds.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import warnings
from typing import Any

MASKS = [
    "none",
    "none",
    "none",
    "none",
    "bool",
    "bool_2d",
    "bool_padding",
    "bool_3d",
    "float",
    "float_2d",
    "float_heads",
    "float_3d",
    "float_padding",
    "float_strided",
    "float_grad",
    "single",
]
LENGTHS = ((16, 16), (64, 64), (17, 33), (1, 48), (1, 1), (40, 1), (128, 64), (33, 33))
HEADS = (
    (64, 64),
    (128, 128),
    (80, 80),
    (72, 72),
    (96, 96),
    (40, 40),
    (12, 12),
    (33, 33),
    (7, 7),
    (160, 160),
)
WIDE_HEADS = (
    (192, 128),
    (192, 192),
    (256, 256),
    (264, 264),
    (512, 512),
    (64, 32),
    (64, 128),
    (64, 20),
    (576, 512),
)
COUNT = 1200


@dataclasses.dataclass(frozen=True, order=True, kw_only=True)
class Combination:
    """One call. `heads` and `key_heads` are numbers of heads, `head` and `value_head` sizes of
    one.
    """

    dtype: str
    heads: int
    key_heads: int
    query_length: int
    key_length: int
    head: int
    value_head: int
    is_causal: bool
    mask: str
    dropout: float
    gqa: bool
    grad: bool
    layout: str

    def __str__(self) -> str:
        flags = [name for name in ("is_causal", "gqa", "grad") if getattr(self, name)]
        mask = [] if self.mask == "none" else [f"mask={self.mask}"]
        dropout = [f"dropout={self.dropout}"] if self.dropout else []
        query = f"{self.heads}x{self.query_length}x{self.head}"
        key = f"{self.key_heads}x{self.key_length}x{self.value_head}"
        return " ".join([self.dtype, query, key, self.layout, *mask, *dropout, *flags])


def combinations() -> list[Combination]:
    """Sorted, without repetition, the same in every process."""
    chosen = random.Random(0)
    drawn = (_draw(chosen) for _ in itertools.count())
    distinct: dict[str, Combination] = {}
    while len(distinct) < COUNT:
        combination = next(drawn)
        distinct[str(combination)] = combination
    return sorted(distinct.values())


def _draw(chosen: random.Random) -> Combination:
    head, value_head = chosen.choice(HEADS if chosen.random() < 0.7 else WIDE_HEADS)
    query_length, key_length = chosen.choice(LENGTHS)
    heads, key_heads = chosen.choice(((4, 4), (4, 4), (4, 4), (4, 2), (4, 1)))
    mask = chosen.choice(MASKS)
    return Combination(
        dtype=chosen.choice(("bfloat16", "bfloat16", "float16", "float32", "float64")),
        heads=heads,
        key_heads=key_heads,
        query_length=query_length,
        key_length=key_length,
        head=head,
        value_head=value_head,
        is_causal=mask == "none" and chosen.random() < 0.4,
        mask=mask,
        dropout=chosen.choice((0.0, 0.0, 0.0, 0.125, 0.1)),
        gqa=heads != key_heads or chosen.random() < 0.1,
        grad=chosen.random() < 0.3,
        layout=chosen.choice(("bhsd", "bhsd", "bshd", "bshd", "bhds", "expanded", "three")),
    )


def arguments(combination: Combination, device: str) -> tuple[list[Any], dict[str, Any]]:
    """(query, key, value, mask; options) of the call, on a device or a fake of it."""
    import torch

    c, dtype = combination, getattr(torch, combination.dtype)

    def made(heads: int, length: int, size: int) -> torch.Tensor:
        if c.layout == "bshd":
            tensor = torch.empty(2, length, heads, size, dtype=dtype, device=device).transpose(1, 2)
        elif c.layout == "bhds":
            tensor = torch.empty(2, heads, size, length, dtype=dtype, device=device).transpose(2, 3)
        elif c.layout == "expanded":
            tensor = torch.empty(2, 1, length, size, dtype=dtype, device=device).expand(
                2, heads, length, size
            )
        elif c.layout == "three":
            tensor = torch.empty(heads, length, size, dtype=dtype, device=device)
        else:
            tensor = torch.empty(2, heads, length, size, dtype=dtype, device=device)
        return tensor.requires_grad_(c.grad)

    query = made(c.heads, c.query_length, c.head)
    key, value = (
        made(c.key_heads, c.key_length, c.head),
        made(c.key_heads, c.key_length, c.value_head),
    )
    options = {"dropout_p": c.dropout, "is_causal": c.is_causal, "enable_gqa": c.gqa}
    return [query, key, value, _mask(combination, dtype, device)], options


def _mask(combination: Combination, dtype: Any, device: str) -> Any:
    import torch

    q, k, h = combination.query_length, combination.key_length, combination.heads
    shapes = {
        "bool": (2, h, q, k),
        "bool_2d": (q, k),
        "bool_padding": (2, 1, 1, k),
        "bool_3d": (h, q, k),
        "float": (2, h, q, k),
        "float_2d": (q, k),
        "float_heads": (1, h, q, k),
        "float_3d": (h, q, k),
        "float_padding": (2, 1, 1, k),
        "float_strided": (2, h, k, q),
        "float_grad": (2, h, q, k),
        "single": (2, 1, q, k),
    }
    if combination.mask == "none":
        return None
    kind = (
        torch.bool
        if combination.mask.startswith("bool")
        else torch.float32
        if combination.mask == "single"
        else dtype
    )
    shape = (
        shapes[combination.mask][1:]
        if combination.layout == "three" and len(shapes[combination.mask]) == 4
        else None
    )
    mask = torch.empty(shape or shapes[combination.mask], dtype=kind, device=device)
    if combination.mask == "float_strided":
        mask = mask.transpose(-1, -2)
    return mask.requires_grad_(combination.mask == "float_grad")


def operators(combination: Combination, device: str) -> str:
    """The operators that attention becomes, in order."""
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    tensors, options = arguments(combination, device)

    def attention(query: Any, key: Any, value: Any, mask: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, **options)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = make_fx(attention, tracing_mode="fake" if device == "cuda" else "real")(
                *tensors
            ).graph
    except Exception as error:  # torch refuses some combinations, each in words of its own
        return f"refused: {type(error).__name__}"
    return summary([str(node.target) for node in graph.nodes if node.op == "call_function"])


def summary(names: list[str]) -> str:
    """The kernel, with what prepares its inputs and its output; the inside of plain maths is
    torch's own.
    """
    short = [name.removeprefix("aten.").split(".")[0] for name in names]
    short = [
        name
        for name in short
        if name not in ("<built-in function getitem>", "detach", "scalar_tensor")
    ]
    if "_safe_softmax" in short:
        return "where math" if short[0] == "where" else "math"
    return " ".join(
        name.removeprefix("_scaled_dot_product_").removesuffix("_attention") for name in short
    )


def main() -> None:
    """Print what the device of this machine does with each combination."""
    for combination in combinations():
        print(f"{combination}: {operators(combination, 'cuda')}")


if __name__ == "__main__":
    main()
