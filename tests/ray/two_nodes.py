"""A Ray cluster of two nodes on this machine, for the tests that sweep over one."""

import os
from contextlib import contextmanager

import pytest


@contextmanager
def two_nodes():
    """Its address."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    testing = pytest.importorskip("ray.cluster_utils", reason="Ray is not installed")
    made = testing.Cluster()
    for number in range(2):
        _add(made, {} if number else {"include_dashboard": False})
    yield made.address
    made.shutdown()


def _add(made, options, tries=3):
    """Ray gives a node half a minute to come up, which a machine with much else to do may not
    have.
    """
    try:
        made.add_node(num_cpus=1, **options)
    except Exception:
        if tries == 1:
            raise
        _add(made, options, tries - 1)
