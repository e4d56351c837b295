"""What a kernel has to do, as the model of time reads it off the scheduler and off generated code."""

import pytest

from patchgate.inputs.devices import load_profile
from patchgate.inputs.workloads import load_workloads
from patchgate.runner.client import request_for


@pytest.fixture
def observed(runner, torch):
    def observe(workload):
        return runner.ask(torch, "observe", **request_for(load_workloads()[workload], load_profile("h200"), None))

    return observe


def test_products_and_generated_kernels_alternate_and_move_what_the_scheduler_counts(observed):
    answer = observed("residual_stack")
    products = [launch for launch in answer["launches"] if launch["operations"]]
    generated = [launch for launch in answer["launches"] if launch["arithmetic"]]
    assert (len(products), len(generated), len(answer["launches"])) == (12, 13, 25)
    assert {launch["dtype"] for launch in products} == {"bfloat16"}
    assert all(launch["programs"] > 132 for launch in generated)
    assert sum(launch["bytes"] for launch in answer["launches"]) == answer["facts"]["bytes.total"]


def test_a_loop_over_long_rows_has_its_rows_and_reads_them_again(observed):
    (loop,) = (launch for launch in observed("cross_entropy")["launches"] if launch["rows"] > 1)
    assert loop["rows"] == 2048
    assert loop["arithmetic"] > 10 * 2048 * 32_000, "an exponential costs more than an addition"


def test_rows_of_a_table_that_are_looked_up_are_counted_and_not_the_table(observed):
    answer = observed("embedding")
    table = 30_522 * 768 * 2
    assert sum(launch["bytes"] for launch in answer["launches"]) < table < answer["facts"]["bytes.total"]
