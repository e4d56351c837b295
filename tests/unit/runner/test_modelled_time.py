"""The modelled time: bytes or products or arithmetic, whichever takes longer, and a launch for each kernel."""

import pytest

from patchgate.inputs.devices import load_profile
from patchgate.model.paths import DEVICES
from patchgate.probe.protocol import Launch
from patchgate.runner.modelled_time import roofline_time

SPEED = {"bandwidth": 1e12, "launch": 2e-6, "matmul": {"bfloat16": 1e14, "float32": 1e13}}
BYTES, MANY = 94_000_000, 1_000_000  # 100 us at the share of the bandwidth that is reached; thread blocks


def launch(**figures):
    return dict.fromkeys(Launch.__annotations__, 0) | {"dtype": "", "programs": MANY} | figures


def time(*launches):
    return roofline_time(launches, SPEED)


MOVED = launch(bytes=BYTES)
PRODUCT = launch(bytes=BYTES, operations=80_000_000_000, dtype="bfloat16")


@pytest.mark.parametrize(
    ("launches", "microseconds"),
    [
        ([], 0),
        ([MOVED], 100 + 2),
        ([MOVED, MOVED], 2 * (100 + 2)),
        ([PRODUCT], 1000 + 1.3 + 2),
        ([PRODUCT | {"operations": 1}], 100 + 1.3 + 2),
        ([PRODUCT | {"dtype": "float64"}], 100 + 1.3 + 2),
        ([launch(arithmetic=10**9)], 100 + 2),
        ([MOVED | {"again": BYTES}], 200 + 2),
        ([MOVED | {"rows": 100_000}], 100 + 30 + 2),
    ],
)
def test_a_kernel_takes_as_long_as_what_takes_it_longest(launches, microseconds):
    assert time(*launches) == pytest.approx(microseconds)


def test_arithmetic_and_bytes_overlap_but_not_wholly():
    both = time(MOVED | {"arithmetic": 10**9})
    assert time(MOVED) < both < time(MOVED) + 100


def test_few_thread_blocks_do_not_use_the_whole_bandwidth():
    assert time(MOVED | {"programs": 1}) > 10 * time(MOVED)
    assert time(MOVED | {"programs": 132}) == time(MOVED)


def test_strided_bytes_cost_more():
    assert time(MOVED | {"strided": BYTES}) == pytest.approx(300 + 2)


def test_every_figure_of_a_profile_names_its_source():
    profiles = [load_profile(path.stem) for path in DEVICES.glob("*.toml")]
    speeds = [profile["speed"] for profile in profiles if profile["kind"] == "simulated"]
    assert len(speeds) >= 6
    for speed in speeds:
        assert all(word in speed["source"] for word in ("bandwidth", "matmul", "launch"))
        assert {"float32", "bfloat16", "float16", "int8"} <= speed["matmul"].keys()
        assert all(figure > 0 for figure in (speed["bandwidth"], speed["launch"], *speed["matmul"].values()))
