"""Writes patches that change nothing: whatever the gate says of them in red is a false alarm.

Each replaces something that a compile calls, wherever torch has it, by a wrapper that only passes
its arguments on, as logging and profiling patches do. Run by an interpreter that has torch:
`PYTHON benchmarks/plain_wrappers.py FOLDER --seed 1 --count 40`, then
`python -m benchmarks.corpus --whole FOLDER`.
"""

from __future__ import annotations

import argparse
import inspect
import random
import sys
import types
from collections import Counter
from pathlib import Path

import torch
import torch._dynamo
from torch._inductor import decomposition, lowering

# A wrapper adds a call to each call: of what is called more often the cost alone would be red.
_MOST_CALLS = 0.0005
_PACKAGES = ("torch._inductor.", "torch._dynamo.", "torch._functorch.")
_TABLES = (lowering.__name__, decomposition.__name__)
_FUNCTIONS = (
    "torch.nn.functional.silu",
    "torch.nn.functional.layer_norm",
    "torch.nn.functional.softmax",
    "torch.nn.functional.linear",
    "torch.nn.functional.relu",
    "torch.nn.functional.scaled_dot_product_attention",
    "torch.nn.modules.linear.Linear.forward",
    "torch.nn.modules.normalization.LayerNorm.forward",
    "torch.nn.modules.activation.GELU.forward",
    "torch.nn.modules.conv.Conv2d.forward",
)
_FUNCTION = '''"""Marks the calls of {name}, for a profiler; what it returns is not touched."""

import functools

{imports}

original = {first}


@functools.wraps(original)
def marked(*args, **kwargs):
    return original(*args, **kwargs)


if not hasattr(original, "is_marked"):
    marked.is_marked = True
{assignments}
'''
_ENTRY = '''"""Marks the calls of what a table has for operators, for a profiler."""

import functools

import torch
from {module} import {table}

aten = torch.ops.aten


def mark(original):
    @functools.wraps(original)
    def marked(*args, **kwargs):
        return original(*args, **kwargs)

    marked.is_marked = True
    return marked


for each in ({operators},):
    if not hasattr({table}[each], "is_marked"):
        {table}[each] = mark({table}[each])
'''
_PASS = '''"""Looks at each graph of a compile, and leaves it as it is."""

from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files


class Looks(CustomGraphPass):
    def __init__(self, before):
        self.before = before

    def __call__(self, graph):
        if self.before is not None:
            self.before(graph)
        self.seen = sum(1 for _ in graph.nodes)

    def uuid(self):
        before = self.before.uuid() if isinstance(self.before, CustomGraphPass) else None
        return get_hash_for_files((__file__,), repr(before))


if not isinstance(config.{option}, Looks):
    config.{option} = Looks(config.{option})
'''


def called_functions() -> dict[types.CodeType, int]:
    """The Python functions that some compiles call -> how often."""
    calls: Counter[types.CodeType] = Counter()

    def count(frame: types.FrameType, event: str, argument: object) -> None:
        if event == "call":
            calls[frame.f_code] += 1

    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16))
    sys.setprofile(count)
    torch.compile(model)(torch.randn(4, 8)).sum().backward()
    torch.compile(lambda x: torch.softmax(x, 1).sum(0))(torch.randn(4, 8))
    sys.setprofile(None)
    return calls


def holders(function: object) -> list[tuple[str, str]]:
    """Each (module, name) of torch that has the function, the one that defines it first."""
    found = [
        (name, key)
        for name, module in sorted(sys.modules.items())
        if name.startswith("torch.") and isinstance(module, types.ModuleType)
        for key, value in vars(module).items()
        if value is function
    ]
    return sorted(found, key=lambda at: at[0] != getattr(function, "__module__", ""))


def functions_and_methods(calls: dict[types.CodeType, int]) -> list[str]:
    """Dotted names of what can be replaced, of functions that are called, but not too often."""
    names = []
    limit = _MOST_CALLS * sum(calls.values())
    for module_name, module in sorted(sys.modules.items()):
        # Functions of these are entries of their tables, which another kind of patch wraps.
        if not module_name.startswith(_PACKAGES) or module_name in _TABLES:
            continue
        owners: list[tuple[str, object]] = [(module_name, module)]
        owners += [
            (f"{module_name}.{key}", value)
            for key, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module_name
        ]
        for dotted, owner in owners:
            names += [
                f"{dotted}.{key}"
                for key, value in vars(owner).items()
                if isinstance(value, types.FunctionType)
                and not key.startswith("__")
                and value.__module__ == module_name
                and value.__qualname__ == f"{dotted}.{key}"[len(module_name) + 1 :]
                and 0 < calls.get(value.__code__, 0) <= limit
                and not inspect.isgeneratorfunction(value)
            ]
    return names


def wrapper(dotted: str) -> str:
    """The text of a patch that wraps a function, or a method of a class."""
    parts = dotted.split(".")
    length = next(n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in sys.modules)
    module, rest = ".".join(parts[:length]), ".".join(parts[length:])
    places = [(module, rest)] if "." in rest else holders(getattr(sys.modules[module], rest))
    return _FUNCTION.format(
        name=dotted,
        imports="\n".join(f"import {each}" for each in dict.fromkeys(at for at, _ in places)),
        first=f"{places[0][0]}.{places[0][1]}",
        assignments="\n".join(f"    {at}.{name} = marked" for at, name in places),
    )


def entries(module: types.ModuleType, table: str, random_: random.Random) -> tuple[str, list[str]]:
    """The text of a patch that wraps an operator's entries of a table, and their names."""
    packets = sorted(
        {str(op.overloadpacket) for op in vars(module)[table] if hasattr(op, "_schema")}
    )
    packet = random_.choice([name for name in packets if name.startswith("aten.")])
    keys = [
        str(key)
        for key in vars(module)[table]
        if str(key) == packet or str(key).startswith(f"{packet}.")
    ]
    text = _ENTRY.format(module=module.__name__, table=table, operators=", ".join(keys))
    return text, [f"{module.__name__}.{table}[{key}]" for key in keys]


def write(folder: Path, name: str, text: str, targets: list[str]) -> None:
    case = folder / name
    case.mkdir(parents=True, exist_ok=True)
    (case / "patch.py").write_text(text, encoding="utf-8")
    quoted = ", ".join(f'"{target}"' for target in targets)
    title = f'title = "Marks calls, and changes nothing"\ntargets = [{quoted}]\n'
    (case / "patch.toml").write_text(title, encoding="utf-8")
    (case / "corpus.toml").write_text('class = "sound"\n', encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    given = parser.parse_args()
    chosen = random.Random(given.seed)
    names = functions_and_methods(called_functions())
    share = given.count // 8
    for dotted in chosen.sample(names, given.count - 4 * share):
        write(given.folder, f"calls-{dotted.replace('.', '-')}", wrapper(dotted), [dotted])
    for dotted in chosen.sample(_FUNCTIONS, min(share, len(_FUNCTIONS))):
        write(given.folder, f"calls-{dotted.replace('.', '-')}", wrapper(dotted), [dotted])
    for module, table in ((lowering, "lowerings"), (decomposition, "decompositions")):
        for number in range(share):
            text, targets = entries(module, table, chosen)
            write(
                given.folder,
                f"{table}-{number}-{targets[0].partition('aten.')[2].strip(']')}",
                text,
                targets,
            )
    options = ("post_grad_custom_post_pass", "post_grad_custom_pre_pass", "joint_custom_pre_pass")
    for option in options[:share]:
        target = f"torch._inductor.config.{option}"
        write(given.folder, f"pass-{option}", _PASS.format(option=option), [target])


if __name__ == "__main__":
    main()
