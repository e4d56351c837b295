"""Seeds faults into operators, as cases of a corpus, for the check of operator samples alone.

`PYTHON benchmarks/operator_faults.py write FOLDER [SEED [COUNT]]`, with the Python of a torch
environment, writes patches of operators that are chosen by a random number, each with one mutation.
Then `python -m benchmarks.corpus --row TORCH=PYTHON --cells samples --lines SCORES FOLDER` judges
them, and `python benchmarks/operator_faults.py table SCORES` counts what was caught.
"""

from __future__ import annotations

import inspect
import json
import keyword
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SEED, COUNT = 20261124, 40
# How many of a kind of target there are of every 16 faults.
_SHARES = {
    "lowering": 6,
    "decomposition": 3,
    "functional": 3,
    "function": 1,
    "method": 1,
    "module": 2,
}


@dataclass(frozen=True)
class Parameter:
    """An argument of an operator: its place, name, type and default as source text."""

    at: int
    name: str
    kind: str
    default: str | None = None
    by_name: bool = False


@dataclass(frozen=True)
class Target:
    """The thing that a patch replaces, and its parameters."""

    kind: str
    name: str
    parameters: tuple[Parameter, ...]
    results: int = 1
    pointwise: bool = False
    reduces: bool = False
    commutes: bool = False


_WITH = """def _with(args, kwargs, at, name, change):
    if name in kwargs:
        return args, {**kwargs, name: change(kwargs[name])}
    if at < len(args):
        return (*args[:at], change(args[at]), *args[at + 1 :]), kwargs
    return args, kwargs


"""
_LOWERING = """import torch
from torch._inductor import lowering

key = torch.ops.{name}
original = lowering.lowerings[key]


{body}

lowering.lowerings[key] = replacement
"""
_REGISTERED = _LOWERING.replace(
    "\nlowering.lowerings[key] = replacement",
    "\nlowering.register_lowering(key, type_promotion_kind=None)(replacement)",
)
_DECOMPOSITION = """import torch
from torch._inductor import decomposition

key = torch.ops.{name}
original = decomposition.decompositions[key]


{body}

decomposition.decompositions[key] = replacement
decomposition.fast_random_decomps.cache_clear()
"""
_ATTRIBUTE = """import functools

import torch

original = {name}


{body}

{name} = replacement
"""
_SETTING = """def replacement(self, *args, **kwargs):
    given, self.{name} = self.{name}, {default}
    try:
        return original(self, *args, **kwargs)
    finally:
        self.{name} = given
"""


def _changed(parameter: Parameter, change: str) -> str:
    place = f"{parameter.at}, {parameter.name!r}"
    return f"""{_WITH}def replacement(*args, **kwargs):
    args, kwargs = _with(args, kwargs, {place}, lambda given: {change})
    return original(*args, **kwargs)
"""


def _swapped(target: Target) -> Iterator[str]:
    tensors = [p.kind for p in target.parameters[:2]] == ["Tensor", "Tensor"]
    if tensors and not target.commutes:
        yield """def replacement(a, b, *args, **kwargs):
    return original(b, a, *args, **kwargs)
"""


def _dropped(target: Target) -> Iterator[str]:
    for each in target.parameters:
        plain = each.kind in ("bool", "int", "float", "Scalar", "str", "ScalarType?", "SymInt")
        if each.default is not None and plain and each.name not in ("alpha", "beta", "inplace"):
            yield _changed(each, each.default)


def _scale(target: Target) -> Iterator[str]:
    for each in target.parameters:
        if each.name in ("alpha", "beta") and each.default is not None:
            yield _changed(each, each.default)


def _optional_tensor(target: Target) -> Iterator[str]:
    for each in target.parameters:
        if each.kind == "Tensor?":
            yield _changed(each, "None")


def _dim(target: Target) -> Iterator[str]:
    for each in target.parameters:
        if each.name in ("dim", "axis", "dim0", "start_dim") and each.kind in ("int", "int[]"):
            if each.kind == "int":
                yield _changed(each, "given - 1 if given and given > 1 else given")
            else:
                change = "[d - 1 if d > 1 else d for d in given] if given else given"
                yield _changed(each, change)


def _dtype(target: Target) -> Iterator[str]:
    if target.results == 1 and target.kind != "module":
        cast = "result.to(torch.float32)"
        if target.kind == "lowering":
            cast = "lowering.to_dtype(result, torch.float32)"
        yield f"""def replacement(*args, **kwargs):
    result = original(*args, **kwargs)
    return {cast}
"""


def _broadcast(target: Target) -> Iterator[str]:
    if target.pointwise and len(target.parameters) > 1 and target.parameters[1].kind == "Tensor":
        size = "a.get_size()" if target.kind == "lowering" else "a.shape"
        is_tensor = "hasattr(b, 'get_size')" if target.kind == "lowering" else "torch.is_tensor(b)"
        expand = f"lowering.expand(b, {size})" if target.kind == "lowering" else "b.expand_as(a)"
        yield f"""def replacement(a, b, *args, **kwargs):
    b = {expand} if {is_tensor} else b
    return original(a, b, *args, **kwargs)
"""


def _empty(target: Target) -> Iterator[str]:
    if target.reduces:
        size = "args[0].get_size()" if target.kind == "lowering" else "args[0].shape"
        plus = "lowering.lowerings[torch.ops.aten.add.Tensor](result, 1)"
        plus = plus if target.kind == "lowering" else "result + 1"
        yield f"""def replacement(*args, **kwargs):
    result = original(*args, **kwargs)
    return {plus} if 0 in {size} else result
"""


MUTATIONS: dict[str, Callable[[Target], Iterator[str]]] = {
    "swapped": _swapped,
    "keyword": _dropped,
    "scale": _scale,
    "tensor": _optional_tensor,
    "dim": _dim,
    "dtype": _dtype,
    "broadcast": _broadcast,
    "empty": _empty,
}


def _of_schema(kind: str, name: str, overload: Any) -> Target | None:
    """The target with the parameters of an operator; None where no call of it can be written."""
    import torch

    schema, parameters = overload._schema, []
    for at, argument in enumerate(schema.arguments):
        if keyword.iskeyword(argument.name):
            return None
        default = repr(argument.default_value) if argument.has_default_value() else None
        text = str(argument.real_type).replace("Optional[", "").rstrip("]")
        text = f"{text}?" if "Optional[" in str(argument.real_type) else text
        text = {"List[int": "int[]", "List[int?": "int[]", "number": "Scalar"}.get(text, text)
        parameters.append(Parameter(at, argument.name, text, default, argument.kwarg_only))
    results = len(schema.returns) if str(schema.returns[0].type) == "Tensor" else 0
    pointwise = torch.Tag.pointwise in overload.tags
    effects = _reduces(overload), _commutes(overload)
    return Target(kind, name, tuple(parameters), results, pointwise, *effects)


def _commutes(overload: Any) -> bool:
    """True if the order of two tensors makes no difference."""
    import torch

    for one, other in ((torch.rand(4), torch.rand(4)), (torch.arange(4), torch.arange(4).flip(0))):
        try:
            return bool(torch.equal(overload(one, other), overload(other, one)))
        except Exception:  # it takes other arguments
            continue
    return False


def _reduces(overload: Any) -> bool:
    """True if the operator gives elements for a tensor that has none."""
    import torch

    for more in ((), ([1],), (1,)):
        try:
            result = overload(torch.zeros(2, 0), *more)
        except Exception:
            continue
        return isinstance(result, torch.Tensor) and result.numel() > 0
    return False


def _of_signature(kind: str, name: str, function: Any) -> Target | None:
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    parameters = []
    for at, each in enumerate(found):
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            return None
        default = None if each.default is each.empty else repr(each.default)
        text = str(getattr(each.annotation, "__name__", each.annotation))
        optional = "None" in str(each.annotation) or "Optional" in str(each.annotation)
        if "Tensor" in str(each.annotation):
            text = "Tensor?" if optional else "Tensor"
        parameters.append(Parameter(at, each.name, text, default))
    if kind == "functional" and (not parameters or parameters[0].kind != "Tensor"):
        return None
    return Target(kind, name, tuple(parameters))


def _overloads(table: dict[Any, Any]) -> Iterator[Any]:
    """Keys of a table that a compile of a call on the CPU may reach."""
    import torch

    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    for key in table:
        if isinstance(key, torch._ops.OpOverload) and key.namespace == "aten":
            try:
                known = any(has_kernel(key.name(), k) for k in ("CPU", "CompositeExplicitAutograd"))
            except RuntimeError:  # a key that stands for no operator
                continue
            takes = [str(a.type) for a in key._schema.arguments]
            if known and "Tensor" in takes and key._schema.returns and not key._schema.is_mutable:
                yield key


def _targets() -> dict[str, list[Target]]:
    """Kind -> everything of it that could be replaced."""
    import torch
    from torch._inductor.decomposition import decompositions
    from torch._inductor.lowering import lowerings

    found: dict[str, list[Target | None]] = {kind: [] for kind in _SHARES}
    for key in _overloads(lowerings):
        if key not in decompositions:
            found["lowering"].append(_of_schema("lowering", str(key), key))
    for key in _overloads(decompositions):
        found["decomposition"].append(_of_schema("decomposition", str(key), key))
    for name, function in sorted(vars(torch.nn.functional).items()):
        if inspect.isfunction(function) and not name.startswith(("_", "has_", "handle_")):
            target = _of_signature("functional", f"torch.nn.functional.{name}", function)
            found["functional"].append(target)
    for name in sorted({key._overloadpacket.__name__ for key in _overloads(lowerings)}):
        overload = next(
            getattr(p, o) for p in [getattr(torch.ops.aten, name)] for o in p.overloads()
        )
        for kind, owner in (("function", "torch"), ("method", "torch.Tensor")):
            if not name.startswith("_") and hasattr(eval(owner), name):  # one of two modules
                found[kind].append(_of_schema(kind, f"{owner}.{name}", overload))
    for name, module in sorted(vars(torch.nn).items()):
        if inspect.isclass(module) and "forward" in vars(module):
            found["module"].append(_of_module(f"torch.nn.{name}", module))
    return {kind: [each for each in targets if each] for kind, targets in found.items()}


def _of_module(name: str, module: Any) -> Target | None:
    """A module whose forward reads settings: those that the class names as constants."""
    target = _of_signature("module", f"{name}.forward", module.__init__)
    constants = getattr(module, "__constants__", ())
    settings = [p for p in target.parameters if p.name in constants] if target else []
    settings = [p for p in settings if p.default not in (None, "None") and p.name != "inplace"]
    return Target("module", f"{name}.forward", tuple(settings)) if settings else None


def _bodies(mutation: str, target: Target) -> list[str]:
    """Texts of the function that takes the place of a target, each with the mutation."""
    if target.kind != "module":
        return list(MUTATIONS[mutation](target))
    return [_SETTING.format(name=p.name, default=p.default) for p in target.parameters]


def _text(target: Target, body: str, chosen: random.Random) -> str:
    """The patch as a project would write it."""
    if target.kind == "lowering":
        text = chosen.choice([_LOWERING, _LOWERING, _REGISTERED])
    else:
        text = _DECOMPOSITION if target.kind == "decomposition" else _ATTRIBUTE
    if text is _ATTRIBUTE:  # what stands before the function belongs before its decorator
        before, _, body = body.rpartition("def replacement")
        body = f"{before}@functools.wraps(original)\ndef replacement{body}"
    return text.replace("{name}", target.name).replace("{body}", body)


def write(folder: Path, seed: int, count: int) -> None:
    """A case a fault, in turns of each kind of target: `patch.py` and `corpus.toml`."""
    chosen, targets = random.Random(seed), _targets()
    used: set[str] = set()
    kinds = [kind for kind, share in _SHARES.items() for _ in range(share)]
    while len(used) < count:
        kind = kinds[len(used) % len(kinds)]
        mutation = "keyword" if kind == "module" else chosen.choice(list(MUTATIONS))
        fitting = [t for t in targets[kind] if t.name not in used and _bodies(mutation, t)]
        if not fitting:
            continue
        target = chosen.choice(fitting)
        used.add(target.name)
        text = _text(target, chosen.choice(_bodies(mutation, target)), chosen)
        short = target.name.removeprefix("torch.").replace("nn.functional.", "")
        case = folder / f"{mutation}-{kind}-{short.removeprefix('aten.')}"
        case.mkdir(parents=True)
        text = f'"""Replaces {target.name} with a fault: {mutation}."""\n\n{text}'
        (case / "patch.py").write_text(text, encoding="utf-8")
        expected = 'class = "fault"\ncells = ["samples"]\n\n[[expect]]\ncode = ["PG512", "PG513"]\n'
        (case / "corpus.toml").write_text(expected, encoding="utf-8")


def table(lines: Path) -> str:
    """Mutation -> how many were caught, of each kind of target and of all."""
    scores = [json.loads(line) for line in lines.read_text("utf-8").splitlines()]
    kinds = [*_SHARES, "all"]
    counts: dict[str, dict[str, list[bool]]] = {}
    for score in scores:
        mutation, kind, _ = score["case"].split("-", 2)
        for row in (mutation, "all"):
            for column in (kind, "all"):
                by_kind = counts.setdefault(row, {})
                by_kind.setdefault(column, []).append(score["outcome"].startswith("caught"))
    rows = [f"| mutation | {' | '.join(kinds)} |", "| --- " * (len(kinds) + 1) + "|"]
    for row in [*MUTATIONS, "all"]:
        found = [counts.get(row, {}).get(kind, []) for kind in kinds]
        cells = (f"{sum(each)} of {len(each)}" if each else "" for each in found)
        rows.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    command, path, *numbers = sys.argv[1:]
    if command == "table":
        print(table(Path(path)))
    else:
        seed, count = (*(int(number) for number in numbers), *(SEED, COUNT)[len(numbers) :])
        write(Path(path), seed, count)
