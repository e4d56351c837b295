"""Programs that call Python functions for which a patch gives Dynamo another form to trace
(`torch.compiler.substitute_in_graph`). Results are compared, and so are the arguments after the
call: iterators are read to their end, and lists may have changed.

Python itself shows which calls are valid.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator
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
# A program reads only the first elements of an iterator that is returned: some have no end.
_PROGRAM = """import {module}
@compiled
def f(x):
    {given}
    result = {module}.{name}({names})
    if hasattr(result, "__next__"):
        result = [each for _, each in zip(range(9), result)]
    return x + 1, result, [{left}]
found = f(a)
return found[0], torch.tensor([*repr(found[1:]).encode()])"""


def is_polyfill(name: str) -> bool:
    """True for a name such as `torch._dynamo.polyfills[_operator.indexOf]`."""
    return name.startswith(POLYFILLS[:-1])


def polyfill_texts(polyfill: str, seed: int) -> Iterator[str]:
    """Yield texts of programs that call the function of a polyfill with one, two and three
    arguments. These are drawn from all combinations that Python accepts.
    """
    module, _, name = polyfill[len(POLYFILLS) - 1 : -1].rpartition(".")
    called = getattr(sys.modules.get(module), name, None)
    draw = random.Random(seed)
    for count in range(1, _LONGEST + 1):
        every = itertools.product(_ARGUMENTS, repeat=count)
        valid = [given for given in every if callable(called) and _is_valid(called, given)]
        for given in draw.sample(valid, min(_CALLS, len(valid))):
            names = [f"given{at}" for at in range(count)]
            pairs = [*zip(names, given, strict=True)]
            left = (
                f"list({each})" if text.startswith(("iter(", "(each ")) else each
                for each, text in pairs
                if not text.startswith("lambda")
            )
            yield _PROGRAM.format(
                module=module,
                name=name,
                given="; ".join(f"{each} = {text}" for each, text in pairs),
                names=", ".join(names),
                left=", ".join(left),
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
