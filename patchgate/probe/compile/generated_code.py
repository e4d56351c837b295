"""The facts of the code that Inductor generated: which kernels it has, of which kind, with which
loads.

The text is parsed with `ast`; nothing of it runs, and torch is not needed.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from patchgate.probe.protocol import Facts

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
# Where the file of a kernel lies: its name is made of its content, the folders before it are those
# of a process.
_PLACE = re.compile(r"^(# kernel path: ).*/([^/\n]+/[^/\n]+)$", re.MULTILINE)
_NOT_THE_CALL = {"benchmark_compiled_module", "get_args", "recursively_apply_fns"}


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One definition in the wrapper."""

    name: str
    kind: str  #: a value of `_TRITON_KINDS`, "cpp", or what follows `async_compile.`
    body: str  #: its source with the name taken out
    loads: int | None = None  #: `tl.load` calls; None where it is no Triton kernel
    stores: int | None = None  #: `tl.store` and `tl.atomic_add` calls
    hint: str = ""  #: what Inductor tells Triton of a reduction's shape
    grid: str = ""  #: and of the launch
    source: str = ""  #: a Triton kernel's own module
    function: str = ""  #: the kernel's name in it


@dataclass(frozen=True, kw_only=True)
class Wrapper:
    """The definitions and calls of a generated wrapper module."""

    kernels: tuple[Kernel, ...]
    calls: Counter[str] = field(default_factory=Counter)  #: calls by kind of kernel
    lines: int = 0  #: of its `call`, but for blank ones and comments
    allocations: int = 0  #: buffers allocated in `call`
    reused: int = 0  #: buffers that take the place of an earlier one

    @property
    def distinct(self) -> tuple[Kernel, ...]:
        """Kernels with different bodies, in order of definition."""
        return tuple({kernel.body: kernel for kernel in reversed(self.kernels)}.values())[::-1]


def code_facts(code: Sequence[str], *, triton: bool) -> Facts:
    """The facts of the generated code alone, a wrapper module a graph.

    The patch cannot influence how they are read.
    """
    wrappers = [read_wrapper(text) for text in code]
    calls: Counter[str] = sum((wrapper.calls for wrapper in wrappers), Counter())
    kernels = [kernel for wrapper in wrappers for kernel in wrapper.distinct]
    facts: Facts = {
        "kernels.defined": sum(len(wrapper.kernels) for wrapper in wrappers),
        "kernels.distinct": len(kernels),
        "kernels.called": sum(
            count for kind, count in calls.items() if kind not in ("extern", "fallback")
        ),
    }
    for name in ("lines", "allocations", "reused"):
        facts[f"wrapper.{name}"] = sum(getattr(wrapper, name) for wrapper in wrappers)
    facts |= histogram("kernels.kind", calls)
    return facts | _triton_facts(kernels) if triton else facts


def _triton_facts(kernels: list[Kernel]) -> Facts:
    loads = [kernel.loads for kernel in kernels if kernel.loads is not None]
    stores = [kernel.stores for kernel in kernels if kernel.stores is not None]
    facts: Facts = {"loads": loads, "loads.max": max(loads, default=0)}
    facts |= {"stores": stores, "stores.max": max(stores, default=0)}
    for name in ("hint", "grid"):
        told = [getattr(kernel, name) for kernel in kernels]
        facts |= histogram(f"kernels.{name}", Counter(filter(None, told)))
    return facts


def histogram(prefix: str, counts: Counter[str]) -> Facts:
    """A fact for each name that was counted."""
    return {f"{prefix}.{name.removeprefix('aten.')}": count for name, count in counts.items()}


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
        maker = ast.unparse(node.value.func)
        name = ast.unparse(node.targets[0])
        texts = [
            arg.value
            for arg in node.value.args
            if isinstance(arg, ast.Constant) and isinstance(arg.value, str) and "\n" in arg.value
        ]
        if maker == "async_compile.triton" and texts:
            yield _triton_kernel(name, texts[0])
        elif maker.startswith("async_compile.cpp") and texts:
            yield Kernel(name=name, kind="cpp", body=texts[0].replace(name, "KERNEL"))
        elif maker.startswith("async_compile."):
            kind = maker.removeprefix("async_compile.")
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
    calls = Counter(ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
    # The name inside is a placeholder of Inductor's or the kernel's own; equal kernels may differ
    # in it.
    body = re.sub(r"'kernel_name': '[^']*'", "'kernel_name': ''", source)
    return Kernel(
        name=name,
        kind=kind,
        body=re.sub(r"(?m)^def \w+\(", "def KERNEL(", body),
        loads=calls["tl.load"],
        stores=calls["tl.store"] + calls["tl.atomic_add"],
        hint=_first_group(r"reduction_hint=ReductionHint\.(\w+)", source),
        grid=_first_group(r"'grid_type': '(\w+)'", source),
        source=source,
        function=re.findall(r"(?m)^def (\w+)\(", source)[-1],  # those before are its own helpers
    )


def _first_group(pattern: str, text: str) -> str:
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


def digest_of_code(text: str) -> str:
    """SHA-256 of generated code without its comments.

    They hold a running number of the process, and names that Dynamo gives to nodes by the order of
    imports.
    """
    # A file that is no Python is compared as it is.
    with contextlib.suppress(SyntaxError, ValueError, RecursionError):
        text = ast.dump(ast.parse(text))
    return hashlib.sha256(text.encode()).hexdigest()


def without_places(text: str) -> str:
    """Generated code whose comments do not say in which folder of the process a kernel lies, so
    that it is the same in each.
    """
    return _PLACE.sub(r"\1\2", text)
