"""The records of one torch release in the index: modules, classes, functions and calls. `misfit`
decides if a call fits a signature, by Python's own binding rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

SCOPE = (
    "torch._C",
    "torch._awaits",
    "torch._classes",
    "torch._compile",
    "torch._custom_class_base",
    "torch._custom_op",
    "torch._custom_ops",
    "torch._decomp",
    "torch._dispatch",
    "torch._dynamo",
    "torch._export",
    "torch._functorch",
    "torch._guards",
    "torch._higher_order_ops",
    "torch._inductor",
    "torch._jit_internal",
    "torch._lazy",
    "torch._library",
    "torch._logging",
    "torch._meta_registrations",
    "torch._native",
    "torch._opaque_base",
    "torch._ops",
    "torch._precompile",
    "torch._precompile_driver",
    "torch._prims",
    "torch._prims_common",
    "torch._python_dispatcher",
    "torch._refs",
    "torch._sources",
    "torch._streambase",
    "torch._strobelight",
    "torch._subclasses",
    "torch._tensor",
    "torch._tensor_iterator",
    "torch._tensor_str",
    "torch._utils",
    "torch._utils_internal",
    "torch._vmap_internals",
    "torch._weights_only_unpickler",
    "torch.accelerator",
    "torch.amp",
    "torch.ao",
    "torch.autograd",
    "torch.compiler",
    "torch.contrib",
    "torch.cpu",
    "torch.cuda",
    "torch.distributed",
    "torch.export",
    "torch.func",
    "torch.functional",
    "torch.futures",
    "torch.fx",
    "torch.hub",
    "torch.jit",
    "torch.library",
    "torch.masked",
    "torch.monitor",
    "torch.mps",
    "torch.mtia",
    "torch.multiprocessing",
    "torch.nativert",
    "torch.nested",
    "torch.nn",
    "torch.numa",
    "torch.onnx",
    "torch.optim",
    "torch.overrides",
    "torch.package",
    "torch.profiler",
    "torch.quantization",
    "torch.random",
    "torch.serialization",
    "torch.signal",
    "torch.sparse",
    "torch.storage",
    "torch.types",
    "torch.utils",
    "torch.xpu",
    "triton.runtime",
    "triton.compiler",
    "triton.backends",
)
# Packages that have more modules than files, because other wheels, or the import of the package,
# add modules.
OPEN = ("triton.backends", "torch.distributed._tensor")
# Packages of which only the `__init__` is indexed, not the modules below it.
ALONE = ("torch", "triton")
# Modules that the rest of torch never runs. No user reaches their calls, so these calls are not
# indexed.
APART = ("torch.ao.", "torch.quantization.")
# `import torch` loads these indexed modules, and the modules that they import; a test in
# tests/torch compares the list with torch.
WITH_TORCH = (
    *(
        f"torch._refs.{each}"
        for each in ("_conversions", "fft", "linalg", "nn.functional", "special")
    ),
    *(
        f"torch._functorch.{each}"
        for each in ("batch_norm_replacement", "eager_transforms", "functional_call")
    ),
    *(
        f"torch.nn.{each}"
        for each in ("intrinsic.quantized.modules.bn_relu", "qat.modules.embedding_ops")
    ),
    *(f"torch.nn.{each}" for each in ("quantizable", "quantized")),
    "torch._custom_ops",
    "torch.ao.nn.sparse.quantized",
    "torch._native",
    "torch._library.simple_registry",
    "torch._logging._registrations",
    "torch._meta_registrations",
    "torch._tensor",
    "torch.compiler",
    "torch.distributed._meta_registrations",
    "torch.export.custom_ops",
    "torch.fx.experimental._constant_symnode",
    "torch.utils.data.graph_settings",
    "torch.utils.dlpack",
)


# `import torch` loads this module only if an environment variable asks for it.
ON_REQUEST = "torch.cuda._sanitizer"


def in_extension(dotted: str) -> bool:
    """True for torch's C extensions. The index knows only the names that their stubs list."""
    return dotted == "torch._C" or dotted.startswith("torch._C.")


@dataclass(frozen=True, kw_only=True)
class Parameter:
    name: str
    #: positional-only, positional, var-positional, keyword or var-keyword.
    kind: str
    #: Source text.
    default: str | None = None


@dataclass(frozen=True, kw_only=True)
class Function:
    name: str
    parameters: tuple[Parameter, ...] = ()
    #: function, method, static, class, property or cached-property.
    form: str = "function"
    is_async: bool = False
    #: The annotation, in modern spelling.
    returns: str | None = None
    #: Fingerprint: six hex digits.
    body: str = ""


@dataclass(frozen=True, kw_only=True)
class Class:
    #: `Outer.Inner` for a nested class.
    name: str
    #: Dotted names; the name of a base that a call makes ends in `()`.
    bases: tuple[str, ...] = ()
    functions: Mapping[str, Function] = field(default_factory=dict)
    #: Name -> annotation, for names that its body assigns or its methods assign on `self`.
    attributes: dict[str, str | None] = field(default_factory=dict)
    #: True if it has `__getattr__` or `__getattribute__`, and may so answer any name.
    has_getattr: bool = False
    abstract: bool = False


@dataclass(frozen=True, kw_only=True)
class Module:
    name: str
    functions: Mapping[str, Function] = field(default_factory=dict)
    classes: Mapping[str, Class] = field(default_factory=dict)
    #: Name -> annotation.
    attributes: dict[str, str | None] = field(default_factory=dict)
    #: Local name -> dotted origin; for `from m import *`, `m.*` -> `m.*`.
    imports: dict[str, str] = field(default_factory=dict)
    #: The imports inside functions and below `if TYPE_CHECKING`, in the same form.
    lazy_imports: dict[str, str] = field(default_factory=dict)
    #: Option -> default, for a module of options.
    config: dict[str, str] = field(default_factory=dict)
    #: (registry or table, origin) for functions that the module hands to a registry or table.
    held: tuple[tuple[str, str], ...] = ()
    has_getattr: bool = False


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The arguments of a call."""

    #: The number of positional arguments, without starred ones.
    positional: int
    keywords: tuple[str, ...] = ()
    #: True if the call has `*` or `**`.
    star: bool = False


@dataclass(frozen=True, kw_only=True)
class CallSite(Arguments):
    module: str
    #: `f` or `Class.f`; empty for the module itself.
    function: str
    #: The receiver: "" for a plain name, "." for an object or module, ":" for a class; "=" if the
    #: name is passed on, not called.
    receiver: str = ""


@dataclass(kw_only=True)
class ReleaseRecords:
    """Everything that the index records of one release."""

    version: str
    #: The version of triton that the release requires; empty if it requires none.
    triton: str = ""
    modules: dict[str, Module] = field(default_factory=dict)
    #: Module -> (last name of the callee, call) for each call in it.
    calls: dict[str, list[tuple[str, CallSite]]] = field(default_factory=dict)


_POSITIONAL = ("positional-only", "positional")


def misfit(
    parameters: Sequence[Parameter], passed: Arguments, *, bound: bool = False
) -> str | None:
    """Return the reason why a call does not bind to the parameters; None if it binds. A starred
    call may pass any further arguments.

    A `bound` function has already received its first argument.
    """
    parameters, positional, keywords = parameters[bound:], passed.positional, passed.keywords
    slots = [each for each in parameters if each.kind in _POSITIONAL]
    kinds = {each.kind for each in parameters}
    if positional > len(slots) and "var-positional" not in kinds:
        return (
            f"takes {len(slots)} positional argument{'s' * (len(slots) != 1)}, {positional} given"
        )
    taken = {each.name for each in slots[:positional]}
    by_name = {each.name for each in parameters if each.kind in ("positional", "keyword")}
    for keyword in keywords:
        if keyword in taken and keyword in by_name:
            return f"gets `{keyword}` twice"
        if keyword not in by_name and "var-keyword" not in kinds:
            return f"does not take `{keyword}`"
    if passed.star:
        return None
    for each in parameters:
        required = each.default is None and each.kind in (*_POSITIONAL, "keyword")
        if required and each.name not in taken and each.name not in keywords:
            return f"needs `{each.name}`"
    return None


def accepts(parameters: Sequence[Parameter], wanted: Parameter, position: int) -> bool:
    """True if a parameter of the original can still be passed to the replacement."""
    kinds = {each.kind for each in parameters}
    if any(
        each.name == wanted.name and each.kind in ("positional", "keyword") for each in parameters
    ):
        return True
    if wanted.kind == "keyword":
        return "var-keyword" in kinds
    slots = [each for each in parameters if each.kind in _POSITIONAL]
    return position < len(slots) or "var-positional" in kinds


def parameter_texts(parameters: Iterable[Parameter]) -> tuple[str, ...]:
    """The parts between the parentheses of a `def`: `a`, `/`, `b=1`, `*`, `c`."""
    found: list[str] = []
    before = ""
    for each in parameters:
        if before == "positional-only" and each.kind != before:
            found.append("/")
        if each.kind == "keyword" and before not in ("keyword", "var-positional"):
            found.append("*")
        stars = {"var-positional": "*", "var-keyword": "**"}.get(each.kind, "")
        found.append(stars + each.name + (f"={each.default}" if each.default is not None else ""))
        before = each.kind
    return (*found, "/") if before == "positional-only" else tuple(found)


def written(parameters: Iterable[Parameter]) -> str:
    """Parameters in the form of source: `*, graph_reuse=True`."""
    return ", ".join(parameter_texts(each for each in parameters if "var-" not in each.kind))
