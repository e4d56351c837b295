"""Stands in for modules that are not installed, and records every use of their names.

A stand-in has no behaviour to rely on: it is false in a test, and raises if its value would decide
anything else. The record shows which part of a patch was not judged.
"""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import os
import sys
import typing
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, FunctionType, ModuleType
from typing import Any, NoReturn
from unittest import mock

from patchgate.probe.patch.module_name import missing_imports, top_level
from patchgate.probe.protocol import StubUse

# The use of each name: the patch's use if there is one, else the first use by another file.
_USED: dict[str, StubUse] = {}
_OBJECTS: dict[str, Stub] = {}
_PATCHES: set[str] = set()
#: Modules that a project imports and that are not installed, in the order of their first import.
MISSING: dict[str, None] = {}
# Files whose frames never use a stub themselves: the import system's files, and this file.
_PASSED_THROUGH = (
    __file__,
    "<frozen importlib",
    os.path.dirname(importlib.__file__) + "/__init__.py",
)
# Functions that only ask if a module exists.
_ASKING = ("<frozen importlib.util>", os.path.dirname(importlib.__file__) + "/util.py")
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Never replaced as missing: modules of torch itself exist, or torch has moved them.
_INSTALLED = {"torch", "triton", "functorch", "torchgen", *sys.stdlib_module_names}
_CATCHING = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
# Methods that need a value, which a stand-in lacks; `__or__` makes a type for an annotation.
_DECIDING = """
    ne lt le gt ge iter len contains index int float add radd sub rsub mul rmul truediv floordiv
    mod and rand neg invert fspath
"""


class StandsIn(Exception):
    """A stand-in had to decide something: with the module installed, the patch may behave
    differently.

    `missing` are the packages that are not installed, if they are known.
    """

    def __init__(self, text: str, missing: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.missing = missing


def install_stubs(names: Iterable[str], patch: str, root: str) -> None:
    """Replace each module of `names`, and all modules below it, by stubs, even if it is installed.

    If the name is a package of the patch's own project (a folder below `root`), the package runs no
    code, and the modules in it stay. A stub also replaces each missing module that a file below
    `root` imports and needs. A device such as `torch.npu` gets its stub before any import of it.
    """
    folders = {name: os.path.join(root, *name.split(".")) for name in names}
    wanted = {name: folder if os.path.isdir(folder) else None for name, folder in folders.items()}
    _PATCHES.add(patch)
    named = [finder for finder in sys.meta_path if isinstance(finder, _Finder)]
    if wanted and not named:
        named = [_Finder()]
        sys.meta_path.insert(0, named[0])
    for finder in named:
        finder.wanted |= wanted
    if not any(isinstance(finder, _Missing) and finder.root == root for finder in sys.meta_path):
        sys.meta_path.append(_Missing(root))
    for name in filter(_is_device, wanted):
        importlib.import_module(name)
        _USED.pop(name, None)  # this import is not the patch's


def _is_device(name: str) -> bool:
    return top_level(name) == "torch"


def uses() -> list[StubUse]:
    """Every name of a stub that was used, with file:line, and true if the patch itself used it."""
    return [_USED[name] for name in sorted(_USED)]


def are_used() -> bool:
    """True if there are stubs or stand-ins here."""
    replaced = any(isinstance(finder, _Finder) and finder.wanted for finder in sys.meta_path)
    return bool(_USED or MISSING or replaced)


def missing_packages() -> list[str]:
    """The packages that are not installed but needed: by modules with stand-ins, by the patches, or
    by the project's packages that run no code.
    """
    roots = [finder.root for finder in sys.meta_path if isinstance(finder, _Missing)]
    named = [name for finder in sys.meta_path if type(finder) is _Finder for name in finder.wanted]
    places = [os.path.join(root, *name.split(".")) for root in roots for name in named]
    files = [f for place in places for f in (f"{place}/__init__.py", f"{place}.py")]
    needed = (missing_imports(file, root) for root in roots for file in [*_PATCHES, *files])
    devices = [name.replace(".", "_") for name in filter(_is_device, named)]
    names = [*MISSING, *devices, *itertools.chain(*needed)]
    return list(dict.fromkeys(map(top_level, names)))


def is_missed_by(file: str) -> bool:
    """True if a missing module may be why a file of the project, other than the patch, fails."""
    finders = [finder for finder in sys.meta_path if isinstance(finder, _Missing)]
    return are_used() and file not in _PATCHES and any(finder.is_own(file) for finder in finders)


class _Loader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StubModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing, because there is nothing to run."""


class _Finder(MetaPathFinder, _Loader):
    """Finds the modules that are to be replaced, before anything else finds them."""

    def __init__(self) -> None:
        self.wanted: dict[str, str | None] = {}  # name -> folder, if it is a package of the project

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        above = itertools.accumulate(fullname.split("."), "{}.{}".format)
        name = next((name for name in (fullname, *above) if name in self.wanted), None)
        if name is None or (self.wanted[name] is not None and name != fullname):
            return None
        spec = ModuleSpec(fullname, self, is_package=True)
        folder = self.wanted[name]
        if folder is not None:
            spec.submodule_search_locations = [folder]
        else:
            _note(fullname)
        return spec


class _Missing(MetaPathFinder, _Loader):
    """Provides a stub for a module that no other finder finds, if a file of the project fails
    without the module.
    """

    is_on = True

    def __init__(self, root: str) -> None:
        self.root = root

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        is_below = fullname.rpartition(".")[0] in MISSING
        if not is_below and not (self.is_on and self._is_needed(fullname)):
            return None
        MISSING[fullname] = None
        _note(fullname)
        return ModuleSpec(fullname, self, is_package=True)

    def _is_needed(self, fullname: str) -> bool:
        """True if a file of the project imports the module, and no handler around the import goes
        on without it.
        """
        if fullname.partition(".")[0] in _INSTALLED:
            return False
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename.startswith(_PASSED_THROUGH):
            if frame.f_code.co_filename in _ASKING:
                return False
            frame = frame.f_back
        if frame is None or not self.is_own(frame.f_code.co_filename):
            return False
        while frame is not None:
            file = frame.f_code.co_filename
            if self.is_own(file) and any(frame.f_lineno in lines for lines in _guarded_lines(file)):
                return False
            frame = frame.f_back
        return True

    def is_own(self, file: str) -> bool:
        is_below = file.startswith(f"{self.root}{os.sep}")
        is_others = file.startswith((sys.prefix + os.sep, _OURS))
        return (is_below and not is_others) or file in _PATCHES


def without_missing() -> AbstractContextManager[Any]:
    """Switch off all stand-ins for missing modules until the context ends."""
    return mock.patch.object(_Missing, "is_on", False)


@functools.cache
def _guarded_lines(file: str) -> tuple[range, ...]:
    """Lines of a file in `try` and `with` blocks that catch the error of a failed import."""
    try:
        with open(file, "rb") as source:
            nodes = list(ast.walk(ast.parse(source.read())))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(
        range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1)
        for node in nodes
        if (isinstance(node, ast.Try) and any(map(_goes_on, node.handlers)))
        or (isinstance(node, ast.With) and "suppress" in _names(node.items[0]))
    )


def _goes_on(handler: ast.ExceptHandler) -> bool:
    catches = handler.type is None or bool(_names(handler.type) & _CATCHING)
    return catches and not isinstance(handler.body[-1], ast.Raise)


def _names(node: ast.AST) -> set[str]:
    return {
        each.id if isinstance(each, ast.Name) else each.attr
        for each in ast.walk(node)
        if isinstance(each, (ast.Name, ast.Attribute))
    }


def _importer() -> FrameType:
    """The frame that imports or uses a stub."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PASSED_THROUGH):
        frame = frame.f_back
    return frame


def _note(name: str) -> None:
    frame = _importer()
    file = frame.f_code.co_filename
    is_first = name not in _USED or (file in _PATCHES and not _USED[name]["by_patch"])
    if is_first:
        where = f"{file}:{frame.f_lineno}"
        _USED[name] = {"name": name, "where": where, "by_patch": file in _PATCHES}


def _use(name: str) -> Stub:
    if name.rpartition(".")[2].startswith("__"):
        raise AttributeError(f"a stub has no {name}")
    _note(name)
    return _OBJECTS.setdefault(name, Stub(name))


class StubModule(ModuleType):
    """A module whose every name is a `Stub`, except for the modules in its folder."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":  # after `from stub import *`, the importer has every name too
            _importer().f_globals.setdefault("__getattr__", self.__getattr__)
        below = [os.path.join(folder, name) for folder in vars(self).get("__path__", ())]
        if any(os.path.isfile(f"{path}.py") or os.path.isdir(path) for path in below):
            return importlib.import_module(f"{self.__name__}.{name}")
        return _use(f"{self.__name__}.{name}")


class _Base:
    """The base of a class that inherits from stubs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __init_subclass__(cls, **kwargs: Any) -> None: ...


class Stub:
    """The value of any name of a stub: it can be called, read, subscripted, entered and inherited
    from.
    """

    def __init__(self, name: str) -> None:
        vars(self).update(_stubbed=name, __name__=name.rpartition(".")[2], __qualname__=name)

    def __getattr__(self, name: str) -> Stub:
        return _use(f"{vars(self)['_stubbed']}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # As a decorator, it returns the function unchanged.
        if len(args) == 1 and not kwargs and isinstance(args[0], (FunctionType, type)):
            return args[0]
        return _use(f"{vars(self)['_stubbed']}()")

    def __bool__(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        # An annotation such as `Optional[stub]` compares the stub, which is a type like any other.
        if sys._getframe(1).f_code.co_filename != typing.__file__:
            _decides(self)
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __reduce__(self) -> tuple[type[Stub], tuple[str]]:
        # An option of torch may be set to a stub, and options are copied and pickled.
        return Stub, (vars(self)["_stubbed"],)

    def __deepcopy__(self, memo: object) -> Stub:
        return self

    def __getitem__(self, key: object) -> Stub:
        return self

    def __enter__(self) -> Stub:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __or__(self, other: object) -> Stub:
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        is_first = next(base for base in bases if isinstance(base, Stub)) is self
        return (_Base,) if is_first else ()

    def __instancecheck__(self, instance: object) -> bool:
        return False

    __subclasscheck__ = __instancecheck__

    def __repr__(self) -> str:
        return f"<stub {vars(self)['_stubbed']}>"


def _decides(self: Stub, *others: object) -> NoReturn:
    raise StandsIn(f"{vars(self)['_stubbed']}, which is not here, decides")


for _name in _DECIDING.split():
    setattr(Stub, f"__{_name}__", _decides)
