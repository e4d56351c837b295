"""The values of small tensors while a model is built: libraries read numbers off them, and a fake tensor has none."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

# Elements of the largest tensor whose values are computed, on the CPU.
_SMALL = 4096
_READS = (torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default)


class ValuesWhileBuilding(TorchDispatchMode):
    """Within it, what is computed from small constants alone can be read, on a simulated device too."""

    def __init__(self) -> None:
        super().__init__()
        self._values: Any = WeakTensorKeyDictionary()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        inputs = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, FakeTensor)]
        known = all(tensor in self._values for tensor in inputs)
        if inputs and known and func in _READS:
            return self._values[args[0]].item()
        result = func(*args, **kwargs)
        outputs = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, FakeTensor)]
        if known and _has_one_result(func) and all(tensor.numel() <= _SMALL for tensor in outputs):
            values = pytree.tree_leaves(self._compute(func, args, kwargs))
            for leaf, value in zip(pytree.tree_leaves(result), values, strict=True):
                if isinstance(leaf, FakeTensor):
                    self._values[leaf] = value
        elif func._schema.is_mutable:
            self._forget(inputs)
        return result

    def _compute(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        args, kwargs = pytree.tree_map_only(FakeTensor, self._values.__getitem__, (args, kwargs))
        if "device" in kwargs:
            kwargs["device"] = torch.device("cpu")
        with no_dispatch():
            return func(*args, **kwargs)

    def _forget(self, tensors: list[FakeTensor]) -> None:
        """Also every view of the same values."""
        stale = {self._values[tensor].untyped_storage()._cdata for tensor in tensors if tensor in self._values}
        for tensor in [each for each, value in self._values.items() if value.untyped_storage()._cdata in stale]:
            del self._values[tensor]


def _has_one_result(func: Any) -> bool:
    """Whether an operation gives the same values every time: no random numbers, no memory as it was found."""
    return torch.Tag.nondeterministic_seeded not in func.tags and not func._schema.name.startswith("aten::empty")
