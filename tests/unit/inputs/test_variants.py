"""What a variant of a workload is called, is checked for, and changes of its record."""

import pytest

from patchgate.inputs.variants import VARIANTS, checks_of, name_of
from patchgate.model.records import Workload

ALL = ("kernels", "parity", "compile", "cache")


@pytest.mark.parametrize(
    ("variant", "checks"),
    [
        ("static", ALL),
        ("dynamic", ALL),
        ("float16", ("kernels", "parity")),
        ("training", ("kernels", "parity")),
        ("max-autotune", ("kernels",)),
        ("shapes", ("shapes",)),
    ],
)
def test_a_variant_is_checked_for_what_it_has(variant, checks):
    assert checks_of(variant, ALL) == checks


@pytest.mark.parametrize("variant", ["reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_a_mode_of_a_file_that_is_timed_is_timed(variant):
    assert checks_of(variant, (*ALL, "latency")) == ("latency",)


def test_the_plain_variant_has_the_name_of_the_file():
    assert [name_of("mlp", variant) for variant in ("static", "dynamic-batch")] == ["mlp", "mlp_dynamic_batch"]


def test_a_variant_changes_fields_that_there_are():
    for changed in VARIANTS.values():
        made = Workload(**({"name": "n", "path": "p", "dtype": "float32"} | changed))
        assert {name: getattr(made, name) for name in changed} == changed


def test_only_what_is_tuned_on_the_device_needs_one():
    needing = {variant for variant, changed in VARIANTS.items() if changed.get("needs_device")}
    assert needing == {"max-autotune", "max-autotune-no-cudagraphs"}
