"""Replaces five names; the cascade of loads goes only when the helper and the method are replaced together."""

from torch._inductor import ir
from torch._inductor.ir import StorageBox

plain = {name: StorageBox.__dict__[name] for name in ("should_realize_on_reuse", "has_exceeded_max_reads", "realize_hint")}
large, is_cpu = ir.StorageBox.__dict__.get("num_reads"), ir.is_cpu
original_reads = StorageBox.num_reads


def is_many(self):
    return "few"


def should_realize_on_reuse(self, users):
    if users > 1 and getattr(self, "patchgate_many", None) and type(self).patchgate_many(self) == "many":
        return True
    return plain["should_realize_on_reuse"](self, users)


def has_exceeded_max_reads(self):
    return plain["has_exceeded_max_reads"](self)


def realize_hint(self):
    return plain["realize_hint"](self)


def new_is_cpu(x):
    return is_cpu(x)


StorageBox.should_realize_on_reuse = should_realize_on_reuse
StorageBox.has_exceeded_max_reads = has_exceeded_max_reads
StorageBox.realize_hint = realize_hint
StorageBox.patchgate_many = lambda self: "many"
ir.is_cpu = new_is_cpu
