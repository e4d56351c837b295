"""Look up names of torch in one release, and infer the types of their values from annotations.

Each name in a chain `a.b.c` is present, missing, or possibly present. Its value is known if its
type is known.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

from patchgate.lint.index.records import (
    OPEN,
    SCOPE,
    Class,
    Function,
    Module,
    Parameter,
    in_extension,
)
from patchgate.lint.index.release import Release
from patchgate.lint.index.resolve import Found, member_names, module_of, on_metaclass
from patchgate.lint.interpret.references import Presence
from patchgate.lint.interpret.values import UNKNOWN, Container, Instance, Symbol, Value, either

Resolve = Callable[[str], Value]

# Modules and packages below `triton` that the index may lack. They exist in addition to the names
# that the `__init__` of `triton` binds.
_BELOW_TRITON = frozenset({
    "_C", "_filecheck", "_internal_testing", "_utils", "compiler", "errors", "experimental",
    "instrumentation", "knobs", "language", "ops", "plugins", "profiler", "testing", "tools",
})  # fmt: skip

# Names that torch's C++ code adds to a module: types of tensors, and names that exist only after
# the device is initialised.
_WITH_TYPES = re.compile(r"torch\.(cuda|xpu|mtia|sparse|(cuda|xpu|mtia)\.sparse)$")
_BY_INITIALISATION = {"torch.cuda": frozenset({"_get_device_properties", "has_half", "has_magma"})}

# Functions that a decorator replaces by functions with other parameters. Below: modules whose
# functions also take `out`.
_TAKES_OTHERS = re.compile(
    r"torch\.library\.(define|impl)$|torch\._inductor\.[\w.]*_grid$|torch\._dynamo\.trace_rules\._\w+_ids$"
    r"|torch\.distributed\.checkpoint\.state_dict_(saver\.save|loader\.load)$"
)
_WITH_OUT = ("torch._refs.", "torch._meta_registrations.", "torch._decomp.")
_OUT = Parameter(name="out", kind="keyword", default="None")

# Types of attributes that patches use and torch does not annotate.
_GRAPH = "torch._inductor.graph.GraphLowering"
TYPES = {
    "torch._inductor.virtualized.V": "torch._inductor.virtualized._V",
    "torch._inductor.virtualized._V.graph": _GRAPH,
    f"{_GRAPH}.sizevars": "torch._inductor.sizevars.SizeVarAllocator",
    f"{_GRAPH}.scheduler": "torch._inductor.scheduler.Scheduler",
    f"{_GRAPH}.wrapper_code": "torch._inductor.codegen.wrapper.PythonWrapperCodegen",
}
# Every module of options has these methods in addition to its options.
CONFIG_METHODS = frozenset({
    "patch", "save_config", "save_config_portable", "load_config", "get_hash", "to_dict",
    "shallow_copy_dict", "codegen_config", "get_config_copy", "get_serializable_config_copy",
    "get_type", "get_default", "_config", "_compile_ignored_keys", "_is_dirty", "_hash_digest",
})  # fmt: skip
# Generic types in annotations: wrappers of the type in brackets, collections, and mappings.
_WRAPPERS = frozenset({"Optional", "Union", "Annotated", "Final", "ClassVar", "Required"})
_COLLECTIONS = frozenset({
    "list", "List", "Sequence", "Iterable", "Iterator", "Collection", "set", "Set", "frozenset",
    "FrozenSet", "tuple", "Tuple", "deque", "OrderedSet", "Generator", "AbstractSet",
})  # fmt: skip
_MAPPINGS = frozenset(
    {"dict", "Dict", "Mapping", "MutableMapping", "defaultdict", "DefaultDict", "OrderedDict"}
)


def is_private(dotted: str) -> bool:
    """True if a part of the name is private: it begins with an underscore and is no `__name__`."""
    return any(part.startswith("_") and not part.endswith("__") for part in dotted.split("."))


def covered(release: Release, dotted: str) -> bool:
    """True if the index of this release can show that `dotted` does not exist."""
    modules = release.modules()
    owner, _, name = dotted.rpartition(".")
    if owner == "triton":
        return owner in modules and name not in _BELOW_TRITON
    for package in OPEN:
        inner = dotted[len(package) + 1 :].partition(".")[0]
        if dotted.startswith(f"{package}.") and f"{package}.{inner}" not in modules:
            return False
    if in_extension(dotted):
        # A newer release proves nothing: torch's stubs list many names some releases late.
        older = itertools.takewhile(lambda each: each.version != release.version, release.others())
        return any(each.resolve(dotted) is not None for each in older)
    ever = release.index.modules if dotted.startswith("torch.") else modules
    return any(root in ever and f"{dotted}.".startswith(f"{root}.") for root in SCOPE)


def has_module(release: Release, dotted: str) -> bool:
    return dotted in release.modules()


def has_options(release: Release, dotted: str) -> bool:
    """True if `dotted` is a module of options, or a group of options in such a module."""
    module = release.module(innermost_module(release, dotted)) if "config" in dotted else None
    return module is not None and bool(module.config)


def definition_of(release: Release, owner: Symbol, name: str) -> tuple[str | None, Function | None]:
    """The place where `owner.name` is defined, and the function that is defined there. Each is None
    if it does not exist.
    """
    dotted = f"{owner.dotted}.{name}"
    found = release.member(owner.dotted, name) if owner.kind == "class" else release.resolve(dotted)
    if found is None:
        return None, None
    return found.origin, found.symbol if isinstance(found.symbol, Function) else None


def callable_behind(release: Release, dotted: str) -> Function | None:
    """The function or `__init__` that a call of `dotted` runs. The result has no body, because no
    call depends on the body.

    None if decorators change the parameters, or if the class has a `__new__`, which takes the
    parameters and may return another object, as in `torch.no_grad`.
    """
    found = release.resolve(dotted)
    symbol = found.symbol if found is not None else None
    if found is None or _TAKES_OTHERS.match(found.origin):
        return None
    if isinstance(symbol, Class):
        made_by = release.member(found.origin, "__new__")
        by_init = made_by is None or made_by.kind != "function"
        symbol = _with_a_body(release, symbol) if by_init else None
        symbol = symbol.functions.get("__init__") if symbol is not None else None
    elif isinstance(symbol, Function) and found.origin.startswith(_WITH_OUT):
        symbol = replace(symbol, parameters=(*symbol.parameters, _OUT))
    return replace(symbol, body="") if isinstance(symbol, Function) else None


def class_made_by(release: Release, dotted: str) -> str:
    """The origin of the class that a call of `dotted` instantiates; empty if it is no class."""
    found = release.resolve(dotted)
    return found.origin if found is not None and isinstance(found.symbol, Class) else ""


def look_up(release: Release, owner: Value, name: str) -> tuple[Presence, Value, str]:
    """The presence of `owner.name`, its value, and the object on which it was looked up."""
    if isinstance(owner, Instance):
        return _on_instance(release, owner, name)
    if not isinstance(owner, Symbol):
        return Presence.MAYBE, UNKNOWN, ""
    presence: Presence = Presence.MAYBE
    value: Value = UNKNOWN
    if owner.kind == "class":
        presence, value = _on_class(release, owner, name)
    elif owner.kind == "module":
        presence, value = _on_module(release, owner, name)
    return presence, value, owner.dotted


def _on_class(release: Release, owner: Symbol, name: str) -> tuple[Presence, Value]:
    if name.startswith("__") and name.endswith("__"):
        return Presence.MAYBE, _own_dunder(release, owner, name, bound=False)
    if hasattr(type, name):
        return Presence.PRESENT, UNKNOWN
    found = release.member(owner.dotted, name) or release.resolve(f"{owner.dotted}.{name}")
    if found is None:
        by_meta = release.ask(on_metaclass, owner.dotted, name)
        return Presence.MAYBE if by_meta else Presence.MISSING, UNKNOWN
    return _presence(found), from_found(release, found, owner, bound=False)


# The maximum of renaming classes to follow: in a broken index a class may derive from itself.
_RENAMED = 4


def _with_a_body(release: Release, symbol: Class | None) -> Class | None:
    """The class itself, or its base if the class only renames the base, like `_LRScheduler`."""
    for _ in range(_RENAMED):
        if symbol is None or symbol.functions or symbol.attributes or len(symbol.bases) != 1:
            break
        symbol = class_symbol(release, symbol.bases[0])
    return symbol


def _own_dunder(release: Release, owner: Symbol, name: str, *, bound: bool) -> Value:
    """A special method that the class itself defines. The index lacks special methods that a
    dataclass makes.
    """
    symbol = _with_a_body(release, class_symbol(release, owner.dotted))
    if symbol is None or name not in symbol.functions:
        return UNKNOWN
    found = release.member(owner.dotted, name)
    return from_found(release, found, owner, bound=bound) if found is not None else UNKNOWN


def _presence(found: Found) -> Presence:
    return Presence.MAYBE if found.kind == "maybe" else Presence.PRESENT


def _on_module(release: Release, owner: Symbol, name: str) -> tuple[Presence, Value]:
    dotted = f"{owner.dotted}.{name}"
    found = release.resolve(dotted)
    if found is not None:
        return _presence(found), from_found(release, found, owner, bound=False)
    if dotted in release.modules():
        return Presence.PRESENT, Symbol(dotted=dotted, kind="module")
    module = release.module(owner.dotted)
    if (
        module is None
        or not covered(release, dotted)
        or (name.startswith("__") and name.endswith("__"))
    ):
        return Presence.MAYBE, Symbol(dotted=dotted, kind="module")
    if (
        _WITH_TYPES.match(owner.dotted) and name.endswith("Tensor")
    ) or name in _BY_INITIALISATION.get(owner.dotted, ()):
        return Presence.MAYBE, UNKNOWN
    if module.config and name in CONFIG_METHODS:
        return Presence.PRESENT, Symbol(dotted=dotted, kind="config-method")
    if name in module.imports or name in module.config:
        return Presence.PRESENT, UNKNOWN
    if module.has_getattr or any(option.startswith(f"{name}.") for option in module.config):
        return Presence.MAYBE, UNKNOWN
    return Presence.MISSING, UNKNOWN


def _on_instance(release: Release, owner: Instance, name: str) -> tuple[Presence, Value, str]:
    values: list[Value] = []
    shown = owner.classes[0]
    if name.startswith("__") and name.endswith("__"):
        one = Symbol(dotted=shown, kind="class")
        return Presence.MAYBE, _own_dunder(release, one, name, bound=len(owner.classes) == 1), shown
    presence = Presence.MISSING
    for dotted in owner.classes:
        found = release.member(dotted, name)
        if found is None:
            heirs = (class_symbol(release, each) for each in release.subclasses(dotted))
            if name in release.ask(_names_of_family, dotted) or any(
                each is not None and each.has_getattr for each in heirs
            ):
                return Presence.MAYBE, UNKNOWN, dotted
            continue
        if presence is Presence.MISSING:
            presence, shown = _presence(found), dotted
        receiver = Symbol(dotted=dotted, kind="class")
        values.append(from_found(release, found, receiver, bound=True))
    if not values:
        return presence, UNKNOWN, shown
    return presence, values[0] if len(values) == 1 else either(values), shown


def ever_had(release: Release, owners: tuple[str, ...], name: str) -> bool:
    """True if an indexed release has the name on one of these modules or classes, or on a derived
    class.
    """
    return any(each.ask(_has, owner, name) for each in release.others() for owner in owners)


def _has(release: Release, owner: str, name: str) -> bool:
    found = release.resolve(owner)
    if found is None:
        return False
    if isinstance(found.symbol, Class):
        return name in release.ask(_names_of_family, owner)
    return release.resolve(f"{owner}.{name}") is not None or name in options_of(release, owner)


def presence_in_heir(release: Release, bases: tuple[str, ...], name: str) -> Presence:
    """The presence of a name that an object outside torch can have only through these bases.

    The name is missing if the bases have it only in other releases, and no class of torch derived
    from them has it in this release. A mixin may use names of the classes that it is mixed with.
    """
    found = [each for each in (release.member(base, name) for base in bases) if each is not None]
    if any(each.kind != "maybe" for each in found):
        return Presence.PRESENT
    had = any(name in each.ask(member_names, base) for each in release.others() for base in bases)
    brought = any(name in release.ask(_names_of_family, base) for base in bases)
    return Presence.MISSING if had and not found and not brought else Presence.MAYBE


def _names_of_family(release: Release, owner: str) -> frozenset[str]:
    """The names of a class, of its bases, and of the classes derived from it."""
    return frozenset().union(
        *(member_names(release, each) for each in (owner, *release.subclasses(owner)))
    )


def options_of(release: Release, owner: str) -> Iterator[str]:
    """The options of the config module `owner`, or of the option group `owner` in such a module."""
    module = innermost_module(release, owner)
    here = release.module(module)
    group = owner[len(module) + 1 :]
    for option in here.config if here is not None else ():
        before, _, name = option.rpartition(".")
        if before == group:
            yield name


def class_symbol(release: Release, dotted: str) -> Class | None:
    found = release.resolve(dotted)
    return found.symbol if found is not None and isinstance(found.symbol, Class) else None


def from_found(release: Release, found: Found, receiver: Symbol, *, bound: bool) -> Value:
    """The value of a name in the index; a property of an instance has the type that it returns."""
    declared = TYPES.get(found.origin)
    if declared is not None and class_symbol(release, declared) is not None:
        return Instance(classes=(declared,))
    if found.kind == "module":
        return Symbol(dotted=found.origin, kind="module")
    if found.kind == "class":
        return Symbol(dotted=found.origin, kind="class")
    if isinstance(found.symbol, Function):
        if found.symbol.form in ("property", "cached-property"):
            return _result(release, found.origin, found.symbol, receiver) if bound else UNKNOWN
        is_bound = bound if found.symbol.form == "method" else found.symbol.form == "class"
        return Symbol(dotted=found.origin, kind="function", bound=is_bound, receiver=receiver)
    if found.kind == "attribute":
        return _attribute_type(release, found.origin)
    return UNKNOWN


def returned(release: Release, dotted: str, receiver: Value) -> Value:
    """The value of a call of a function of torch, by its return annotation."""
    found = release.resolve(dotted)
    if found is None or not isinstance(found.symbol, Function) or _TAKES_OTHERS.match(found.origin):
        return UNKNOWN
    return _result(release, found.origin, found.symbol, receiver)


def _result(release: Release, origin: str, function: Function, receiver: Value) -> Value:
    text = function.returns
    if text is None or function.is_async:
        return UNKNOWN
    if text.strip("'\"") in ("Self", "typing.Self", "typing_extensions.Self"):
        return Instance(classes=(receiver.dotted,)) if isinstance(receiver, Symbol) else UNKNOWN
    return annotated(text, module_resolver(release, innermost_module(release, origin)))


def _attribute_type(release: Release, origin: str) -> Value:
    module_name = innermost_module(release, origin)
    module = release.module(module_name)
    if module is None:
        return UNKNOWN
    rest = origin[len(module_name) + 1 :]
    owner, _, name = rest.rpartition(".")
    holder: Module | Class | None = module.classes.get(owner) if owner else module
    text = holder.attributes.get(name) if holder is not None else None
    return annotated(text, module_resolver(release, module_name)) if text else UNKNOWN


def innermost_module(release: Release, dotted: str) -> str:
    """The module that `dotted` names, or the innermost module above it; empty if there is none."""
    modules = release.modules()
    return dotted if dotted in modules else module_of(dotted, modules)


def module_resolver(release: Release, module: str) -> Resolve:
    """Return a function that resolves names as the code of one module of torch sees them."""

    def resolve(name: str) -> Value:
        found = release.resolve(f"{module}.{name}")
        here = release.module(module)
        if found is None and here is not None:
            # Annotations also use imports below `if TYPE_CHECKING`, which other code cannot use.
            first, dot, rest = name.partition(".")
            found = release.resolve(here.lazy_imports.get(first, "") + dot + rest)
        if found is not None and found.kind == "class":
            return Symbol(dotted=found.origin, kind="class")
        return UNKNOWN

    return resolve


def annotated(text: str, resolve: Resolve) -> Value:
    """The value that an annotation, given as source, promises."""
    tree = _parsed(text)
    return UNKNOWN if tree is None else promised(tree, resolve)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def promised(node: ast.expr, resolve: Resolve) -> Value:
    """The value that an annotation promises: instances of classes, or collections of them."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return annotated(node.value, resolve)
        return UNKNOWN
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _one_of([node.left, node.right], resolve)
    if isinstance(node, ast.Subscript):
        return _generic(node, resolve)
    if isinstance(node, (ast.Name, ast.Attribute)):
        value = resolve(ast.unparse(node))
        if isinstance(value, Symbol) and value.kind == "class":
            return Instance(classes=(value.dotted,))
    return UNKNOWN


def _one_of(nodes: list[ast.expr], resolve: Resolve) -> Value:
    some = [node for node in nodes if not (isinstance(node, ast.Constant) and node.value is None)]
    values = [promised(node, resolve) for node in some]
    return values[0] if len(values) == 1 else either(values)


def _generic(node: ast.Subscript, resolve: Resolve) -> Value:
    outer = ast.unparse(node.value).rpartition(".")[2]
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if outer in _WRAPPERS:
        return _one_of(inner if outer == "Union" else inner[:1], resolve)
    if outer in _COLLECTIONS and inner:
        if outer in ("tuple", "Tuple") and not (
            len(inner) == 2 and isinstance(inner[1], ast.Constant) and inner[1].value is Ellipsis
        ):
            return UNKNOWN
        # A tuple of ints may be a version: the source of the value tells more than its type.
        version = outer in ("tuple", "Tuple") and ast.unparse(inner[0]) == "int"
        return UNKNOWN if version else Container(element=promised(inner[0], resolve))
    if outer in _MAPPINGS and len(inner) == 2:
        return Container(element=promised(inner[1], resolve))
    return UNKNOWN
