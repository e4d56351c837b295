"""The resources that Triton kernels need on a device, their occupancy, and their machine code.

Triton and ptxas compile a kernel in its first configuration, for the architecture of a profile.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import subprocess
import tempfile
from typing import Any

from patchgate.probe.compile.generated_code import Kernel
from patchgate.probe.protocol import Facts, Profile

_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
_EXECUTABLE = 0x4  # SHF_EXECINSTR
_LAUNCHERS = ("use_static_cuda_launcher", "use_static_triton_launcher")
# The units in which a multiprocessor of capability 8.0 to 12.0 allocates registers, warps and bytes
# of shared memory, and the reserved bytes, by NVIDIA's occupancy calculator.
_REGISTER_UNIT, _WARP_UNIT, _SHARED_UNIT, _SHARED_RESERVED = 256, 4, 128, 1024


class _Refused(Exception):
    """A kernel needs a feature that the architecture lacks; a real device would refuse it too."""


def resource_facts(kernels: list[Kernel], profile: Profile) -> Facts:
    """Return facts that are lists over the distinct Triton kernels, in order of definition.

    Call it within `device_context`.
    """
    needs, refused = [], {}
    for index, kernel in enumerate((kernel for kernel in kernels if kernel.source), 1):
        try:
            needs.append(_resources(*_compile(kernel)))
        except _Refused as error:
            refused[f"resources.refused.{index}"] = str(error)
    facts: Facts = {
        f"resources.{name}": [need[name] for need in needs]
        for name in ("registers", "spilled", "shared", "warps", "code")
    }
    facts["resources.block"] = "; ".join(need["block"] for need in needs)
    if "properties" in profile:  # a real device's profile does not say how many fit
        facts["resources.occupancy"] = [
            occupancy(need["registers"], need["warps"], need["shared"], profile) for need in needs
        ]
    return facts | refused


def machine_code(kernels: list[Kernel]) -> dict[str, str]:
    """Return: SHA-256 of a Triton kernel's source -> SHA-256 of its machine code, or why there is
    none.

    Call it within `device_context`.
    """
    code_by_source = {}
    for source, kernel in {_sha256(each.source.encode()): each for each in kernels}.items():
        if kernel.source:
            try:
                code_by_source[source] = _sha256(_executable(_compile(kernel)[1].asm["cubin"]))
            except _Refused as error:
                code_by_source[source] = str(error)
    return code_by_source


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def occupancy(registers: int, warps: int, shared: int, profile: Profile) -> int:
    """Return the theoretical occupancy: the percentage of a multiprocessor's warps that fit.

    Args:
        registers: the registers of one thread.
        warps: the warps of one block.
        shared: the bytes of shared memory of one block.
        profile: the device.
    """
    properties = profile["properties"]
    most = properties["max_threads_per_multi_processor"] // properties["warp_size"]
    per_warp = _round_up(registers * properties["warp_size"], _REGISTER_UNIT)
    by_registers = properties["regs_per_multiprocessor"] // per_warp // _WARP_UNIT * _WARP_UNIT
    per_block = _round_up(shared + _SHARED_RESERVED, _SHARED_UNIT)
    blocks = min(
        profile["blocks_per_multiprocessor"],
        min(most, by_registers) // warps,
        properties["shared_memory_per_multiprocessor"] // per_block,
    )
    return int(100 * blocks * warps // most)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _compile(kernel: Kernel) -> tuple[Any, Any]:
    """Compile a kernel's first configuration. Return the configuration and Triton's result, which
    may come from Triton's cache.

    Raises _Refused.
    """
    # Imported here, because the rest of this module is tested without torch.
    import torch._inductor.config as inductor_config
    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.runtime.compile_tasks import _set_triton_ptxas_path
    from triton.compiler.errors import CompilationError

    _set_triton_ptxas_path()  # torch has its own ptxas, newer than Triton's
    # Static launchers are off, because they drop the binary.
    options = {name: False for name in _LAUNCHERS if name in inductor_config.get_config_copy()}
    try:
        with inductor_config.patch(options):
            # The source is loaded as a new module, because on a real device torch has already
            # compiled the original module and dropped its configurations.
            tuner = getattr(PyCodeCache.load(kernel.source, extra="resources"), kernel.function)
            return tuner.configs[0], tuner._precompile_config(tuner.configs[0]).kernel
    except CompilationError as error:
        raise _Refused(str(error).strip().splitlines()[-1]) from error


def _resources(config: Any, compiled: Any) -> dict[str, Any]:
    """Return registers and spilled bytes of a thread, shared bytes and warps of a block, bytes of
    code, and the configuration, such as "XBLOCK=1024".
    """
    binary = compiled.asm["cubin"]
    registers, stack, local = _usage(binary)
    return {
        "registers": registers,
        "spilled": stack + local,
        "shared": compiled.metadata.shared,
        "warps": compiled.metadata.num_warps,
        "code": len(_executable(binary)),
        "block": " ".join(f"{name}={size}" for name, size in sorted(config.kwargs.items())),
    }


def _executable(binary: bytes) -> bytes:
    """Return the machine code of an ELF file: its executable sections.

    Other sections contain paths of this machine.
    """
    (start,) = struct.unpack_from("<Q", binary, 0x28)
    size, count = struct.unpack_from("<HH", binary, 0x3A)
    code = b""
    for at in range(start, start + size * count, size):
        _, _, flags, _, offset, length = struct.unpack_from("<IIQQQQ", binary, at)
        code += binary[offset : offset + length] if flags & _EXECUTABLE else b""
    return code


def _usage(binary: bytes) -> tuple[int, int, int]:
    """Return the registers, bytes of stack and bytes of local memory of a thread, as printed by
    `cuobjdump`.
    """
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin", dir=os.environ.get("TMPDIR")) as file:
        file.write(binary)
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    match = _USAGE.search(printed)
    assert match is not None, printed
    registers, stack, _, local = map(int, match.groups())
    return registers, stack, local
