"""Backends of `torch.compile` that build no code: their graphs run node by node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._functorch.aot_autograd import make_boxed_func

from patchgate.probe.numerics.fake_forms import FakesHeld, calls_own_operators


def captured(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """Run the graph as Dynamo made it."""
    return graph.forward


def without_code(graph: Any, inputs: Any) -> Any:
    """Run the graph after all of Inductor's passes."""
    return _after_passes(graph, inputs, lambda graph, inputs, mode, is_inference: None)


def lowered(graph: Any, inputs: Any) -> Any:
    """Run the graph after all of Inductor's passes. Its code is written but not built, so that the
    code's conditions on sizes become guards.
    """
    return _after_passes(graph, inputs, _write_code)


def _after_passes(graph: Any, inputs: Any, act: Callable[..., None]) -> Any:
    """Compile as Inductor does, but call `act` in place of making code."""
    from torch._inductor import compile_fx
    from torch._inductor.virtualized import V

    def run_graph(graph: Any, inputs: Any, *, is_inference: bool = False, **_: Any) -> Any:
        compile_fx.view_to_reshape(graph)
        with torch.no_grad():
            mode = compile_fx.fake_tensor_prop(graph, inputs)
        compile_fx.record_original_output_strides(graph)
        with V.set_fake_mode(mode):
            compile_fx._recursive_post_grad_passes(graph, is_inference=is_inference)
            act(graph, inputs, mode, is_inference)
        _draw_from_seeds(graph)
        return make_boxed_func(FakesHeld(graph).run if calls_own_operators(graph) else graph)

    return compile_fx.compile_fx(graph, inputs, inner_compile=run_graph)


def _write_code(graph: Any, inputs: Any, mode: Any, is_inference: bool) -> None:
    from torch._inductor.debug import DebugContext
    from torch._inductor.graph import GraphLowering
    from torch._inductor.virtualized import V

    lowering = GraphLowering(
        graph, example_inputs=inputs, shape_env=mode.shape_env, is_inference=is_inference
    )
    with DebugContext(), V.set_graph_handler(lowering), V.set_extern_kernel_nodes([]):
        lowering.run(*inputs)
        lowering.codegen()


def _draw_from_seeds(graph: torch.fx.GraphModule) -> None:
    """Let random numbers depend on their seed, as in generated code: a backward may draw the
    numbers of the forward again.
    """
    from torch._inductor import inductor_prims

    for node in graph.graph.find_nodes(op="call_function", target=inductor_prims.random):
        node.target = _drawn_from_seed
    graph.recompile()


def _drawn_from_seed(size: Sequence[int], seed: torch.Tensor, mode: str) -> torch.Tensor:
    found: torch.Tensor = getattr(torch, mode)(
        size, generator=torch.Generator().manual_seed(int(seed))
    )
    return found
