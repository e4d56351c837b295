"""The modelled time: bytes or products, whichever takes longer, and a launch for each kernel."""

import pytest

from patchgate.inputs.devices import load_profile
from patchgate.model.paths import DEVICES
from patchgate.runner.roofline import roofline_time

SPEED = {"bandwidth": 1e12, "launch": 2e-6, "matmul": {"bfloat16": 1e14}}
MOVED, PRODUCT = (1_000_000, 0, ""), (1_000_000, 1_000_000_000, "bfloat16")


@pytest.mark.parametrize(
    ("launches", "microseconds"),
    [
        ([], 0),
        ([MOVED], 1 + 2),
        ([MOVED, MOVED], 2 * (1 + 2)),
        ([PRODUCT], 10 + 2),
        ([(20_000_000, 1_000_000_000, "bfloat16")], 20 + 2),
        ([(1_000_000, 10**12, "float64")], 1 + 2),
    ],
)
def test_a_kernel_takes_as_long_as_its_bytes_or_its_products(launches, microseconds):
    assert roofline_time(launches, SPEED) == pytest.approx(microseconds)


def test_the_stack_is_modelled_below_what_the_h200_took():
    """docs/latency.md: 795.6 us; its kernels as Inductor's scheduler counts them on torch 2.11.0."""
    products = [(50_331_648, 34_359_738_368, "bfloat16")] * 12
    others = [(1_241_528_320 - 12 * 50_331_648) // 13] * 13
    modelled = roofline_time([*products, *((moved, 0, "") for moved in others)], load_profile("h200")["speed"])
    assert modelled == pytest.approx(632, abs=1)


def test_every_figure_of_a_profile_names_its_source():
    profiles = [load_profile(path.stem) for path in DEVICES.glob("*.toml")]
    speeds = [profile["speed"] for profile in profiles if profile["kind"] == "simulated"]
    assert len(speeds) >= 6
    for speed in speeds:
        assert all(word in speed["source"] for word in ("bandwidth", "matmul", "launch"))
        assert {"float32", "bfloat16", "float16", "int8"} <= speed["matmul"].keys()
        assert all(figure > 0 for figure in (speed["bandwidth"], speed["launch"], *speed["matmul"].values()))
