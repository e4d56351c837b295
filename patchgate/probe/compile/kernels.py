"""Reads facts about kernels off the wrapper module that Inductor generated.

Decides what counts as a kernel, of which kind, and what a load is. Refuses to
run the code or to know torch: it parses the text with `ast`.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

# triton_heuristics decorator -> kind, in the names that compiler engineers use.
_TRITON_KINDS = {
    "pointwise": "triton_pointwise",
    "reduction": "triton_reduction",
    "persistent_reduction": "triton_persistent_reduction",
    "cooperative_reduction": "triton_cooperative_reduction",
    "split_scan": "triton_scan",
    "template": "triton_template",
    "foreach": "triton_foreach",
    "user_autotune": "triton_user",
    "fixed_config": "triton_user",
}
_NOT_THE_CALL = {"benchmark_compiled_module", "get_args", "recursively_apply_fns"}


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One definition in the wrapper: `body` is its source with the name taken out.

    `hint` and `grid` are what Inductor tells Triton of a reduction's shape and of the launch;
    `source` is a Triton kernel's own module, which defines `function`.
    """

    name: str
    kind: str
    body: str
    loads: int | None = None
    stores: int | None = None
    hint: str = ""
    grid: str = ""
    source: str = ""
    function: str = ""


@dataclass(frozen=True, kw_only=True)
class Wrapper:
    """What a generated wrapper module defines and calls; `lines` are those of its `call`."""

    kernels: tuple[Kernel, ...]
    calls: Counter[str] = field(default_factory=Counter)
    lines: int = 0
    allocations: int = 0
    reused: int = 0

    @property
    def distinct(self) -> tuple[Kernel, ...]:
        """Kernels with different bodies, in order of definition."""
        return tuple({kernel.body: kernel for kernel in reversed(self.kernels)}.values())[::-1]


def read_wrapper(source: str) -> Wrapper:
    """Parse the module text that `GraphLowering.codegen` returns."""
    tree = ast.parse(source)
    kernels = tuple(_definitions(tree))
    kinds = {kernel.name: kernel.kind for kernel in kernels}
    calls: Counter[str] = Counter()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name not in _NOT_THE_CALL:
            for node in ast.walk(function):
                kind = _call_kind(node, kinds) if isinstance(node, ast.Call) else None
                if kind:
                    calls[kind] += 1
    body = _call_lines(source, tree)
    return Wrapper(
        kernels=kernels,
        calls=calls,
        lines=len(body),
        allocations=sum("= empty_strided" in line for line in body),
        reused=sum("# reuse" in line for line in body),
    )


def _call_lines(source: str, tree: ast.Module) -> list[str]:
    """The lines of `call` but for blank ones and comments, wherever it is defined."""
    lines = source.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "call":
            body = lines[node.lineno : node.end_lineno]
            return [line for line in body if line.strip() and not line.lstrip().startswith("#")]
    return []


def _definitions(tree: ast.Module) -> Iterator[Kernel]:
    for node in tree.body:
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
            continue
        made_by = ast.unparse(node.value.func)
        name = ast.unparse(node.targets[0])
        texts = [
            arg.value
            for arg in node.value.args
            if isinstance(arg, ast.Constant) and isinstance(arg.value, str) and "\n" in arg.value
        ]
        if made_by == "async_compile.triton" and texts:
            yield _triton_kernel(name, texts[0])
        elif made_by.startswith("async_compile.cpp") and texts:
            yield Kernel(name=name, kind="cpp", body=texts[0].replace(name, "KERNEL"))
        elif made_by.startswith("async_compile."):
            kind = made_by.removeprefix("async_compile.")
            yield Kernel(name=name, kind=kind, body=ast.unparse(node.value).replace(name, "KERNEL"))


def _triton_kernel(name: str, source: str) -> Kernel:
    tree = ast.parse(source)
    kind = "triton_other"
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for decorator in function.decorator_list:
                text = ast.unparse(decorator)
                if text.startswith("triton_heuristics."):
                    heuristic = re.split(r"[.(]", text)[1]
                    kind = _TRITON_KINDS.get(heuristic, "triton_" + heuristic)
    called = Counter(ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
    # The name inside is a placeholder of Inductor's or the kernel's own; neither tells bodies apart.
    body = re.sub(r"'kernel_name': '[^']*'", "'kernel_name': ''", source)
    return Kernel(
        name=name,
        kind=kind,
        body=re.sub(r"(?m)^def \w+\(", "def KERNEL(", body),
        loads=called["tl.load"],
        stores=called["tl.store"] + called["tl.atomic_add"],
        hint=_first(r"reduction_hint=ReductionHint\.(\w+)", source),
        grid=_first(r"'grid_type': '(\w+)'", source),
        source=source,
        function=re.findall(r"(?m)^def (\w+)\(", source)[-1],  # those before are its own helpers
    )


def _first(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match.group(1) if match else ""


def _call_kind(node: ast.Call, kinds: dict[str, str]) -> str | None:
    target = ast.unparse(node.func)
    if target in kinds:
        return kinds[target]
    if target.endswith(".run") and target[: -len(".run")] in kinds:
        return kinds[target[: -len(".run")]]
    if target.startswith("extern_kernels."):
        return "extern"
    if target.startswith("torch.ops."):
        return "fallback"
    return None
