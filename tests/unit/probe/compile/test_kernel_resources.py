"""Theoretical occupancy on the profiles that there are, by cases worked out with NVIDIA's own
rules.
"""

import pytest

from patchgate.inputs.devices import load_profile
from patchgate.probe.compile.kernel_resources import occupancy


@pytest.mark.parametrize(
    ("device", "registers", "warps", "shared", "percent"),
    [
        ("h200", 32, 4, 0, 100),  # 16 blocks of 4 warps fill 64
        ("h200", 64, 4, 0, 50),  # 65,536 registers are 32 warps of 64
        ("h200", 67, 1, 0, 43),  # 72 by the unit of 256 a warp: 28 warps
        ("h200", 16, 1, 0, 50),  # 32 blocks at most
        ("h200", 255, 8, 0, 12),  # one block
        ("h200", 32, 4, 100_000, 12),  # two blocks by shared memory
        ("l4", 32, 4, 0, 100),  # 12 blocks fill 48 warps
        ("l4", 16, 1, 0, 50),  # 24 blocks at most
        ("a100", 86, 16, 0, 25),
    ],
)
def test_the_scarcest_resource_decides(device, registers, warps, shared, percent):
    assert occupancy(registers, warps, shared, load_profile(device)) == percent
