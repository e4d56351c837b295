"""Compiles a model with a patch as a user's script does; it is copied to where it runs, and imports nothing of ours.

Reads `settings.json` beside it, and writes `outputs.pt` and `report.json` there.
"""

from __future__ import annotations

import ast
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


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """Import the patch, compile the model, save what it gives; what the import has set besides."""
    sys.path[:0] = settings["paths"]
    sys.path += settings["import_path"]
    before = state()
    scope = None
    if settings["patch"]:
        module = load(settings["module"], settings["patch"])
        for call in settings["install"]:
            install(module, call)
        scope = getattr(module, settings["scope"])() if settings["scope"] else None
        if scope is not None:
            scope.__enter__()
    after = state()
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    model = load(None, settings["model"])
    torch.set_num_threads(1)
    import torch._inductor.config as config
    from torch._inductor import cpu_vec_isa

    # One vector ISA, so that the others are not probed. Precompiled headers do not pay for one process.
    isas = cpu_vec_isa.supported_vec_isa_list
    isas[:] = [isa for isa in isas if type(isa).__name__ == settings["isa"]]
    options = {"cpp.simdlen": isas[0].bit_width(), "cpp.threads": 1}
    options |= {name: False for name in ("cpp_cache_precompile_headers",) if hasattr(config, name)}
    with config.patch(options), torch.no_grad():
        torch.manual_seed(settings["seed"])
        function, args = model.build(torch.device("cpu"), getattr(torch, settings["dtype"]), "small")
        outputs = torch.compile(function, dynamic=settings["dynamic"])(*args)
    leaves = [leaf.detach() for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]
    torch.save(leaves, "outputs.pt")
    del scope
    return {"changed": changed}


def state() -> dict[str, str]:
    """The settings of this process, and the options of torch that are not at their defaults."""
    found = {f"environment {name}": value for name, value in os.environ.items()}
    found |= {"process cwd": os.getcwd(), "threads": str(threading.active_count())}
    for name, module in list(sys.modules.items()):
        if isinstance(module, ConfigModule):
            found |= {f"config {name}.{option}": "set" for option in module._config if not module._is_default(option)}
    return found


def load(dotted: str | None, path: str) -> Any:
    """The module of a file: by its dotted name, or run as one named for the file."""
    if dotted:
        return importlib.import_module(dotted)
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def install(module: Any, text: str) -> None:
    """Call `function`, or `package.module:function(literals)`."""
    owner, _, text = text.rpartition(":")
    call = ast.parse(text, mode="eval").body
    function: Any = importlib.import_module(owner) if owner else module
    args, words = (call.args, call.keywords) if isinstance(call, ast.Call) else ([], [])
    for name in ast.unparse(call.func if isinstance(call, ast.Call) else call).split("."):
        function = getattr(function, name)
    keywords: dict[str, Any] = {str(word.arg): ast.literal_eval(word.value) for word in words}
    function(*map(ast.literal_eval, args), **keywords)


if __name__ == "__main__":
    with open("settings.json", encoding="utf-8") as file:
        report = run(json.load(file))
    with open("report.json", "w", encoding="utf-8") as file:
        json.dump(report, file)
