"""Run by the Python of a torch row: the classes of some modules, as `inspect` sees them, as
JSON.
"""

import importlib
import inspect
import json
import sys


def signature(function):
    try:
        found = inspect.signature(function, follow_wrapped=True)
    except (TypeError, ValueError):
        return None
    return [
        [each.name, each.kind.name, each.default is not each.empty]
        for each in found.parameters.values()
    ]


def members(owner):
    found = {}
    for name, value in vars(owner).items():
        kind = type(value).__name__
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        elif kind == "cached_property":
            value = value.func
        code = getattr(inspect.unwrap(value) if callable(value) else value, "__code__", None)
        made = code is None or not code.co_filename.endswith(".py")
        found[name] = {
            "kind": kind,
            "signature": signature(value) if inspect.isroutine(value) else None,
            "made": made,
            "name": getattr(value, "__name__", ""),
        }
    return found


def classes(name):
    module = importlib.import_module(name)
    for owner in vars(module).values():
        if inspect.isclass(owner) and owner.__module__ == name:
            yield (
                owner.__qualname__,
                {
                    "members": members(owner),
                    "mro": [f"{each.__module__}.{each.__qualname__}" for each in owner.__mro__],
                },
            )


print(json.dumps({name: dict(classes(name)) for name in sys.argv[1:]}))
