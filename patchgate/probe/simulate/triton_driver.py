"""Replaces Triton's driver if there is no device, because a patch may use the driver at import.

Without this, Triton's answer depends on the machine: "0 active drivers", "libcuda.so cannot found",
or a real device's answer. `import torch` alone does not import Triton. If a patch is the first to
import Triton, the driver is replaced during that import.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch

from patchgate.probe.process.watched_imports import WatchedImports
from patchgate.probe.protocol import Function, Profile
from patchgate.probe.simulate.needs_device import NeedsDevice

# The module. The attribute `driver` of `triton.runtime` is the object in it that holds the drivers.
_MODULE = "triton.runtime.driver"
_HELD = ("_active", "_default")
# The GPU that a patch sees in a case that is compiled for the CPU of a machine with a GPU.
BESIDE_THE_CPU: Profile = {
    "backend": "cuda",
    "properties": {"major": 9, "minor": 0, "warp_size": 32, "multi_processor_count": 132}
    | {"regs_per_multiprocessor": 65536, "shared_memory_per_block_optin": 232448},
}
# Attributes of the driver that Triton uses to load, launch or time a kernel.
_RUNS_KERNELS = {
    "assemble_tensormap_to_arg",
    "clear_cache",
    "get_current_stream",
    "get_empty_cache_for_benchmark",
    "launcher_cls",
    "set_current_device",
}
# Triton's name of a device property -> its name in a profile.
_PROPERTIES = {
    "max_shared_mem": "shared_memory_per_block_optin",
    "max_num_regs": "regs_per_multiprocessor",
    "multiprocessor_count": "multi_processor_count",
    "warpSize": "warp_size",
}


#: Receives the names of calls that would have initialised a real device.
CallLog = Callable[[str], None]


class _Utilities:
    """The driver's utilities. They offer only the device properties that the profile has."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        names = {name: ours for name, ours in _PROPERTIES.items() if ours in properties}
        self._known = {name: properties[ours] for name, ours in names.items()}

    def get_device_properties(self, device: int) -> Mapping[str, Any]:
        return _Properties(self._known)

    def __getattr__(self, name: str) -> Any:
        raise NeedsDevice(f"a kernel is run on it (Triton's `utils.{name}`)")


class _Properties(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        raise NeedsDevice(f"its `{name}`")


class _Driver:
    """The part of Triton's active driver that Triton or a patch can use without launching a
    kernel.
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
        """Return the benchmarker, as the driver of a real device does. An autotuner gets it even if
        there is only one candidate.
        """
        from triton.testing import do_bench

        return do_bench

    def __getattr__(self, name: str) -> Any:
        if name in _RUNS_KERNELS:
            raise NeedsDevice(f"a kernel is run on it (Triton's `{name}`)")
        raise AttributeError(name)


@contextmanager
def triton_driver(profile: Profile, log: CallLog | None = None) -> Iterator[None]:
    """Until the context ends, Triton's active and default drivers are a driver for the device of
    `profile`.
    """
    driver, holder = _Driver(profile, log), None

    def fill(module: Any, execute: Function, _: bool) -> None:
        nonlocal holder
        execute(module)
        holder = module.driver
        for name in _HELD:
            setattr(holder, name, driver)

    if _MODULE in sys.modules:
        # set_active is not used, because resetting it would look for a real driver.
        held: dict[str, Any] = dict.fromkeys(_HELD, driver)
        with mock.patch.multiple(sys.modules[_MODULE].driver, **held):
            yield
        return
    try:
        with WatchedImports(lambda name: name == _MODULE, fill):
            yield
    finally:
        for name in _HELD:
            if getattr(holder, name, None) is driver:
                setattr(holder, name, None)
