"""Stands in for modules that are not installed, and records every name that is used of them.

A stand-in has no behaviour to rely on: it is false in a test, and raises where its value would
decide anything else. Whoever reads the record knows what of a patch was not judged.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import importlib.abc
import importlib.machinery
import itertools
import os
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from patchgate.probe.protocol import StubUse

# Name -> file:line that used it; a use by the patch stands before one by another file.
_USED: dict[str, str] = {}
_BY_PATCH: set[str] = set()
_OBJECTS: dict[str, Stub] = {}
_PATCHES: set[str] = set()
#: Modules that a project imports and that are not installed, in the order of their first import.
MISSING: dict[str, None] = {}
# Files whose frames are never the user: the import system's have no file, or a frozen one.
_PASSED_THROUGH = (
    __file__,
    "<frozen importlib",
    os.path.dirname(importlib.__file__) + "/__init__.py",
)
# They ask whether a module is there.
_ASKING = ("<frozen importlib.util>", os.path.dirname(importlib.__file__) + "/util.py")
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Torch's own are there, or torch has moved them.
_INSTALLED = {"torch", "triton", "functorch", "torchgen", *sys.stdlib_module_names}
_CATCHING = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
# What decides by a value that a stand-in has not; `__or__` makes a type for an annotation.
_DECIDING = (
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__iter__", "__len__",
    "__contains__", "__index__", "__int__", "__float__", "__add__", "__radd__", "__sub__",
    "__rsub__", "__mul__", "__rmul__", "__truediv__", "__floordiv__", "__mod__", "__and__",
    "__rand__", "__neg__", "__invert__", "__fspath__",
)  # fmt: skip


class StandsIn(Exception):
    """A stand-in had to decide: the patch may do something else with the module installed.

    `missing` are the packages that are not installed, where they are known.
    """

    def __init__(self, text: str, missing: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.missing = missing


def install_stubs(names: Iterable[str], patch: str, root: str) -> None:
    """Let each module of `names`, and what lies below it, be a stub, whether or not it is
    installed.

    A package of the patch's own project, a folder below `root`, runs nothing; the modules in it are
    as they are. So is every other module that a file below `root` imports, that is not installed,
    and that the file cannot do without.
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


def uses() -> list[StubUse]:
    """Every name that was used of a stub, with file:line, and whether the patch itself used it."""
    return [
        {"name": name, "where": where, "by_patch": name in _BY_PATCH}
        for name, where in sorted(_USED.items())
    ]


def are_used() -> bool:
    """True if anything here stands for what is not there."""
    replaced = any(isinstance(finder, _Finder) and finder.wanted for finder in sys.meta_path)
    return bool(_USED or MISSING or replaced)


def is_missed_by(file: str) -> bool:
    """True if what is not there may be why a file fails: another one than the patch, of its
    project.
    """
    finders = [finder for finder in sys.meta_path if isinstance(finder, _Missing)]
    return are_used() and file not in _PATCHES and any(finder.is_own(file) for finder in finders)


class _Loader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return StubModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


class _Finder(importlib.abc.MetaPathFinder, _Loader):
    """Finds the modules that are to be replaced, before anything else finds them."""

    def __init__(self) -> None:
        self.wanted: dict[str, str | None] = {}  # folder of the project's own package

    def find_spec(
        self, fullname: str, path: Any, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        above = itertools.accumulate(fullname.split("."), "{}.{}".format)
        name = next((name for name in (fullname, *above) if name in self.wanted), None)
        if name is None or (self.wanted[name] is not None and name != fullname):
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        folder = self.wanted[name]
        if folder is not None:
            spec.submodule_search_locations = [folder]
        else:
            _note(fullname)
        return spec


class _Missing(importlib.abc.MetaPathFinder, _Loader):
    """Finds what nothing else has found, where a file of the project fails without it."""

    is_on = True

    def __init__(self, root: str) -> None:
        self.root = root

    def find_spec(
        self, fullname: str, path: Any, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        is_below = fullname.rpartition(".")[0] in MISSING
        if not is_below and not (self.is_on and self._is_needed(fullname)):
            return None
        MISSING[fullname] = None
        _note(fullname)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def _is_needed(self, fullname: str) -> bool:
        """True if a file of the project imports it, and nothing around that line goes on without
        it.
        """
        if fullname.partition(".")[0] in _INSTALLED:
            return False
        frame: types.FrameType | None = sys._getframe(2)
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
        below = file.startswith(f"{self.root}{os.sep}") and not file.startswith(
            (sys.prefix + os.sep, _OURS)
        )
        return below or file in _PATCHES


@contextlib.contextmanager
def without_missing() -> Iterator[None]:
    """Within it, nothing stands for a module that is not installed."""
    _Missing.is_on = False
    try:
        yield
    finally:
        _Missing.is_on = True


@functools.cache
def _guarded_lines(file: str) -> tuple[range, ...]:
    """Lines of a file that go on where an import fails."""
    try:
        with open(file, "rb") as source:
            nodes = list(ast.walk(ast.parse(source.read())))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ()
    around: list[ast.Try | ast.With] = [
        n for n in nodes if isinstance(n, ast.Try) and any(map(_goes_on, n.handlers))
    ]
    around += [n for n in nodes if isinstance(n, ast.With) and "suppress" in _names(n.items[0])]
    return tuple(range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1) for node in around)


def _goes_on(handler: ast.ExceptHandler) -> bool:
    catches = handler.type is None or bool(_names(handler.type) & _CATCHING)
    return catches and not isinstance(handler.body[-1], ast.Raise)


def _names(node: ast.AST) -> set[str]:
    return {
        each.id if isinstance(each, ast.Name) else each.attr
        for each in ast.walk(node)
        if isinstance(each, (ast.Name, ast.Attribute))
    }


def _importer() -> types.FrameType:
    """The frame that imports or uses a stub."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PASSED_THROUGH):
        frame = frame.f_back
    return frame


def _note(name: str) -> None:
    frame = _importer()
    file = frame.f_code.co_filename
    if file in _PATCHES and name not in _BY_PATCH:
        _BY_PATCH.add(name)
        _USED[name] = f"{file}:{frame.f_lineno}"
    _USED.setdefault(name, f"{file}:{frame.f_lineno}")


def _use(name: str) -> Stub:
    if name.rpartition(".")[2].startswith("__"):
        raise AttributeError(f"a stub has no {name}")
    _note(name)
    return _OBJECTS.setdefault(name, Stub(name))


class StubModule(types.ModuleType):
    """A module whose every name is a `Stub`, but for the modules that lie in its folder."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":  # `from stub import *`: the importer has every name too
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
        # As a decorator it leaves what it decorates alone.
        if len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type)):
            return args[0]
        return _use(f"{vars(self)['_stubbed']}()")

    def __bool__(self) -> bool:
        return False

    def __hash__(self) -> int:
        return id(self)

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


for _name in _DECIDING:
    setattr(Stub, _name, _decides)
