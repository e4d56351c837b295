"""Imports torch, and all modules that a compile imports, once for all children of a server."""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from patchgate.probe.protocol import QUESTIONS

# The number of new objects after which a child collects garbage.
_NEW_OBJECTS = 10_000
# Modules of torch.nn with functions that most workloads call.
_TRACED = (
    "functional",
    *(f"modules.{name}" for name in ("activation", "batchnorm", "conv", "linear", "normalization")),
)
_COMPILER = (
    "torch._inductor.codegen.triton",
    "torch._inductor.compile_fx",
    "torch._inductor.fx_passes.post_grad",
    "torch._inductor.lowering",
    "torch._inductor.runtime.triton_heuristics",
    "torch._inductor.select_algorithm",
    "sympy.physics.units",
)
# The last module needs setuptools.
_OPTIONAL = ("triton.compiler", "triton.language", "torch.utils.cpp_extension")
# Modules that a compile imports late, and that a patch may find not loaded.
_LATE = (
    "torch._inductor.choices",
    "torch._inductor.codegen.memory_planning",
    "torch._inductor.kernel_template_choice",
)
# MADV_COLLAPSE of linux/mman.h, since Linux 6.1. It ignores the machine's default for huge pages.
_COLLAPSE = 25
# The file with the size of a huge page in bytes; it exists if the kernel has huge pages.
_PAGE_BYTES = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"
# Groups: start and end of a mapping without a file, and the kilobytes of it that are in use.
_MAPPING = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ 00:00 0 *(?:\[heap\])?\n(?:[A-Z].*\n)*?Anonymous: +(\d+)",
    re.MULTILINE,
)
_ASKS_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"


@contextmanager
def _keeping_bytecode() -> Iterator[None]:
    """Keep the bytecode of imported modules for later servers of this environment.

    uv installs torch without bytecode, and compiling torch's sources takes more than half of the
    time of a warm-up.
    """
    unchanged, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        yield
    finally:
        sys.dont_write_bytecode = unchanged


@_keeping_bytecode()
def import_torch() -> None:
    """Import torch alone, and the code that runs a patch as in a new interpreter."""
    # Garbage collection is off: it would search the imported modules, which stay, and this would
    # take a sixth of the time.
    gc.disable()
    importlib.import_module(QUESTIONS["new interpreter"].module)
    _keep_objects()


@_keeping_bytecode()
def import_compiler() -> None:
    """Import the modules that a compile imports, and generate code for one small CPU graph."""
    gc.disable()
    _import_and_compile()
    gc.collect()
    # A compile creates many objects that stay, and by default Python searches them after every
    # 700 new objects.
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    _keep_objects()
    _use_huge_pages()


def _keep_objects() -> None:
    """Exclude imported objects from garbage collection, because a collection in a child would
    write to, and so copy, every page that it shares with this process.
    """
    gc.freeze()
    gc.enable()


def _import_and_compile() -> None:
    # With NVML torch creates no CUDA context, which a forked child could not use.
    os.environ[_ASKS_NVML] = "1"
    import torch
    import torch._inductor.decomposition as decomposition
    import torch._inductor.fx_passes.joint_graph as joint_graph

    _import_compiler()
    for question in QUESTIONS.values():
        importlib.import_module(question.module)
    from patchgate.probe.compile import sentinel
    from patchgate.probe.compile.capture import capture
    from patchgate.probe.compile.observe import environment
    from patchgate.probe.patch.snapshot import take_snapshot
    from patchgate.probe.serve import cpp_builds  # noqa: F401
    from patchgate.probe.simulate import cpu_build

    if cpu_build.is_cpu_only():
        cpu_build.register_cuda()
    gc.freeze()  # so that torch's collections during a compile do not search imported objects
    torch.set_num_threads(1)
    # In torch 2.10 this function takes no argument, in later releases it takes a device.
    parameters = inspect.signature(joint_graph.lazy_init).parameters
    joint_graph.lazy_init(*[torch.device("cpu")] * len(parameters))
    profile = {"kind": "codegen", "backend": "cpu", "isa": "avx2", "threads": 1}
    capture(sentinel.build, dtype=torch.float32, dynamic=False, profile=profile)
    torch._dynamo.reset()
    # The first compile has cached a copy of this table, which would hide a later replacement of a
    # decomposition.
    decomposition.fast_random_decomps.cache_clear()
    environment()
    take_snapshot()  # a child's snapshot copies only what differs from this one
    del os.environ[_ASKS_NVML]  # so that a patch that sets it changes the environment


def _import_compiler() -> None:
    """Import the modules that a compile imports, and fill tables that are filled only once."""
    for name in _COMPILER:
        importlib.import_module(name)
    for name in _OPTIONAL:
        with suppress(ImportError):
            importlib.import_module(name)
    for name in _LATE:
        # Only create and keep the bytecode. Without it, each child that imports the module would
        # compile its source.
        with suppress(Exception):  # not in this release
            loader: Any = getattr(importlib.util.find_spec(name), "loader", None)
            loader.get_code(name)
    with suppress(Exception):  # no Triton here, or it has another name
        # Compute and cache the digest of Triton's files that is part of a key; it takes 0.5 s.
        importlib.import_module("torch._inductor.runtime.triton_compat").triton_key()
    with suppress(ImportError):
        from torch._dynamo.funcname_cache import get_funcname

        # For its log Dynamo looks up the function of each traced line, for which it reads the
        # whole file once.
        for name in _TRACED:
            get_funcname(str(importlib.import_module(f"torch.nn.{name}").__file__), 1)


def _use_huge_pages() -> None:
    """Move this process's own memory to huge pages where it is at least half in use, because a
    fork copies an entry for every page. Do nothing if the kernel has no huge pages.
    """
    try:
        size = int(Path(_PAGE_BYTES).read_text())
        mappings = Path("/proc/self/smaps").read_text(errors="replace")
    except (OSError, ValueError):
        return
    madvise = ctypes.CDLL(None).madvise
    for start, end, used in _MAPPING.findall(mappings):
        first, last = int(start, 16), int(end, 16)
        if int(used) * 2048 >= last - first:
            # Pages are moved one by one, because physical memory may be too scattered for some.
            for page in range(-(-first // size) * size, last // size * size, size):
                madvise(ctypes.c_void_p(page), ctypes.c_size_t(size), _COLLAPSE)
