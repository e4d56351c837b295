"""The facts of the code that Inductor generated: its kernels, their kinds and loads, and the
allocated and freed buffers.

The text is parsed with `ast`, and never run.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from patchgate.probe.protocol import Facts

# Decorator of triton_heuristics -> kind, if the kind is not `triton_` plus the decorator's name.
_TRITON_KINDS = {
    "split_scan": "triton_scan",
    "user_autotune": "triton_user",
    "fixed_config": "triton_user",
}
# A comment with the file of a kernel. The file's name depends on its content, the folder depends on
# the process.
_PLACE = re.compile(r"^(# kernel path: ).*/([^/\n]+/[^/\n]+)$", re.MULTILINE)
# A call such as `empty_strided_cpu((4, 6), (6, 1), torch.float32)`. Groups: shape, strides, bits.
_ALLOCATION = re.compile(
    r"empty_strided\w*\(\(([\d, ]*)\), \(([\d, ]*)\), .*?torch\.[a-z]+(\d*)\w*\)"
)
_NOT_THE_CALL = {"benchmark_compiled_module", "get_args", "recursively_apply_fns"}


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A kernel that the wrapper defines."""

    name: str
    kind: str  #: "triton_pointwise" and so on, "cpp", or what follows `async_compile.`
    body: str  #: its source without the kernel's name
    loads: int | None = None  #: `tl.load` calls; None if this is no Triton kernel
    stores: int | None = None  #: `tl.store` and `tl.atomic_add` calls
    hint: str = ""  #: the hint that Inductor gives Triton about a reduction's shape
    grid: str = ""  #: the type of the grid in which the kernel is launched
    source: str = ""  #: the module text of a Triton kernel
    function: str = ""  #: the kernel's name in `source`


@dataclass(frozen=True, kw_only=True)
class Wrapper:
    """The definitions and calls of a generated wrapper module."""

    kernels: tuple[Kernel, ...]
    calls: Counter[str] = field(default_factory=Counter)  #: calls by kind of kernel
    lines: int = 0  #: lines of its `call`, without blank lines and comments
    allocations: int = 0  #: buffers allocated in `call`
    reused: int = 0  #: buffers that reuse the memory of an earlier one

    @property
    def distinct(self) -> tuple[Kernel, ...]:
        """The first kernel with each distinct body, in order of definition."""
        return tuple({kernel.body: kernel for kernel in reversed(self.kernels)}.values())[::-1]


def code_facts(code: Sequence[str], *, triton: bool) -> Facts:
    """Return the facts of generated code, which has one wrapper module for each graph.

    The patch cannot influence how the facts are read.
    """
    wrappers = [read_wrapper(text) for text in code]
    calls: Counter[str] = sum((wrapper.calls for wrapper in wrappers), Counter())
    kernels = [kernel for wrapper in wrappers for kernel in wrapper.distinct]
    facts: Facts = {
        "kernels.defined": sum(len(wrapper.kernels) for wrapper in wrappers),
        "kernels.distinct": len(kernels),
        "kernels.called": calls.total() - calls["extern"] - calls["fallback"],
    }
    for name in ("lines", "allocations", "reused"):
        facts[f"wrapper.{name}"] = sum(getattr(wrapper, name) for wrapper in wrappers)
    facts |= histogram("kernels.kind", calls)
    if triton:
        for name in ("loads", "stores"):
            numbers = [getattr(kernel, name) for kernel in kernels if kernel.source]
            facts |= {name: numbers, f"{name}.max": max(numbers, default=0)}
        for name in ("hint", "grid"):
            told = (getattr(kernel, name) for kernel in kernels)
            facts |= histogram(f"kernels.{name}", Counter(filter(None, told)))
    return facts


def histogram(prefix: str, counts: Counter[str]) -> Facts:
    """Return a fact `prefix.name` for each counted name."""
    return {f"{prefix}.{name.removeprefix('aten.')}": count for name, count in counts.items()}


def read_wrapper(source: str) -> Wrapper:
    """Parse the module text that `GraphLowering.codegen` returns."""
    tree = ast.parse(source)
    kernels = tuple(_definitions(tree))
    kinds = {kernel.name: kernel.kind for kernel in kernels}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    calling = [function for function in functions if function.name not in _NOT_THE_CALL]
    nodes = (node for function in calling for node in ast.walk(function))
    calls = (_call_kind(node, kinds) for node in nodes if isinstance(node, ast.Call))
    # The lines of `call`, wherever it is defined, without blank lines and comments.
    call = next((function for function in functions if function.name == "call"), None)
    lines = source.splitlines()[call.lineno : call.end_lineno] if call else []
    body = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return Wrapper(
        kernels=kernels,
        calls=Counter(filter(None, calls)),
        lines=len(body),
        allocations=sum("= empty_strided" in line for line in body),
        reused=sum("# reuse" in line for line in body),
    )


@dataclass(eq=False)
class _Buffer:
    """A buffer that a wrapper allocates; times are indices of statements."""

    size: int  #: in bytes
    allocated: int
    used: int  #: the last use
    freed: int  #: when its last name is deleted, or the end of the function


def late_bytes(source: str) -> int:
    """Return by how many bytes the peak of a wrapper's buffers would be lower if each buffer were
    freed after its last use. Buffers of symbolic sizes, and buffers that other operators allocate,
    do not count.
    """
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    calling = (function for function in functions if function.name not in _NOT_THE_CALL)
    buffers = map(_buffers, calling)
    return max((_peak(each, "freed") - _peak(each, "used") for each in buffers), default=0)


def _peak(buffers: Sequence[_Buffer], end: str) -> int:
    changes: Counter[int] = Counter()
    for buffer in buffers:
        changes[buffer.allocated] += buffer.size
        changes[getattr(buffer, end) + 1] -= buffer.size
    return max(itertools.accumulate(changes[at] for at in sorted(changes)), default=0)


def _buffers(function: ast.FunctionDef) -> list[_Buffer]:
    kinds = (ast.Assign, ast.Delete, ast.Expr, ast.Return)
    statements = [node for node in ast.walk(function) if isinstance(node, kinds)]
    statements.sort(key=lambda node: (node.lineno, node.col_offset))
    found: list[_Buffer] = []
    named: dict[str, _Buffer] = {}
    for at, statement in enumerate(statements):
        names = [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
        known = {name: named[name] for name in names if name in named}
        if isinstance(statement, ast.Delete):
            for name, buffer in known.items():
                del named[name]
                if buffer not in named.values():
                    buffer.freed = at
            continue
        for buffer in known.values():
            buffer.used = at
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            size = _allocated_bytes(statement.value)
            if size:
                found.append(_Buffer(size=size, allocated=at, used=at, freed=len(statements)))
                named[statement.targets[0].id] = found[-1]
            elif known and _is_alias(statement.value):
                named[statement.targets[0].id] = next(iter(known.values()))
    return found


def _is_alias(value: ast.expr) -> bool:
    """True if the expression is another name of a buffer or a view of it."""
    called = value.func if isinstance(value, ast.Call) else None
    return isinstance(value, ast.Name) or ast.unparse(called or value) == "reinterpret_tensor"


def _allocated_bytes(value: ast.expr) -> int:
    """Return the bytes of an allocation whose sizes are numbers; 0 for any other expression."""
    allocation = _ALLOCATION.fullmatch(ast.unparse(value))
    if not allocation:
        return 0
    sizes, strides = ([*map(int, re.findall(r"\d+", text))] for text in allocation.group(1, 2))
    reach = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=False))
    bits = int(allocation[3] or 8)  # the name torch.bool has no number of bits
    return reach * bits // 8 if all(sizes) else 0


def _definitions(tree: ast.Module) -> Iterator[Kernel]:
    for node in tree.body:
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
            continue
        maker = ast.unparse(node.value.func)
        name = ast.unparse(node.targets[0])
        values = [arg.value for arg in node.value.args if isinstance(arg, ast.Constant)]
        texts = [value for value in values if isinstance(value, str) and "\n" in value]
        if maker == "async_compile.triton" and texts:
            yield _triton_kernel(name, texts[0])
        elif maker.startswith("async_compile.cpp") and texts:
            yield Kernel(name=name, kind="cpp", body=texts[0].replace(name, "KERNEL"))
        elif maker.startswith("async_compile."):
            kind = maker.removeprefix("async_compile.")
            yield Kernel(name=name, kind=kind, body=ast.unparse(node.value).replace(name, "KERNEL"))


def _triton_kernel(name: str, source: str) -> Kernel:
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    decorators = (ast.unparse(each) for one in functions for each in one.decorator_list)
    heuristics = [
        re.split(r"[.(]", text)[1] for text in decorators if text.startswith("triton_heuristics.")
    ]
    heuristic = heuristics[-1] if heuristics else "other"
    calls = Counter(ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
    # This name is a placeholder of Inductor's or the kernel's own name, which differs between
    # kernels with equal code.
    body = re.sub(r"'kernel_name': '[^']*'", "'kernel_name': ''", source)
    return Kernel(
        name=name,
        kind=_TRITON_KINDS.get(heuristic, f"triton_{heuristic}"),
        body=re.sub(r"(?m)^def \w+\(", "def KERNEL(", body),
        loads=calls["tl.load"],
        stores=calls["tl.store"] + calls["tl.atomic_add"],
        hint=_first_group(r"reduction_hint=ReductionHint\.(\w+)", source),
        grid=_first_group(r"'grid_type': '(\w+)'", source),
        source=source,
        function=re.findall(r"(?m)^def (\w+)\(", source)[-1],  # functions before it are helpers
    )


def _first_group(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match.group(1) if match else ""


def _call_kind(node: ast.Call, kinds: dict[str, str]) -> str | None:
    target = ast.unparse(node.func)
    kind = kinds.get(target) or kinds.get(target.removesuffix(".run"))
    if kind:
        return kind
    if target.startswith("extern_kernels."):
        return "extern"
    return "fallback" if target.startswith("torch.ops.") else None


def digest_of_code(text: str) -> str:
    """Return the SHA-256 of generated code without its comments.

    Comments contain a running number of the process, and names of nodes that depend on the order of
    imports.
    """
    # Text that is not Python is hashed as it is.
    with suppress(SyntaxError, ValueError, RecursionError):
        text = ast.dump(ast.parse(text))
    return hashlib.sha256(text.encode()).hexdigest()


def without_places(text: str) -> str:
    """Return generated code without the names of the process's folders of kernels, so that the code
    is the same in every process.
    """
    return _PLACE.sub(r"\1\2", text)
