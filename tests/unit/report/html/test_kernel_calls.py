"""Calls of kernels side by side: what is stored more, read less, or there on one side only."""

from patchgate.report.html.code_diff import compare_calls

KERNEL = """
{name} = async_compile.triton('{name}', '''
@triton.jit
def {name}({parameters}, xnumel, XBLOCK : tl.constexpr):
    pass
''', device_str='cuda')
"""
CPP = """
cpp_fused_add_0 = async_compile.cpp_pybinding(['const float*', 'float*'], r'''
extern "C"  void  kernel(const float* in_ptr0,
                       float* out_ptr0)
{
}
''')
"""


def code(kernels, *calls):
    definitions = "".join(KERNEL.format(name=name, parameters=p) for name, p in kernels.items())
    return definitions + CPP + "".join(f"        {call}\n" for call in calls)


ADD = {"triton_add_0": "in_ptr0, out_ptr0"}
STORES = {"triton_add_0": "in_out_ptr0, in_ptr0, out_ptr0"}
MATMUL = "extern_kernels.mm(buf0, reinterpret_tensor(arg1_1, (4, 4), (4, 1), 0), out=buf1)"


def notes(old, new):
    return [(pair.old[:1], pair.new[:1], pair.note) for pair in compare_calls(old, new)]


def test_a_value_that_is_stored_more_is_named():
    old = code(ADD, "triton_add_0.run(arg0_1, buf0, 16, stream=stream0)", MATMUL)
    new = code(STORES, "triton_add_0.run(buf3, arg0_1, buf0, 16, stream=stream0)", MATMUL)
    first, second = compare_calls(old, new)
    assert first.new == ("triton_add_0", "buf3, arg0_1", "buf3, buf0")
    assert first.note == "stores 1 buffer more, reads 1 buffer more"
    assert second.old == second.new == ("extern_kernels.mm", "buf0, arg1_1", "buf1")
    assert second.note == ""


def test_numbers_of_buffers_and_kernels_are_no_difference():
    old = code(ADD, "triton_add_0.run(arg0_1, buf0, 16, stream=stream0)")
    new = code(
        {"triton_add_7": "in_ptr0, out_ptr0"}, "triton_add_7.run(arg0_1, buf5, 16, stream=s)"
    )
    assert compare_calls(old, new) == ()


def test_a_call_of_one_side_stands_alone_and_equal_ones_are_left_out():
    calls = [f"cpp_fused_add_0(buf{n}, buf{n + 1})" for n in range(5)]
    assert notes(code(ADD, *calls), code(ADD, *calls, MATMUL)) == [
        ((), (), "equal calls are left out"),
        (("cpp_fused_add_0",), ("cpp_fused_add_0",), ""),
        ((), ("extern_kernels.mm",), "only with the patch"),
    ]
    assert notes(code(ADD, MATMUL), code(ADD, calls[0])) == [
        (("extern_kernels.mm",), (), "only without the patch"),
        ((), ("cpp_fused_add_0",), "only with the patch"),
    ]


def test_what_is_no_code_has_no_calls():
    assert compare_calls("", "    x.run(1, ]\n") == ()
