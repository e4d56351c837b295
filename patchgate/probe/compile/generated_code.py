"""The facts of the code that Inductor generated: its kernels, their kinds and loads, and the
resources that they need on a device.

The text is parsed with `ast`; nothing of it runs. A Triton kernel is compiled in its first
configuration, by Triton and ptxas, for the architecture of a profile.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import os
import re
import struct
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from patchgate.probe.protocol import Facts, Profile

# Decorator of triton_heuristics -> kind, if that is not `triton_` and its name.
_TRITON_KINDS = {
    "split_scan": "triton_scan",
    "user_autotune": "triton_user",
    "fixed_config": "triton_user",
}
# A comment with the file of a kernel. The name of the file depends on its content, its folder on
# the process.
_PLACE = re.compile(r"^(# kernel path: ).*/([^/\n]+/[^/\n]+)$", re.MULTILINE)
_NOT_THE_CALL = {"benchmark_compiled_module", "get_args", "recursively_apply_fns"}


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One definition in the wrapper."""

    name: str
    kind: str  #: "triton_pointwise" and so on, "cpp", or what follows `async_compile.`
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
    """The facts of the generated code alone, one wrapper module for each graph.

    The patch cannot influence how they are read.
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
    """A fact for each counted name."""
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
    # The lines of `call` without blank ones and comments, wherever it is defined.
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
    """A buffer that a wrapper allocates; times are numbers of statements."""

    size: int  #: in bytes
    allocated: int
    used: int  #: the last use
    freed: int  #: the last name that is deleted, or the end


def late_bytes(source: str) -> int:
    """Bytes by which the peak of a wrapper's buffers is above what it would be if each buffer was
    freed after its last use. Buffers of symbolic sizes, and those of other operators, have none.
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
    """True for another name of a buffer, or a view of it."""
    called = value.func if isinstance(value, ast.Call) else None
    return isinstance(value, ast.Name) or ast.unparse(called or value) == "reinterpret_tensor"


def _allocated_bytes(value: ast.expr) -> int:
    """The bytes of `empty_strided_cpu((4, 6), (6, 1), torch.float32)`."""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func).startswith("empty_strided")):
        return 0
    try:
        shape, strides = map(ast.literal_eval, value.args[:2])
    except ValueError:  # a symbol
        return 0
    bits = re.search(r"\d+", ast.unparse(value.args[2]))  # torch.bool has no number
    reach = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return reach * (int(bits[0]) // 8 if bits else 1) if all(shape) else 0


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
    # The name in the source is a placeholder of Inductor, or the kernel's own, which equal kernels
    # may not share.
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
        function=re.findall(r"(?m)^def (\w+)\(", source)[-1],  # those before are its own helpers
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
    """SHA-256 of generated code without its comments.

    Comments contain a running number of the process, and names that Dynamo gives to nodes by the
    order of imports.
    """
    # A file that is no Python is compared as it is.
    with suppress(SyntaxError, ValueError, RecursionError):
        text = ast.dump(ast.parse(text))
    return _sha256(text.encode())


def without_places(text: str) -> str:
    """Generated code without the folder of the process in which a kernel lies, so that it is equal
    in each.
    """
    return _PLACE.sub(r"\1\2", text)


_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
_EXECUTABLE = 0x4  # SHF_EXECINSTR
_LAUNCHERS = ("use_static_cuda_launcher", "use_static_triton_launcher")
# The units in which a multiprocessor of capability 8.0 to 12.0 allocates registers and shared
# memory, by NVIDIA's occupancy calculator.
_REGISTER_UNIT, _WARP_UNIT, _SHARED_UNIT, _SHARED_RESERVED = 256, 4, 128, 1024


class _Refused(Exception):
    """A kernel uses a feature that the architecture lacks; a real device would refuse it too."""


def resource_facts(kernels: list[Kernel], profile: Profile) -> Facts:
    """Lists over the distinct Triton kernels, in order of definition.

    Call it within `device_context`.
    """
    needs, refused = [], {}
    for index, kernel in enumerate((kernel for kernel in kernels if kernel.source), 1):
        try:
            needs.append(_resources(*_compile(kernel)))
        except _Refused as error:
            refused[f"resources.refused.{index}"] = str(error)
    facts: Facts = {
        f"resources.{name}": [need[name] for need in needs]
        for name in ("registers", "spilled", "shared", "warps", "code")
    }
    facts["resources.block"] = "; ".join(need["block"] for need in needs)
    if "properties" in profile:  # a real device does not say how many blocks fit
        facts["resources.occupancy"] = [
            occupancy(need["registers"], need["warps"], need["shared"], profile) for need in needs
        ]
    return facts | refused


def machine_code(kernels: list[Kernel]) -> dict[str, str]:
    """SHA-256 of a Triton kernel's source -> that of its machine code, or the reason why it has
    none.

    Call it within `device_context`.
    """
    code_by_source = {}
    for source, kernel in {_sha256(each.source.encode()): each for each in kernels}.items():
        if kernel.source:
            try:
                code_by_source[source] = _sha256(_executable(_compile(kernel)[1].asm["cubin"]))
            except _Refused as error:
                code_by_source[source] = str(error)
    return code_by_source


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def occupancy(registers: int, warps: int, shared: int, profile: Profile) -> int:
    """Theoretical occupancy: percent of the warps of a multiprocessor that fit.

    Args:
        registers: of one thread.
        warps: of one block.
        shared: bytes of one block.
        profile: the device.
    """
    properties = profile["properties"]
    most = properties["max_threads_per_multi_processor"] // properties["warp_size"]
    per_warp = _round_up(registers * properties["warp_size"], _REGISTER_UNIT)
    by_registers = properties["regs_per_multiprocessor"] // per_warp // _WARP_UNIT * _WARP_UNIT
    per_block = _round_up(shared + _SHARED_RESERVED, _SHARED_UNIT)
    blocks = min(
        profile["blocks_per_multiprocessor"],
        min(most, by_registers) // warps,
        properties["shared_memory_per_multiprocessor"] // per_block,
    )
    return int(100 * blocks * warps // most)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _compile(kernel: Kernel) -> tuple[Any, Any]:
    """Compile a kernel's first configuration; return it with Triton's result, which may come from
    its cache.

    Raises _Refused.
    """
    # Imported here, because the rest is tested without torch.
    import torch._inductor.config as inductor_config
    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.runtime.compile_tasks import _set_triton_ptxas_path
    from triton.compiler.errors import CompilationError

    _set_triton_ptxas_path()  # torch compiles with a ptxas of its own, newer than Triton's
    # The static launcher drops the binary.
    options = {name: False for name in _LAUNCHERS if name in inductor_config.get_config_copy()}
    try:
        with inductor_config.patch(options):
            # A module of its own, because on a real device torch has compiled its one and dropped
            # the configurations.
            tuner = getattr(PyCodeCache.load(kernel.source, extra="resources"), kernel.function)
            return tuner.configs[0], tuner._precompile_config(tuner.configs[0]).kernel
    except CompilationError as error:
        raise _Refused(str(error).strip().splitlines()[-1]) from error


def _resources(config: Any, compiled: Any) -> dict[str, Any]:
    """Registers and spilled bytes of a thread, shared bytes and warps of a block, bytes of code,
    and the configuration, as "XBLOCK=1024".
    """
    binary = compiled.asm["cubin"]
    registers, stack, local = _usage(binary)
    return {
        "registers": registers,
        "spilled": stack + local,
        "shared": compiled.metadata.shared,
        "warps": compiled.metadata.num_warps,
        "code": len(_executable(binary)),
        "block": " ".join(f"{name}={size}" for name, size in sorted(config.kwargs.items())),
    }


def _executable(binary: bytes) -> bytes:
    """The machine code of an ELF file: its executable sections.

    The rest holds paths of this machine.
    """
    (start,) = struct.unpack_from("<Q", binary, 0x28)
    size, count = struct.unpack_from("<HH", binary, 0x3A)
    code = b""
    for at in range(start, start + size * count, size):
        _, _, flags, _, offset, length = struct.unpack_from("<IIQQQQ", binary, at)
        code += binary[offset : offset + length] if flags & _EXECUTABLE else b""
    return code


def _usage(binary: bytes) -> tuple[int, int, int]:
    """Registers, bytes of stack and bytes of local memory of a thread, as `cuobjdump` prints
    them.
    """
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin", dir=os.environ.get("TMPDIR")) as file:
        file.write(binary)
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    match = _USAGE.search(printed)
    assert match is not None, printed
    registers, stack, _, local = map(int, match.groups())
    return registers, stack, local
