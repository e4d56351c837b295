"""The ways in which one workload file is compiled: shapes, training, dtypes and compile modes.

A pure table. Decides what a variant's name means; the plain one, `static`, is inference with the
file's own dtype, static shapes and torch.compile's default mode.
"""

from __future__ import annotations

from typing import Any

_TUNED = "it runs every candidate kernel on the device and keeps the fastest"

# Variant -> fields of `Workload`.
VARIANTS: dict[str, dict[str, Any]] = {
    "static": {},
    "dynamic": {"dynamic": True},
    "dynamic-batch": {"dynamic_dim": 0},
    "dynamic-sequence": {"dynamic_dim": 1},
    "training": {"training": True},
    "bfloat16": {"dtype": "bfloat16"},
    "float16": {"dtype": "float16"},
    "float32": {"dtype": "float32"},
    "reduce-overhead": {"mode": "reduce-overhead"},
    "shapes": {"asks": "shapes"},
    "max-autotune": {"mode": "max-autotune", "needs_device": _TUNED},
    "max-autotune-no-cudagraphs": {"mode": "max-autotune-no-cudagraphs", "needs_device": _TUNED},
}
# These have numbers to compare on the CPU; caches are asked of a file once, latency once in each mode.
_WITH_NUMBERS = {"bfloat16", "float16", "float32", "training"}
_WHOLE = {"static", "dynamic"}
_MODES = {"reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"}


def checks_of(variant: str, checks: tuple[str, ...]) -> tuple[str, ...]:
    """Those of a file's checks that its variant gets."""
    if variant in _WHOLE:
        return checks
    if variant == "shapes":
        return ("shapes",)
    if variant in _MODES and "latency" in checks:
        return ("latency",)  # what a mode does to facts is asked of other files
    kept = {"kernels", "parity"} if variant in _WITH_NUMBERS else {"kernels"}
    return tuple(check for check in checks if check in kept)


def name_of(stem: str, variant: str) -> str:
    """`prenorm_mlp`, `prenorm_mlp_dynamic`, `pointwise_max_autotune`."""
    return stem if variant == "static" else f"{stem}_{variant.replace('-', '_')}"
