"""What generated Triton kernels are and need once they are compiled for a device, with no device there.

Decides how a kernel is compiled: its first configuration, by Triton and ptxas, for the profile's
architecture. Refuses to run a kernel.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Any

import torch._inductor.config as inductor_config
from torch._inductor.codecache import PyCodeCache
from torch._inductor.runtime.compile_tasks import _set_triton_ptxas_path
from triton.compiler.errors import CompilationError

from patchgate.probe.compile.kernels import Kernel
from patchgate.probe.compile.occupancy import occupancy
from patchgate.probe.simulate.fake_device import Profile

_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
_EXECUTABLE = 0x4  # SHF_EXECINSTR
_LAUNCHERS = ("use_static_cuda_launcher", "use_static_triton_launcher")


@dataclass(kw_only=True)
class Resources:
    """Of one kernel: per thread (registers, spilled bytes), per block (shape, warps, shared bytes), code in bytes."""

    registers: int
    spilled: int
    shared: int
    warps: int
    code: int
    block: str


def resource_facts(kernels: list[Kernel], profile: Profile) -> dict[str, Any]:
    """Lists over the distinct Triton kernels, in order of definition. Must run inside the stand-in."""
    _set_triton_ptxas_path()  # torch compiles with a ptxas of its own, newer than Triton's
    found, refused = [], {}
    for index, kernel in enumerate((each for each in kernels if each.source), 1):
        try:
            found.append(_resources(*_compiled(kernel)))
        except CompilationError as error:  # as on a real one: this architecture lacks what the kernel uses
            refused[f"resources.refused.{index}"] = str(error).strip().splitlines()[-1]
    facts: dict[str, Any] = {
        f"resources.{name}": [getattr(one, name) for one in found]
        for name in ("registers", "spilled", "shared", "warps", "code")
    }
    facts["resources.block"] = "; ".join(one.block for one in found)
    if "properties" in profile:  # a real device does not say how many blocks fit
        facts["resources.occupancy"] = [occupancy(one.registers, one.warps, one.shared, profile) for one in found]
    return facts | refused


def machine_code(kernels: list[Kernel]) -> dict[str, str]:
    """Digest of a Triton kernel's source -> digest of its machine code, or why it has none. Inside the stand-in."""
    _set_triton_ptxas_path()
    found = {}
    for kernel in (each for each in kernels if each.source):
        try:
            made = hashlib.sha256(_executable(_compiled(kernel)[1].asm["cubin"])).hexdigest()
        except CompilationError as error:
            made = str(error).strip().splitlines()[-1]
        found[hashlib.sha256(kernel.source.encode()).hexdigest()] = made
    return found


def _compiled(kernel: Kernel) -> tuple[Any, Any]:
    """The first configuration of a kernel, and what Triton made of it, from its cache where that has it."""
    options = {name: False for name in _LAUNCHERS if name in inductor_config.get_config_copy()}
    # The static launcher drops the binary.
    with inductor_config.patch(options):
        # A module of our own: on a real device torch's has been compiled, and dropped its configurations.
        tuner = getattr(PyCodeCache.load(kernel.source, extra="resources"), kernel.function)
        return tuner.configs[0], tuner._precompile_config(tuner.configs[0]).kernel


def _resources(config: Any, made: Any) -> Resources:
    binary = made.asm["cubin"]
    registers, stack, _, local = _usage(binary)
    return Resources(
        registers=registers,
        spilled=stack + local,
        shared=made.metadata.shared,
        warps=made.metadata.num_warps,
        code=len(_executable(binary)),
        block=" ".join(f"{name}={size}" for name, size in sorted(config.kwargs.items())),
    )


def _executable(binary: bytes) -> bytes:
    """The machine code of an ELF file: its sections that are executable. The rest holds paths of this machine."""
    (start,) = struct.unpack_from("<Q", binary, 0x28)
    size, count = struct.unpack_from("<HH", binary, 0x3A)
    sections = (struct.unpack_from("<IIQQQQ", binary, start + index * size) for index in range(count))
    return b"".join(
        binary[offset : offset + length] for _, _, flags, _, offset, length in sections if flags & _EXECUTABLE
    )


def _usage(binary: bytes) -> tuple[int, int, int, int]:
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin", dir=os.environ.get("TMPDIR")) as file:
        file.write(binary)
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    match = _USAGE.search(told)
    assert match is not None, told
    registers, stack, shared, local = map(int, match.groups())
    return registers, stack, shared, local
