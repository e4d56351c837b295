"""Loads again the code that Inductor generated for one side, so that its kernels get new addresses
in the device's memory.

The new copy keeps the launch configs. A kernel that both sides share has the same config on both.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

from torch._inductor.async_compile import CompiledTritonKernels
from torch._inductor.codecache import PyCodeCache
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime.triton_heuristics import CachingAutotuner

from patchgate.probe.protocol import Function


class GeneratedCode:
    """The generated module of one graph, which can be loaded again."""

    def __init__(self, load: Callable[[], ModuleType], module: ModuleType) -> None:
        self._load, self._kernels = load, _kernels(module)
        self._call: Function = module.call

    def reload(self, configs: dict[str, str]) -> None:
        """Load the module again. Kernels in `configs` (file -> launch config) get their config
        there; other kernels choose a config when they are called.
        """
        CompiledTritonKernels.cache_clear()
        module = self._load()
        self._call, self._kernels = module.call, _kernels(module)
        for kernel in self._kernels:
            if not kernel.launchers:
                kernel.precompile()
        self.pin(configs)

    def pin(self, configs: dict[str, str]) -> None:
        """Restrict each kernel in `configs` (file -> launch config) to that config."""
        for kernel in self._kernels:
            pinned = [
                launcher
                for launcher in kernel.launchers
                if str(launcher.config) == configs.get(kernel.filename)
            ]
            kernel.launchers = pinned or kernel.launchers

    def configs(self) -> dict[str, str]:
        """Return the launch config of each kernel that has run, by the file of its source. Kernels
        with equal source have the same file.
        """
        return {
            kernel.filename: str(kernel.launchers[0].config)
            for kernel in self._kernels
            if kernel.filename and len(kernel.launchers) == 1
        }

    def __call__(self, args: Any) -> Any:
        return self._call(args)


class KernelCache:
    """The Triton kernels that one side has built. They are kept apart, because the other side may
    build equal source in another way.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._modules: dict[str, ModuleType] = {}

    @contextmanager
    def use(self) -> Iterator[None]:
        """Until the context ends, no other side's kernels are found, in this process or on disk."""
        CompiledTritonKernels.cache_clear()
        with (
            mock.patch.dict(os.environ, {"TRITON_CACHE_DIR": self._folder}),
            mock.patch.object(PyCodeCache, "modules_no_attr", self._modules),
        ):
            yield


def _kernels(module: ModuleType) -> list[CachingAutotuner]:
    return [value for value in vars(module).values() if isinstance(value, CachingAutotuner)]


@contextmanager
def collect_code(codes: list[GeneratedCode], configs: dict[str, str]) -> Iterator[None]:
    """Until the context ends, add the modules that Inductor generates to `codes`. They are pinned
    to `configs` and are called through their `GeneratedCode`.
    """
    load_by_key_path, compile_to_module = (
        PyCodeCache.load_by_key_path,
        GraphLowering.compile_to_module,
    )
    loads: list[Callable[[], ModuleType]] = []

    def recorded_load(*args: Any, **kwargs: Any) -> Any:
        module = load_by_key_path(*args, **kwargs)
        loads.append(functools.partial(load_by_key_path, *args, **kwargs))
        return module

    def recorded_compile(self: GraphLowering) -> Any:
        module = compile_to_module(self)
        # Kernels are modules too, and are loaded while the graph's module is.
        codes.append(GeneratedCode(loads[-1], module))
        codes[-1].pin(configs)
        module.call = codes[-1]
        return module

    with (
        mock.patch.object(PyCodeCache, "load_by_key_path", recorded_load),
        mock.patch.object(GraphLowering, "compile_to_module", recorded_compile),
    ):
        yield
