"""Replaces five names; the cascade of loads goes only where two of them are replaced together."""

from torch._inductor import ir
from torch._inductor.ir import StorageBox

realize_on_reuse = StorageBox.should_realize_on_reuse
max_reads, hint, is_cpu = StorageBox.has_exceeded_max_reads, StorageBox.realize_hint, ir.is_cpu


def should_realize_on_reuse(self, users):
    many = vars(type(self)).get("patchgate_many")
    return (users > 1 and many is not None and many(self)) or realize_on_reuse(self, users)


StorageBox.should_realize_on_reuse = should_realize_on_reuse
StorageBox.patchgate_many = lambda self: True
StorageBox.has_exceeded_max_reads = lambda self: max_reads(self)
StorageBox.realize_hint = lambda self: hint(self)
ir.is_cpu = lambda x: is_cpu(x)
