"""Compiles a model with a patch as a user's script does. A copy of this file runs under another
name and imports nothing of patchgate.

The patch and the compiler are called at module level, not in a function. All settings of the
process and of the compiler are as for a user.
"""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.util
import json
import os
import sys
import threading
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.utils._config_module import ConfigModule

# The values of the settings are pasted into the copy here.
SETTINGS: dict[str, Any] = {}


def state() -> dict[str, str]:
    """Return the settings of this process and torch's options that are not at their defaults."""
    found = {f"environment {name}": value for name, value in os.environ.items()}
    found |= {"process cwd": os.getcwd(), "threads": str(threading.active_count())}
    for name, module in list(sys.modules.items()):
        if isinstance(module, ConfigModule):
            found |= {
                f"config {name}.{option}": "set"
                for option in module._config
                if not module._is_default(option)
            }
    return found


def read_call(text: str, patch: Any) -> tuple[Any, list[Any], dict[str, Any]]:
    """Parse `function` or `package.module:function(literals)` into a function and its arguments."""
    owner, _, text = text.rpartition(":")
    call = ast.parse(text, mode="eval").body
    function: Any = importlib.import_module(owner) if owner else patch
    given, words = (call.args, call.keywords) if isinstance(call, ast.Call) else ([], [])
    for part in ast.unparse(call.func if isinstance(call, ast.Call) else call).split("."):
        function = getattr(function, part)
    keywords = {str(word.arg): ast.literal_eval(word.value) for word in words}
    return function, [*map(ast.literal_eval, given)], keywords


if __name__ == "__main__":
    sys.path[:0] = SETTINGS["paths"]
    sys.path += SETTINGS["import_path"]
    before = state()
    scope: Any = None
    if SETTINGS["patch"]:
        dotted, name = SETTINGS["module"], os.path.splitext(os.path.basename(SETTINGS["patch"]))[0]
        if dotted:
            package = dotted.rpartition(".")[0]
            if package:
                importlib.import_module(package)
            if package and dotted not in sys.modules:
                before = state()  # changes by the packages are not the patch's
            patch = importlib.import_module(dotted)
        else:
            spec: Any = importlib.util.spec_from_file_location(name, SETTINGS["patch"])
            patch = sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(patch)
        for text in SETTINGS["install"]:
            function, args, keywords = read_call(text, patch)
            function(*args, **keywords)
        if SETTINGS["scope"]:
            function, args, keywords = read_call(SETTINGS["scope"], patch)
            scope = function(*args, **keywords)
            scope.__enter__()
    after = state()
    if scope is not None:
        scope.__exit__(None, None, None)
    model = importlib.import_module(SETTINGS["model"])

    from torch._inductor import cpu_vec_isa

    # Here the compiler finds that only one ISA can be built, and it caches this result. So it asks
    # no C++ compiler, and everything is as on a machine with this ISA.
    check = cpu_vec_isa.VecISA.check_build
    cpu_vec_isa.VecISA.check_build = lambda isa, code: str(isa) == SETTINGS["isa"]
    cpu_vec_isa.valid_vec_isa_list()
    cpu_vec_isa.VecISA.check_build = check

    with torch.no_grad():
        torch.manual_seed(SETTINGS["seed"])
        module, inputs = model.build(
            torch.device("cpu"), getattr(torch, SETTINGS["dtype"]), "small"
        )
        if scope is not None:  # the model was built outside the scope, as in the gate
            scope = function(*args, **keywords)
            scope.__enter__()
            torch.set_default_dtype(torch.float32)
        outputs = torch.compile(module, dynamic=SETTINGS["dynamic"])(*inputs)
    torch.save(
        [leaf.detach() for leaf in pytree.tree_leaves(outputs) if torch.is_tensor(leaf)],
        SETTINGS["outputs"],
    )
    del scope
    changed = sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )
    with open(SETTINGS["report"], "w", encoding="utf-8") as file:
        json.dump({"changed": changed}, file)
    # No last garbage collection among all modules: it would take longer than the rest of the
    # interpreter's shutdown.
    gc.freeze()
    # The status differs in each run, so it is noticed if a patch ends the process with another
    # status.
    sys.exit(SETTINGS["status"])
