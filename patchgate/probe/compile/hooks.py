"""The hooks that torch offers to users of the compiler: is each still called once a patch is in?

Decides which options of Inductor's config are hooks, and counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch._inductor.config as config

# A hook that is given scheduler nodes must hand them on; the others change their graph in place.
_HOOKS = {
    "pre_grad_custom_pass": False,
    "joint_custom_pre_pass": False,
    "joint_custom_post_pass": False,
    "post_grad_custom_pre_pass": False,
    "post_grad_custom_post_pass": False,
    "_pre_fusion_custom_pass": True,
    "_post_fusion_custom_pass": True,
}


def installed() -> Counter[str]:
    """Put a counter into every hook that this torch has, as a user would who came before the patch."""
    called: Counter[str] = Counter()

    def counting(name: str, hands_on: bool) -> Callable[..., Any]:
        def hook(*args: Any, **kwargs: Any) -> Any:
            called[name] += 1
            return args[0] if hands_on else None

        return hook

    for name, hands_on in _HOOKS.items():
        if hasattr(config, name):
            setattr(config, name, counting(name, hands_on))
    return called
