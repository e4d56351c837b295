"""Generated code of both sides: which kernels belong together, and what counts as a change."""

from itertools import pairwise

from patchgate.report.html.code_diff import Kernel, compare_code, highlight, split_kernels

TRITON = """\
# kernel path: /tmp/{path}.py
# Source node to ATen node mapping: {path}
{name} = async_compile.triton('{name}', '''
import triton

@triton.jit
def {name}(in_ptr0):
    tmp0 = tl.load(in_ptr0, {load})
''', device_str='cuda')
"""
WRAPPER = "\nasync_compile.wait(globals())\ndef call(args):\n    {calls}\n"


def code(*loads, calls="pass", path="x", first=0):
    made = [
        TRITON.format(name=f"triton_per_{first + at}", load=load, path=path)
        for at, load in enumerate(loads)
    ]
    return "import torch\n" + "\n".join(made) + WRAPPER.format(calls=calls)


def display_path(unpatched, patched):
    equal, diffs = compare_code(unpatched, patched)
    return equal, [(diff.old, diff.new, [line.sign for line in diff.lines]) for diff in diffs]


def test_a_kernel_begins_at_its_decorator_and_the_wrapper_is_the_rest():
    found = split_kernels(code("None"))
    assert found[0] == Kernel(
        name="triton_per_0",
        text="@triton.jit\ndef triton_per_0(in_ptr0):\n    tmp0 = tl.load(in_ptr0, None)",
    )
    assert found[1].name == "wrapper"
    assert "def call(args):" in found[1].text
    assert "kernel path" not in found[1].text


def test_a_kernel_for_the_cpu_is_cpp():
    text = (
        "cpp_fused_0 = async_compile.cpp_pybinding(['float*'], r'''\nextern \"C\" void kernel() "
        "{}\n''')\n"
    )
    assert (split_kernels(text)[0].name, split_kernels(text)[0].is_python) == ("cpp_fused_0", False)


def test_paths_comments_and_numbers_in_names_are_no_change():
    assert display_path(code("a", "b"), code("a", "b", path="y", first=3)) == (2, [])


def test_a_changed_kernel_is_paired_with_its_successor():
    assert display_path(code("a", "b", "c"), code("a", "other", "c")) == (
        2,
        [("triton_per_1", "triton_per_1", [" ", " ", "-", "+"])],
    )


def test_a_kernel_of_one_side_only_has_no_partner():
    equal, diffs = display_path(code("a", "b"), code("a"))
    assert (equal, diffs) == (1, [("triton_per_1", None, ["-"] * 3)])
    assert display_path(code("a"), code("a", "b"))[1] == [(None, "triton_per_1", ["+"] * 3)]


def test_the_wrapper_is_compared_with_the_wrapper_only():
    told = display_path(code("a", "b", calls="f(1)"), code("a", calls="f(2)"))
    assert [(old, new) for old, new, _ in told[1]] == [
        ("triton_per_1", None),
        ("wrapper", "wrapper"),
    ]


def test_words_that_differ_are_marked_in_lines_that_are_alike():
    _, (diff,) = compare_code(code(calls="f(buf0, 1)"), code(calls="f(buf1, 1)"))
    assert [line.tokens for line in diff.lines if line.sign in "-+"] == [
        (("", "    f("), ("x", buffer), ("", ", "), ("m", "1"), ("", ")"))
        for buffer in ("buf0", "buf1")
    ]
    _, (diff,) = compare_code(code(calls="f(buf0, 1)"), code(calls="other = [2, 3]"))
    kinds = {kind for line in diff.lines for kind, _ in line.tokens}
    assert not any("x" in kind for kind in kinds), "two other lines"


def test_lines_far_from_a_change_are_left_out():
    far = "\n".join(f"    x{number} = 1" for number in range(20))
    _, (diff,) = compare_code(
        code("a", calls=f"y\n{far}\n    z"), code("a", calls=f"Y\n{far}\n    Z")
    )
    assert "@" in [line.sign for line in diff.lines]
    assert len(diff.lines) < 20
    assert [(line.old, line.new) for line in diff.lines if line.sign == "@"] == [(None, None)]


def test_tokens_say_all_of_the_text_and_neighbours_of_a_class_are_one():
    text = "def f(x):  # why\n\n    return 'a' + 2"
    lines = highlight(Kernel(name="f", text=text))
    assert "\n".join("".join(part for _, part in line) for line in lines) == text
    assert ("k", "def") in lines[0]
    assert ("c", "# why") in lines[0]
    assert all(one != other for line in lines for (one, _), (other, _) in pairwise(line))


def test_a_kernel_for_the_cpu_has_the_words_of_cpp():
    text = '#pragma omp parallel\nfloat tmp = 0x1F + 2.5f; // "why"\nauto s = "a\\"b";'
    lines = highlight(Kernel(name="f", text=text, is_python=False))
    assert lines == [
        (("c", "#pragma omp parallel"),),
        (
            ("k", "float"),
            ("", " tmp = "),
            ("m", "0x1F"),
            ("", " + "),
            ("m", "2.5f"),
            ("", "; "),
            ("c", '// "why"'),
        ),
        (("k", "auto"), ("", " s = "), ("s", '"a\\"b"'), ("", ";")),
    ]


def test_a_text_over_several_lines_is_one_string_of_a_kernel():
    lines = highlight(Kernel(name="f", text="@jit\ndef f():\n    '''# one\n    def'''"))
    assert lines[0] == (("f", "@jit"),)
    assert lines[1] == (("k", "def"), ("", " "), ("f", "f"), ("", "():"))
    assert lines[2:] == [(("", "    "), ("s", "'''# one")), (("s", "    def'''"),)]


def test_a_text_that_is_no_code_is_compared_all_the_same():
    assert display_path("<script>", "</script>") == (0, [("wrapper", "wrapper", ["-", "+"])])
    assert display_path("", "") == (0, [])
