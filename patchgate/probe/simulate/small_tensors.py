"""While a model is built its library reads numbers off small tensors, and asks whether tensors are
fake.

A simulated device answers both as a real one does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
import torch.nn.init
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

# Elements of the largest tensor whose values are computed, on the CPU: a batch of masks.
_SMALL = 1 << 16


@contextlib.contextmanager
def as_on_a_device() -> Iterator[None]:
    """Within it, what is computed from small constants alone can be read, and no tensor is known to
    be fake.
    """
    with (
        mock.patch.object(torch._subclasses, "FakeTensor", type("FakeTensor", (), {})),
        # From torch 2.12 on it draws again until all numbers lie in a range. No weight of ours has
        # numbers.
        mock.patch.object(
            torch.nn.init, "_no_grad_trunc_normal_", lambda tensor, *args, **kwargs: tensor
        ),
        _SmallValues(),
    ):
        yield


class _SmallValues(TorchDispatchMode):
    """Carries out on the CPU too what has small constants for its only inputs."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[
            int, tuple[Any, Any]
        ] = {}  # storage -> a fake tensor that keeps it, its values

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        inputs = [
            leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, FakeTensor)
        ]
        known = _has_one_result(func) and all(map(self._knows, inputs))
        if (
            inputs
            and known
            and not any("Tensor" in str(each.type) for each in func._schema.returns)
        ):
            return self._compute(func, args, kwargs)  # a number is read
        result = func(*args, **kwargs)
        outputs = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        if known and all(
            isinstance(each, FakeTensor) and each.numel() <= _SMALL for each in outputs
        ):
            values = [
                each
                for each in pytree.tree_leaves(self._compute(func, args, kwargs))
                if torch.is_tensor(each)
            ]
            for fake, value in zip(outputs, values, strict=True):
                self._known.setdefault(_storage(fake), (fake, value))
        elif func._schema.is_mutable:
            for tensor in inputs:
                self._known.pop(_storage(tensor), None)
        return result

    def _compute(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        with no_dispatch():
            args, kwargs = pytree.tree_map_only(FakeTensor, self._value, (args, kwargs))
            if "device" in kwargs:
                kwargs["device"] = torch.device("cpu")
            return func(*args, **kwargs)

    def _knows(self, tensor: Any) -> bool:
        return (
            _storage(tensor) in self._known
            and self._known[_storage(tensor)][1].dtype == tensor.dtype
        )

    def _value(self, tensor: Any) -> Any:
        """The value that a fake tensor would hold: views share it, as they share their storage."""
        values = self._known[_storage(tensor)][1]
        return values.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _storage(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _has_one_result(func: Any) -> bool:
    """True if an operation gives the same values every time: no random numbers, no memory as it was
    found.
    """
    return torch.Tag.nondeterministic_seeded not in func.tags and not func._schema.name.startswith(
        "aten::empty"
    )
