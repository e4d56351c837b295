"""Programs that compile two functions with one directory of caches. The functions differ in one
thing that must be in the cache key, so that the second must not get the code of the first. One
program has a function for each of ten sets of options, and the last program writes files from
threads.

Each function calls a library, so that no kernel has to be built. Once the compiler is loaded, a
pair takes 0.2 to 1 s of CPU.
"""

from __future__ import annotations

_TEXT = """
import torch._functorch.config, torch._inductor.utils
DEFINITION
caches = {"force_disable_caches": False, "fx_graph_cache": True, "compile_threads": 1}
found = []
with (torch._inductor.utils.fresh_cache(), torch._inductor.config.patch(caches),
    torch._functorch.config.patch(enable_autograd_cache=True)):
    for each in PAIR:
        torch._dynamo.reset()
        found.append(each(m.clone()))
return found
"""
_SCALED = """
def scaled(by):
    return torch.compile(lambda x: torch.addmm(n, x, m, alpha=by))
"""
_CONSTANT = """
def constant(values, dtype=torch.float32):
    values = [*values, 0.1, 0.2, 0.3]
    return torch.compile(lambda x: (
        x[:2, 0].to(dtype) @ torch.tensor(values, dtype=dtype).view(2, -1)))
"""
_RESHAPED = """
def reshaped(rows):
    return torch.compile(lambda x: torch.tensor(range(16), dtype=x.dtype).view(rows, -1).sort(0)[0])
"""
# A pass exchanges the inputs of a graph, whatever the graph calls.
_EXCHANGED = """
def exchange(graph, swaps):
    given = [*graph.find_nodes(op="placeholder")]
    others = dict(zip(given, reversed(given))) if swaps else {}
    for node in graph.nodes:
        node.args = torch.fx.node.map_arg(node.args, lambda each: others.get(each, each))
"""
_PASSED = f"""{_EXCHANGED.rstrip()}
class Swap(torch._inductor.custom_graph_pass.CustomGraphPass):
    def __init__(self, swaps):
        self.swaps = swaps
    def __call__(self, graph):
        exchange(graph, self.swaps)
    def uuid(self):
        return str(self.swaps)
def passed(swaps):
    def call(x):
        with torch._inductor.config.patch(post_grad_custom_post_pass=Swap(swaps)):
            return torch.compile(lambda x: x @ n)(x)
    return call
"""
_PLAIN = f"""{_EXCHANGED.rstrip()}
def plain(swaps):
    def swap(graph):
        exchange(graph, swaps)
    def call(x):
        with torch._inductor.config.patch(post_grad_custom_post_pass=swap):
            return torch.compile(lambda x: x @ n)(x)
    return call
"""
_GIVEN = """
def given(change):
    return lambda x: torch.compile(lambda x: x @ x.T)(change(x))
"""
_TRAINED = """
def used(x):
    return torch.compile(lambda x: x @ n)(x)
def trained(x):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(torch.compile(lambda x: x @ n)(x), x, m)[0]
"""
_MODES = """
def called(mode):
    def call(x):
        x = x.clone().requires_grad_()
        with mode():
            y = torch.compile(lambda x: x @ n)(x)
        return torch.autograd.grad(y, x, m)[0] if y.requires_grad else y
    return call
"""
# The functions are the same, but are compiled with different options, which change code for the
# CPU. The result is how often code was found in a cache.
_OPTIONS = """
changes = {}, *({option: value} for option, value in (
    ("cpp.threads", 3), ("cpp.simdlen", 0), ("cpp.min_chunk_size", 77), ("fallback_random", True),
    ("cpp.dynamic_threads", True), ("emulate_precision_casts", True), ("max_fusion_size", 3),
    ("allow_buffer_reuse", False), ("unroll_reductions_threshold", 3)))
def hits():
    known = torch._dynamo.utils.counters
    return known["inductor"]["fxgraph_cache_hit"] + known["aot_autograd"]["autograd_cache_hit"]
def counted(change):
    def call(x):
        before = hits()
        with torch._inductor.config.patch(change):
            torch.compile(lambda x: x @ n)(x)
        return torch.tensor(hits() - before)
    return call
"""
# The functions of a pair differ in a number; in the values, the type or the sizes of a constant; in
# a pass with a key or without; in the type, the strides or the sizes of an input; in a gradient; in
# the grad mode; or in options.
_PAIRS = (
    (_SCALED, "scaled(2), scaled(3)"),
    (_CONSTANT, "constant(range(9)), constant(range(1, 10))"),
    (_CONSTANT, "constant(range(9)), constant(range(9), torch.float64)"),
    (_RESHAPED, "reshaped(4), reshaped(8)"),
    (_PASSED, "passed(False), passed(True)"),
    (_PLAIN, "plain(False), plain(True)"),
    (_GIVEN, "given(torch.clone), given(torch.Tensor.double)"),
    (_GIVEN, "given(torch.clone), given(torch.t)"),
    (_GIVEN, "given(torch.clone), given(lambda x: x[:3])"),
    (_TRAINED, "used, trained"),
    (_MODES, "called(torch.no_grad), called(torch.enable_grad)"),
    (_MODES, "called(torch.enable_grad), called(torch.no_grad)"),
    (_OPTIONS, "map(counted, changes)"),
)
# Four threads that write files into one cache, and read them again.
_THREADS = """
import concurrent.futures, torch._inductor.codecache, torch._inductor.utils
def written(number):
    text = f"# {number % 40}" * 4000
    key, path = torch._inductor.codecache.write(text, "py")
    with open(path) as file:
        return file.read() == text
with torch._inductor.utils.fresh_cache(), concurrent.futures.ThreadPoolExecutor(4) as pool:
    found = [*pool.map(written, range(400))]
return [torch.tensor(found).all()]
"""
#: One program for each pair, and one program of threads.
CACHE_KEY_PROGRAMS = "\n".join(
    [
        *(
            _TEXT.replace("DEFINITION", definition.strip()).replace("PAIR", pair)
            for definition, pair in _PAIRS
        ),
        _THREADS,
    ]
)
