"""Stands in for Triton's driver where no device is: a patch may ask for it as it is imported.

Without it what Triton says depends on the machine: "0 active drivers", "libcuda.so cannot found",
or a real device's answer. `import torch` alone does not import Triton, so where a patch is the
first to do that it is stood in for then.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import MetaPathFinder
from typing import Any
from unittest import mock

import torch

from patchgate.probe.protocol import Profile
from patchgate.probe.simulate.needs_device import NeedsDevice

# The module; as an attribute `triton.runtime.driver` is the object in it that holds the drivers.
_MODULE = "triton.runtime.driver"
_HELD = ("_active", "_default")
# What a case on the CPU says to a patch that is imported: it is compiled for the CPU of a machine
# with a GPU.
BESIDE_THE_CPU: Profile = {
    "backend": "cuda",
    "properties": {"major": 9, "minor": 0, "warp_size": 32, "multi_processor_count": 132}
    | {"regs_per_multiprocessor": 65536, "shared_memory_per_block_optin": 232448},
}
# Triton asks its driver for these where it loads, launches or times a kernel.
_RUNS_KERNELS = {
    "assemble_tensormap_to_arg",
    "clear_cache",
    "get_current_stream",
    "get_empty_cache_for_benchmark",
    "launcher_cls",
    "set_current_device",
}
# Triton's names of what it asks of a device, and those of a profile.
_PROPERTIES = {
    "max_shared_mem": "shared_memory_per_block_optin",
    "max_num_regs": "regs_per_multiprocessor",
    "multiprocessor_count": "multi_processor_count",
    "warpSize": "warp_size",
}


#: Receives the names of calls that would have initialised a real device.
CallLog = Callable[[str], None]


class _Utilities:
    """Of the driver: the properties of its device that a profile has."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._known = {
            ours: properties[name] for ours, name in _PROPERTIES.items() if name in properties
        }

    def get_device_properties(self, device: int) -> Mapping[str, Any]:
        return _Properties(self._known)

    def __getattr__(self, name: str) -> Any:
        raise NeedsDevice(f"a kernel is run on it (Triton's `utils.{name}`)")


class _Properties(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        raise NeedsDevice(f"its `{name}`")


class _Driver:
    """The part of Triton's active driver that Triton, or a patch, calls without launching
    anything.
    """

    def __init__(self, profile: Profile, log: CallLog | None) -> None:
        self._log, self._backend = log, profile["backend"]
        self._properties: Mapping[str, Any] = profile["properties"]
        self.utils = _Utilities(self._properties)

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        if self._log is not None:
            self._log(f"{_MODULE}.active.get_current_target")
        capability = self._properties["major"] * 10 + self._properties["minor"]
        return GPUTarget(self._backend, capability, self._properties["warp_size"])

    def get_active_torch_device(self) -> torch.device:
        return torch.device(self._backend, 0)

    def get_current_device(self) -> int:
        return 0

    def get_device_interface(self) -> Any:
        return torch.cuda

    def is_active(self) -> bool:
        return True

    def get_benchmarker(self) -> Any:
        """As the driver of a real device: an autotuner asks for it before it knows that it has one
        candidate.
        """
        from triton.testing import do_bench

        return do_bench

    def __getattr__(self, name: str) -> Any:
        if name in _RUNS_KERNELS:
            raise NeedsDevice(f"a kernel is run on it (Triton's `{name}`)")
        raise AttributeError(name)


@contextlib.contextmanager
def triton_driver(profile: Profile, log: CallLog | None = None) -> Iterator[None]:
    """Within it, Triton's active and default driver is that of the device that `profile`
    describes.
    """
    driver = _Driver(profile, log)
    with contextlib.ExitStack() as stack:
        if _MODULE in sys.modules:
            # Not set_active: its counterpart would look for a real driver on the way out.
            holder = sys.modules[_MODULE].driver
            for name in _HELD:
                stack.enter_context(mock.patch.object(holder, name, driver))
        else:
            finder = _Finder(driver)
            sys.meta_path.insert(0, finder)
            stack.callback(finder.leave)
        yield


def spec_of_others(
    finder: MetaPathFinder, name: str, path: Sequence[str] | None, target: types.ModuleType | None
) -> importlib.machinery.ModuleSpec | None:
    """The module as the finders after this one find it."""
    for other in sys.meta_path[sys.meta_path.index(finder) + 1 :]:
        spec = other.find_spec(name, path, target) if hasattr(other, "find_spec") else None
        if spec:
            return spec
    return None


class _Finder(MetaPathFinder):
    """Puts the driver into Triton's module when that has been imported."""

    def __init__(self, driver: _Driver) -> None:
        self._driver, self._holder = driver, None

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _MODULE:
            return None
        spec = spec_of_others(self, name, path, target)
        if spec is not None and spec.loader is not None:
            self._fill_after(spec.loader, spec.loader.exec_module)
        return spec

    def _fill_after(self, loader: Any, run: Any) -> None:
        def exec_module(module: Any) -> None:
            run(module)
            self._holder = module.driver
            for name in _HELD:
                setattr(module.driver, name, self._driver)

        vars(loader)["exec_module"] = exec_module

    def leave(self) -> None:
        sys.meta_path.remove(self)
        for name in _HELD:
            if getattr(self._holder, name, None) is self._driver:
                setattr(self._holder, name, None)
