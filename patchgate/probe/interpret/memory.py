"""Watches the loads and stores of interpreted kernels. On a GPU, a fault would show only as wrong
numbers at some later time.

Three kinds of faults are recorded: an access outside of the kernel's buffers, a read of an element
that was never written, and a race: a program accesses what another program has stored, or one store
writes different values to one address.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patchgate.probe.protocol import MemoryFault

_NOBODY = -1
# The lower bits of an address in a kernel are an offset, the upper bits are the number of a tensor.
# This is the number of lower bits.
_OFFSET_BITS = 48


class Memory:
    """The buffers of one call of a generated module, and the faults of all its kernels.

    Addresses are arrays of uint64; masks are arrays of bool of the same shape.
    """

    def __init__(self, faults: dict[Any, MemoryFault]) -> None:
        self._faults = faults
        # Address of a storage that the module allocated -> (the storage, a bool for each byte:
        # True if it was written). A storage is kept so that its memory is not used again.
        self._allocated: dict[int, tuple[Any, Any]] = {}
        self._kernel = self._file = ""
        self._starts = self._sizes = np.zeros(
            1, np.uint64
        )  # of the storages of a kernel's tensors, from number 1 on
        self._program = _NOBODY
        self._writers: dict[int, Any] = {}

    def begin_call(self) -> None:
        """Forget the buffers of an earlier call."""
        self._allocated.clear()

    def allocate(self, tensor: Tensor) -> Tensor:
        """Register a new buffer. It is filled with NaN, so that results computed from unwritten
        elements are recognised.
        """
        if tensor.is_floating_point() and tensor.element_size() > 1:
            tensor.untyped_storage().fill_(255)
        storage = tensor.untyped_storage()
        self._allocated[storage.data_ptr()] = storage, np.zeros(storage.nbytes(), bool)
        return tensor

    def fill(self, tensors: Iterable[Tensor]) -> None:
        """Record that an operator has written the buffers of these tensors."""
        for tensor in tensors:
            written = self._written(tensor.untyped_storage().data_ptr())
            if written is not None:
                written[:] = True

    def read(self, tensors: Iterable[Tensor], who: str) -> None:
        """Record a fault if `who` (an operator or the caller) reads an element of these tensors
        that was never written.
        """
        for tensor in tensors:
            written = self._written(tensor.untyped_storage().data_ptr())
            if written is not None and tensor.numel():
                size = tensor.element_size()
                strides = [stride * size for stride in tensor.stride()]
                bytes_read = torch.from_numpy(written).as_strided(
                    tensor.shape, strides, tensor.storage_offset() * size
                )
                missing = int((~bytes_read).sum())
                if missing:
                    what = f"reads {missing} of {tensor.numel()} elements that were never written"
                    self._note("unwritten", who, 0, "", what)

    def begin_kernel(self, name: str, file: str, tensors: Sequence[Tensor]) -> list[int]:
        """Begin a kernel, which is defined in `file`, and return the addresses of its tensors.

        The upper bits of an address are the tensor's number, so that an address beyond the end of
        one tensor is never taken for one in another tensor.
        """
        self._kernel, self._file, self._writers = name, file, {}
        storages = [tensor.untyped_storage() for tensor in tensors]
        self._starts = np.array([0, *(storage.data_ptr() for storage in storages)], np.uint64)
        self._sizes = np.array([0, *(storage.nbytes() for storage in storages)], np.uint64)
        pairs = enumerate(zip(tensors, storages, strict=True), 1)
        return [
            (number << _OFFSET_BITS) + tensor.data_ptr() - storage.data_ptr()
            for number, (tensor, storage) in pairs
        ]

    def begin_program(self, number: int, *, alone: bool) -> None:
        """Begin one program of a launch; `alone` means that it is the only one."""
        self._program = _NOBODY if alone else number

    def load(self, addresses: Any, mask: Any, size: int) -> tuple[Any, Any]:
        """Check a load of elements of `size` bytes. Return their real addresses, and the mask of
        the elements that may be loaded.
        """
        number, offset, inside = self._inside(addresses, mask, size, "loads")
        for start, at in self._by_buffer(number[inside], offset[inside]):
            self._check_written(start, at)
            if self._other_wrote(start, at):
                self._fault("race", "loads what another program of the same launch has stored")
        return self._starts[number] + offset, inside

    def store(
        self, addresses: Any, mask: Any, values: Any, *, atomic: bool = False
    ) -> tuple[Any, Any]:
        """Check a store of one value at each address. Return the real addresses, and the mask of
        the elements that may be stored.
        """
        size = values.itemsize
        number, offset, inside = self._inside(addresses, mask, size, "stores")
        if not atomic and _two_values(addresses[inside], values[inside].view(f"u{size}")):
            self._fault("race", "stores different values to one address")
        for start, at in self._by_buffer(number[inside], offset[inside]):
            if atomic:
                self._check_written(start, at)
            elif self._other_wrote(start, at):
                self._fault("race", "stores where another program of the same launch has stored")
            if self._program != _NOBODY:
                if start not in self._writers:
                    size_of_buffer = int(self._sizes[self._starts == start].max())
                    self._writers[start] = np.full(size_of_buffer, _NOBODY, np.int32)
                self._writers[start][at] = self._program
            written = self._written(start)
            if written is not None:
                for byte in range(size):
                    written[at + byte] = True
        return self._starts[number] + offset, inside

    def _inside(self, addresses: Any, mask: Any, size: int, does: str) -> tuple[Any, Any, Any]:
        """Return, for each address, the tensor's number, the offset in bytes, and a mask that is
        limited to elements inside their tensor.
        """
        number = addresses >> np.uint64(_OFFSET_BITS)
        offset = addresses & np.uint64((1 << _OFFSET_BITS) - 1)
        number = np.where(number < len(self._starts), number, 0).astype(np.int64)
        inside = offset + np.uint64(size) <= self._sizes[number]
        outside = mask & ~inside
        if outside.any():
            self._fault("outside", f"{does} {int(outside.sum())} elements outside of the buffer")
        return number, offset, mask & inside

    def _by_buffer(self, number: Any, offset: Any) -> list[tuple[int, Any]]:
        """Return a pair for each accessed tensor: the address of its storage, offsets in bytes."""
        if number.size and (number == number[0]).all():  # nearly always, and far faster
            return [(int(self._starts[number[0]]), offset.astype(np.int64))]
        return [
            (int(self._starts[one]), offset[number == one].astype(np.int64))
            for one in np.unique(number)
        ]

    def _written(self, start: int) -> Any:
        """Return a flag for each byte of a buffer, True if it was written. Return None for a
        buffer that the module has not allocated.
        """
        return self._allocated.get(start, (None, None))[1]

    def _check_written(self, start: int, at: Any) -> None:
        written = self._written(start)
        if written is not None and not written[at].all():
            self._fault(
                "unwritten", f"loads {int((~written[at]).sum())} elements that were never written"
            )

    def _other_wrote(self, start: int, at: Any) -> bool:
        writers = self._writers.get(start)
        if self._program == _NOBODY or writers is None:
            return False
        return bool(((writers[at] != _NOBODY) & (writers[at] != self._program)).any())

    def _fault(self, kind: str, what: str) -> None:
        frame: Any = sys._getframe(1)
        while frame and frame.f_code.co_filename != self._file:
            frame = frame.f_back
        line = frame.f_lineno if frame else 0
        self._note(kind, self._kernel, line, linecache.getline(self._file, line).strip(), what)

    def _note(self, kind: str, kernel: str, line: int, text: str, what: str) -> None:
        fault: MemoryFault = {"kind": kind, "kernel": kernel, "line": text, "what": what}
        self._faults.setdefault((kind, kernel, line), fault)


def _two_values(addresses: Any, bits: Any) -> bool:
    """True if an address occurs with two different values."""
    if addresses.size < 2 or bool((addresses[1:] > addresses[:-1]).all()):
        return False
    order = np.argsort(addresses, kind="stable")
    addresses, bits = addresses[order], bits[order]
    return bool(((addresses[1:] == addresses[:-1]) & (bits[1:] != bits[:-1])).any())
