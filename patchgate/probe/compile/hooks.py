"""Counts calls of the hooks that Inductor's config offers to users: is each still called once a patch is in?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch._inductor.config as config

# Option -> whether the hook returns what it was given: scheduler nodes; the others change their graph in place.
_HOOKS = {
    "pre_grad_custom_pass": False,
    "joint_custom_pre_pass": False,
    "joint_custom_post_pass": False,
    "post_grad_custom_pre_pass": False,
    "post_grad_custom_post_pass": False,
    "_pre_fusion_custom_pass": True,
    "_post_fusion_custom_pass": True,
}


def install_counters() -> Counter[str]:
    """Put a counter into every hook that this torch has, as a user would before the patch; its calls by hook."""
    calls: Counter[str] = Counter()

    def counter_of(name: str, returns_nodes: bool) -> Callable[..., Any]:
        def hook(*args: Any, **kwargs: Any) -> Any:
            calls[name] += 1
            return args[0] if returns_nodes else None

        return hook

    for name, returns_nodes in _HOOKS.items():
        if hasattr(config, name):
            setattr(config, name, counter_of(name, returns_nodes))
    return calls
