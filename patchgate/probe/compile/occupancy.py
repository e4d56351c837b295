"""Theoretical occupancy: how many warps of a kernel fit on one multiprocessor.

Decides by the rules of NVIDIA's occupancy calculator, from the figures of a device profile. Knows
no torch and no kernel.
"""

from __future__ import annotations

from typing import Any

# How a multiprocessor of capability 8.0 to 12.0 hands out registers and shared memory.
_REGISTER_UNIT, _WARP_UNIT, _SHARED_UNIT, _SHARED_RESERVED = 256, 4, 128, 1024


def occupancy(registers: int, warps: int, shared: int, profile: dict[str, Any]) -> int:
    """Percent of the warps that a multiprocessor can hold.

    Args:
        registers: of one thread.
        warps: of one block.
        shared: bytes of one block.
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
