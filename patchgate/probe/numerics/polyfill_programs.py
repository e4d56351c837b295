"""Programs that compile calls of a function of Python's for which a patch gives Dynamo a form that
it can trace (`torch.compiler.substitute_in_graph`), with iterators that are read on afterwards.

Python itself shows which calls are valid.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from patchgate.probe.patch.snapshot import POLYFILLS

# Arguments as text; each call makes them anew.
_ARGUMENTS = (
    "iter([1, 2, 3, 2, 5])",
    "[1, 2, 3, 2, 5]",
    "2",
    "(1, 2, 2, 3)",
    "-1",
    "lambda *each: sum(each) > 3",
    "(each * 2 for each in range(5))",
    "{1: 2, 2: 3}",
    "'21'",
    "0",
    "range(4)",
    "[]",
    "{1, 2, 3}",
    "2.0",
)
# The most arguments of a call, and calls with each number of arguments.
_LONGEST, _CALLS = 3, 16
# Some functions return an iterator without an end.
_PROGRAM = """import {module}
@compiled
def f(x):
    {given}
    result = {module}.{name}({names})
    if hasattr(result, "__next__"):
        result = [each for _, each in zip(range(9), result)]
    return x + 1, result, [{rest}]
found = f(a)
return found[0], torch.tensor([*repr(found[1:]).encode()])"""


def polyfilled(names: Iterable[str]) -> list[str]:
    """The functions among names such as `torch._dynamo.polyfills[_operator.indexOf]`."""
    start = POLYFILLS[:-1]
    return [name[len(start) : -1] for name in names if name.startswith(start)]


def polyfill_texts(function: str, seed: int) -> Iterator[str]:
    """Texts of programs that call a function such as `_operator.indexOf`, with one argument, with
    two and with three, drawn from all that Python takes.
    """
    module, _, name = function.rpartition(".")
    called = getattr(sys.modules.get(module), name, None)
    draw = random.Random(seed)
    for count in range(1, _LONGEST + 1):
        every = itertools.product(_ARGUMENTS, repeat=count)
        valid = [given for given in every if callable(called) and _is_valid(called, given)]
        for given in draw.sample(valid, min(_CALLS, len(valid))):
            names = [f"given{at}" for at in range(count)]
            pairs = [*zip(names, given, strict=True)]
            iterators = (each for each, text in pairs if text.startswith(("iter(", "(each ")))
            yield _PROGRAM.format(
                module=module,
                name=name,
                given="; ".join(f"{each} = {text}" for each, text in pairs),
                names=", ".join(names),
                rest=", ".join(f"list({each})" for each in iterators),
            )


def _is_valid(called: Any, given: tuple[str, ...]) -> bool:
    """True if Python takes the arguments, and gives the same result again."""
    results = []
    for _ in range(2):
        made = [eval(text) for text in given]  # the texts are ours
        try:
            result = called(*made)
            is_iterator = hasattr(result, "__next__")
            results.append(repr([*itertools.islice(result, 9)] if is_iterator else result))
        except Exception:
            return False
    return results[0] == results[1] and " at 0x" not in results[0]
