"""Prints what attention becomes on simulated devices, as JSON; reads their profiles from standard
input, as JSON.

The kernel of every combination; of every 25th also the operators around it, as they are traced.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from attention_combinations import Combination, arguments, combinations, operators

from patchgate.probe.simulate.attention import Attention, attention_kernel
from patchgate.probe.simulate.device_context import device_context, fake_tensors


def kernel(combination: Combination, capability: tuple[int, int]) -> str:
    """Chosen from shapes and strides alone."""
    (query, key, value, mask), options = arguments(combination, "meta")
    dropout, is_causal, grouped = options["dropout_p"], options["is_causal"], options["enable_gqa"]
    return attention_kernel(
        Attention(query, key, value, mask, dropout, is_causal, None, grouped), capability
    )


def taken(profile: dict[str, Any]) -> dict[str, dict[str, str]]:
    capability = (profile["properties"]["major"], profile["properties"]["minor"])
    every = combinations()
    with fake_tensors(profile, ()), device_context(profile):
        traced = {
            str(combination): operators(combination, profile["backend"])
            for combination in every[::25]
        }
        kernels = {str(combination): kernel(combination, capability) for combination in every}
    return {"kernels": kernels, "operators": traced}


if __name__ == "__main__":
    print(json.dumps([taken(profile) for profile in json.load(sys.stdin)]))
