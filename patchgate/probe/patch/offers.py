"""Finds the backends and graph passes that a patch offers to its users, and compiles workloads with
them.

Nothing in torch calls them by itself: a backend needs a user who names it, and a pass needs a
graph.
"""

from __future__ import annotations

import copy
import inspect
import os
import re
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.backends.common import AotAutograd, aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.fx.passes.infra.pass_base import PassBase

from patchgate.probe.compile.capture import runs_nodes
from patchgate.probe.patch.module_name import top_level
from patchgate.probe.patch.snapshot import Changes
from patchgate.probe.process.reply import one_line
from patchgate.probe.protocol import (
    Function,
    OfferRun,
)
from patchgate.probe.simulate.needs_device import missing_answer

_REGISTRY = "torch._dynamo.backends.registry._COMPILER_FNS["
# Names of untyped parameters that are taken to be graph modules.
_UNTYPED = ("gm", "graph_module")
# A source with these words is about graphs of ATen operators, or of modules. Any other source is
# about Dynamo's graphs.
_OF_ATEN = re.compile(r"\b(aten|prims)\b|\[[\"']val[\"']\]")
_OF_MODULES = re.compile(r"\b(call_module|get_submodule|named_modules)\b")
# A line that refuses a graph on purpose.
_STATEMENT = re.compile(r"(raise|assert)\b|.*: *raise\b")
# Exceptions that a missing device or library never causes.
_MISTAKES = (TypeError, IndexError, NameError, ZeroDivisionError)
_TEXT_LENGTH = 300


def offers(
    module: ModuleType, changed: Changes, entry_points: Iterable[str], *, passes: bool
) -> list[str]:
    """`backend NAME` for each registered backend, `function NAME` for each entry point, and with
    `passes` also `pass NAME` for each pass.
    """
    found = [
        f"backend {name[len(_REGISTRY) : -1]}"
        for name, (_, new) in changed.items()
        if name.startswith(_REGISTRY) and not _is_of_torch(new)
    ]
    found += [f"function {name}" for name in entry_points if hasattr(module, name)]
    names = [name for name in vars(module) if passes and not name.startswith("_")]
    return found + [f"pass {name}" for name in names if _is_pass(module, getattr(module, name))]


def _is_of_torch(backend: Any) -> bool:
    """True for torch's own backends, which torch registers only when all backends are listed."""
    parts = backend.kwargs.values() if isinstance(backend, AotAutograd) else (backend,)
    modules = (str(getattr(part, "__module__", type(part).__module__)) for part in parts)
    return all(top_level(name) == "torch" for name in modules)


def _is_pass(module: ModuleType, value: Any) -> bool:
    """True for a pass class, and for a function whose only required argument is a graph."""
    is_class = inspect.isclass(value) and issubclass(value, PassBase)
    if is_class and inspect.isabstract(value):
        return False
    if not (is_class or inspect.isfunction(value)) or value.__module__ != module.__name__:
        return False
    try:
        inspect.signature(value).bind(*(() if is_class else ("a graph",)))
    except TypeError:
        return False
    return is_class or _kind_of_graph(value) != ""


def _kind_of_graph(function: Any) -> str:
    """The first parameter's type: "GraphModule" or "Graph"; empty for any other type."""
    first = next(iter(inspect.signature(function).parameters.values()))
    named = first.annotation
    if named is first.empty:
        return "GraphModule" if first.name in _UNTYPED else ""
    if not isinstance(named, str):
        named = getattr(named, "__name__", "")
    kind = named.rpartition(".")[2]
    return kind if kind in ("GraphModule", "Graph") else ""


def compiler_of(
    offer: str, module: ModuleType | None, run: OfferRun, *, dynamic: bool | None
) -> Callable[[Any], Any]:
    """A function that compiles a workload with a backend, or passes it through a pass; `run`
    records the outcome.
    """
    kind, _, name = offer.partition(" ")
    compile_with = partial(torch.compile, dynamic=dynamic)
    if module is None or kind == "backend":
        return partial(compile_with, backend=name)
    found = getattr(module, name)
    if kind == "function":
        return partial(compile_with, backend=found)
    text, through = inspect.getsource(module), partial(_run_after, found, run)
    if _OF_ATEN.search(text):
        compiler = aot_autograd(fw_compiler=lambda graph, _: make_boxed_func(through(graph)))
        return partial(compile_with, backend=compiler)
    if _OF_MODULES.search(text):
        return lambda workload: through(_traced(workload))
    return partial(compile_with, backend=lambda graph, _: through(graph))


class _Untraceable(Exception):
    """`torch.fx.symbolic_trace` makes no graph of a workload, which is not the fault of a pass."""


def _traced(workload: Any) -> GraphModule:
    """The graph of a copy of the workload: a pass may fold its weights."""
    try:
        return torch.fx.symbolic_trace(copy.deepcopy(workload))
    except Exception as error:
        raise _Untraceable(f"cannot be traced: {error}") from None


def _run_after(found: Any, run: OfferRun, module: GraphModule) -> Function:
    """A function that runs the module after the pass, node by node; raises for a broken graph."""
    before, had_values = str(module.graph), not _without_value(module)
    result = _after(found, module)
    code = result.code
    try:
        result.graph.lint()
        result.recompile()
    except Exception as error:
        raise RuntimeError(f"it leaves a broken graph: {error}") from error
    run["graphs"] += 1
    if str(result.graph) == before:
        return runs_nodes(result)
    run["changed"] += 1
    lost = _without_value(result) if had_values else []
    if lost:
        run["faults"]["values"] = f"{len(lost)} new nodes have no meta['val'], {lost[0]} first"
    if result is module and code != result.code:
        run["faults"]["code"] = "the graph is changed and its module not recompiled"
    if not _is_idempotent(found, result):
        run["faults"]["again"] = "run once more, it changes the graph again, or fails"
    checked: Function = _Checked(result, run).run
    return checked


def _is_idempotent(found: Any, module: GraphModule) -> bool:
    try:
        again = copy.deepcopy(module)  # with the weights, which a pass may fold
        return _operations(_after(found, again)) == _operations(module)
    except Exception:
        return False


def _after(found: Any, module: GraphModule) -> GraphModule:
    """The module that the pass changed in place, or the one that it returns."""
    change: Any = found() if inspect.isclass(found) else found
    takes_graph = change is found and _kind_of_graph(found) == "Graph"
    result = change(module.graph if takes_graph else module)
    result = getattr(result, "graph_module", result)
    if isinstance(result, Graph) and result is not module.graph:
        return GraphModule(module, result)
    return result if isinstance(result, GraphModule) else module


def _operations(module: GraphModule) -> list[tuple[str, str]]:
    return [(node.op, str(node.target)) for node in module.graph.nodes]


def _without_value(module: GraphModule) -> list[Node]:
    return [
        node for node in module.graph.nodes if node.op == "call_function" and "val" not in node.meta
    ]


class _Checked(Interpreter):
    """Runs a graph, and compares each result with the metadata of its node."""

    def __init__(self, module: GraphModule, run: OfferRun) -> None:
        super().__init__(module)
        self._offer_run = run

    def run_node(self, n: Node) -> Any:
        result, said = super().run_node(n), n.meta.get("val")
        if isinstance(said, Tensor) and isinstance(result, Tensor) and not _fits(said, result):
            text = f"{n}: meta['val'] is {_layout(said)}, its result {_layout(result)}"
            self._offer_run["faults"].setdefault("metadata", text)
        return result


def _fits(said: Tensor, result: Tensor) -> bool:
    """True if dtype and shape are the same; symbolic sizes fit any."""
    same = (a == b for a, b in zip(said.shape, result.shape, strict=False) if isinstance(a, int))
    return said.dtype == result.dtype and said.dim() == result.dim() and all(same)


def _layout(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def compiles_anything(compiler: Callable[[Any], Any]) -> bool:
    """False if not even a multiplication compiles, as with a backend for an absent device, or a
    pass for other graphs. True after an exception that only a mistake raises: such an exception
    counts against the offer.
    """
    torch._dynamo.reset()
    try:
        compiler(lambda x, y: x * y)(torch.ones(2), torch.ones(2))
    except Exception as error:
        return isinstance(_innermost(error), _MISTAKES)
    return True


def _innermost(error: BaseException) -> BaseException:
    """The innermost exception that Dynamo's exceptions wrap."""
    inner = getattr(error, "inner_exception", None)
    return _innermost(inner) if isinstance(inner, BaseException) else error


def failure_of_offer(error: Exception, patch: str | None) -> tuple[str, str]:
    """The kind of fault that an exception shows, `raises`, `refuses` or `unmeasured`, and
    its text.
    """
    inner = _innermost(error)
    text = one_line(inner, _TEXT_LENGTH)
    if missing_answer(error) or isinstance(inner, _Untraceable):
        return "unmeasured", text
    if isinstance(inner, NotImplementedError):
        return "refuses", text
    trace = traceback.extract_tb(inner.__traceback__)
    is_own = trace and patch and trace[-1].filename.startswith(os.path.dirname(patch))
    is_refused = is_own and _STATEMENT.match(trace[-1].line or "")
    return "refuses" if is_refused else "raises", text
