"""Facts read off a generated wrapper module, without running it."""

import pytest

from patchgate.probe.compile.generated_code import late_bytes, read_wrapper, without_places

HELPED = """
import triton
@triton.jit
def _triton_helper_fn0(a, b):
    return a + b
@triton_heuristics.persistent_reduction(
    size_hints={'x': 64}, reduction_hint=ReductionHint.INNER, inductor_meta={'grid_type': 'Grid1D', 'kernel_name': 'a'},
)
@triton.jit
def triton_per_fused_0(in_ptr0, out_ptr0):
    x = tl.load(in_ptr0)
    tl.store(out_ptr0, x)
"""
PLAIN = """
@triton_heuristics.pointwise(inductor_meta={'grid_type': 'Grid2D'})
@triton.jit
def triton_poi_fused_1(in_ptr0, in_ptr1, out_ptr0):
    tl.store(out_ptr0, tl.load(in_ptr0) + tl.load(in_ptr1))
"""
WRAPPER = f"""
triton_per_fused_0 = async_compile.triton('triton_per_fused_0', '''{HELPED}''')
triton_poi_fused_1 = async_compile.triton('triton_poi_fused_1', '''{PLAIN}''')

class Runner:
    def call(self, args):
        # nothing
        buf0 = empty_strided_cuda((4, 4), (4, 1), torch.float32)
        triton_per_fused_0.run(args[0], buf0)

        buf1 = buf0; del buf0  # reuse
        triton_poi_fused_1.run(buf1, args[1])
        buf2 = torch.ops.aten.topk.default(buf1, 2)
        extern_kernels.mm(buf1, buf1, out=buf1)
        return (buf1, )
"""

# A second buffer takes the first one's place or follows it, and a third follows them.
FREEING = """
def call(args):
    x, = args
    buf0 = empty_strided_cpu((4, 6), (6, 1), torch.float32)
    cpp_fused_0(x, buf0)
    {second}
    cpp_fused_1(buf0, buf1)
    {then}
    buf2 = empty_strided_cpu((4, 6), (6, 1), torch.bfloat16)
    cpp_fused_2(buf1, buf2)
    {last}
    buf3 = empty_strided_cpu((100, ), (1, ), torch.bool)
    return (buf3, reinterpret_tensor(buf2, (6, 4), (1, 6), 0))
"""
ANOTHER = "buf1 = empty_strided_cpu((2, 6), (6, 1), torch.int64)"
OTHER_DEVICE = "buf1 = empty_strided((2, 6), (6, 1), device='npu', dtype=torch.int64)"
VIEW = "buf1 = reinterpret_tensor(buf0, (24, ), (1, ), 0)"
SYMBOL = "buf1 = empty_strided_cpu((s0, 6), (6, 1), torch.int64)"


@pytest.mark.parametrize(
    ("second", "then", "last", "late"),
    [
        (ANOTHER, "del buf0", "del buf1", 0),
        (ANOTHER, "pass", "del buf0, buf1", 48),  # the third has 48 bytes
        (ANOTHER, "pass", "del buf1", 52),  # the last has 100
        (ANOTHER, "pass", "pass", 148),
        (OTHER_DEVICE, "pass", "pass", 148),
        (VIEW, "del buf0", "del buf1", 0),
        (VIEW, "del buf0", "pass", 96),
        (SYMBOL, "del buf0", "pass", 0),
    ],
)
def test_bytes_that_are_freed_late(second, then, last, late):
    assert late_bytes(FREEING.format(second=second, then=then, last=last)) == late


def test_what_a_wrapper_defines():
    first, second = read_wrapper(WRAPPER).kernels
    assert (first.kind, first.loads, first.stores) == ("triton_persistent_reduction", 1, 1)
    assert (first.hint, first.grid, first.function) == ("INNER", "Grid1D", "triton_per_fused_0")
    assert (second.kind, second.loads, second.hint, second.grid) == (
        "triton_pointwise",
        2,
        "",
        "Grid2D",
    )


def test_what_a_wrapper_calls_and_keeps():
    wrapper = read_wrapper(WRAPPER)
    assert wrapper.calls == {
        "triton_persistent_reduction": 1,
        "triton_pointwise": 1,
        "fallback": 1,
        "extern": 1,
    }
    assert (wrapper.lines, wrapper.allocations, wrapper.reused) == (7, 1, 1)


def test_code_is_the_same_in_whatever_folder_it_is_made():
    texts = [
        f"import torch\n# kernel path: {place}/io/ciopj.py\nx = 'kernel path: /tmp/a/b/c.py'\n"
        for place in ("/tmp/run-1/cache", "/home/me/run-22/tmp/cache", "/tmp/my run/cache")
    ]
    (one,) = {*map(without_places, texts)}
    assert one == "import torch\n# kernel path: io/ciopj.py\nx = 'kernel path: /tmp/a/b/c.py'\n"
