"""Run by the Python of a torch row: how samples next to one that breaks the graph are compiled, and
how its breaks are counted; as JSON.
"""

import itertools
import json
from typing import Any

import torch

from patchgate.probe.numerics.operator_samples import run_compiled
from patchgate.probe.numerics.sample_calls import Sample, op_db
from patchgate.probe.numerics.sample_compiles import count_compiles, counting_backend

ONE = torch.ones(2)
GRAPHS: list[list[str]] = []


def noted(graph: Any, inputs: Any) -> Any:
    GRAPHS.append([node.name for node in graph.graph.nodes if node.op.startswith("call")])
    return graph.forward


def graphs_of(*functions: str) -> list[list[str]]:
    """The calls in each graph of some samples that are compiled together."""
    GRAPHS.clear()
    run_compiled([Sample(name, (ONE,), {}) for name in functions], noted)
    return list(GRAPHS)


def broken(x: torch.Tensor) -> torch.Tensor:
    return x * float(x.sum())


torch.broken = broken
attention = next(op for op in op_db() if op.name == "nn.functional.scaled_dot_product_attention")
QUERY = torch.ones(1, 2, 4, 8)
GRAPHS.clear()
torch._dynamo.reset()
torch.compile(lambda: [attention.op(QUERY, QUERY, QUERY), QUERY.exp()], backend=noted)()
found: dict[str, Any] = {"attention": [len(calls) for calls in GRAPHS]}
found["next to a break"] = graphs_of("torch.exp", "torch.broken", "torch.sin")
found["without one"] = graphs_of("torch.exp", "torch.sin")
backend = counting_backend(["torch.exp"])
assert backend is not None
found["counts"] = [
    count_compiles(function, itertools.repeat(((ONE,), {})), backend, most)
    for function, most in ((broken, 2), (torch.exp, 1))
]


@torch.no_grad()
def looked_up(places: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.embedding_bag(places, torch.ones(4, 2), offsets)


calls = [((torch.tensor([0, 1, 2, 3][:length]), torch.tensor([0, 2])), {}) for length in (4, 1)]
errors = count_compiles(looked_up, iter(calls), backend, 2)
found["gradients"] = [isinstance(errors[-1], str), torch.is_grad_enabled()]
print(json.dumps(found))
