"""Imports a patch under its name in the project, and calls its installers.

A file in a package is imported under its own dotted name, so that all importers, even its package,
get the same module. Any other file is run as a module with a name of our own.
"""

from __future__ import annotations

import ast
import copy
import gc
import importlib
import importlib.metadata
import importlib.util
import inspect
import itertools
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from types import CodeType, ModuleType
from typing import Any
from unittest import mock

import torch
import torch.version
from torch.torch_version import TorchVersion

from patchgate.probe.patch.module_name import foreign_imports, place_in_package, top_level
from patchgate.probe.patch.snapshot import Changes, Snapshot, changes, take_snapshot
from patchgate.probe.patch.stubs import (
    StandsIn,
    are_used,
    install_stubs,
    missing_packages,
    without_missing,
)
from patchgate.probe.process.reply import one_line
from patchgate.probe.protocol import Loading

#: The module name of a patch outside any package, and its name when it is run again.
MODULE = "patch_module"
AGAIN = f"{MODULE}_again"
# Path of each patch that was run -> its place. It is kept, because a patch may replace the
# functions that find it.
_PLACES: dict[str, tuple[str | None, str]] = {}
# Path of each patch that was run -> its module.
_MODULES: dict[str, ModuleType] = {}
_READ_AS_SOURCES: set[str] = set()
# Name of a module -> the path of the part that its import runs.
_PARTS: dict[str, str] = {}
# The patches whose scopes are entered: garbage collection would leave a scope without a reference.
_ENTERED: list[AppliedPatch] = []
# The originals: a patch may change the default, and replace its functions.
_DEFAULT_DTYPE = torch.get_default_dtype()
_set_default_dtype = torch.set_default_dtype


class AppliedPatch:
    """A patch that was run; its scope, if it has one, is entered."""

    def __init__(self, module: ModuleType, scope: str | None) -> None:
        self._imported = take_snapshot() if scope else Snapshot()
        self._make_scope = partial(_call, module, scope) if scope else None
        self._scope: Any = None
        self.enter()

    def enter(self) -> None:
        if self._make_scope is not None:
            self._scope = self._make_scope()
            self._scope.__enter__()
            _ENTERED.append(self)

    def leave(self, error: Exception | None = None) -> None:
        """Leave the scope, by an exception if one is given."""
        if self._scope is not None:
            _ENTERED.remove(self)
            scope, self._scope = self._scope, None
            scope.__exit__(type(error) if error else None, error, None)

    def leaks(self, before: Snapshot) -> list[str]:
        """Leave the scope, and name the changes outside it: changes by the import, and changes that
        remain after leaving.
        """
        self.leave()
        left = names_left(changes(before, take_snapshot()))
        return sorted({*changes(before, self._imported), *left})

    def leave_again(self) -> None:
        """Enter the scope once more, and leave it."""
        self.enter()
        self.leave()

    def leave_by_exception(self) -> None:
        """Enter the scope once more and leave it by an exception, which the scope may swallow."""
        self.enter()
        with suppress(RuntimeError):
            self.leave(RuntimeError("raised in the block"))

    def leave_nested(self) -> None:
        """Enter the scope again, enter a second block of it inside, and leave both."""
        self.enter()
        self.nest()
        self.leave()

    def nest(self) -> bool:
        """Enter and leave a second block of the scope. False if the scope refuses to be nested."""
        inner = copy.copy(self)
        try:
            inner.enter()
            inner.leave()
        except Exception:
            return False
        return True


def names_left(changed: Changes) -> list[str]:
    """The names that a scope leaves changed. A name that did not exist before and is None now does
    not count (such as `__deepcopy__`).
    """
    return [name for name, (old, now) in changed.items() if old is not None or now is not None]


@contextmanager
def built_outside() -> Iterator[None]:
    """Leave every scope until the end of the block, in which a workload is built.

    A scope may change how modules are built in it (no memory, no initial values, another dtype).
    Only its effect on compiling the modules can be compared with torch outside the scope.
    """
    entered, generator = list(_ENTERED), torch.get_rng_state()
    for patched in reversed(entered):
        patched.leave()
    torch.set_rng_state(generator)  # a scope may restore an earlier seed
    try:
        yield
    finally:  # also if a module cannot be built: later code is judged in the scope too
        for patched in entered:
            patched.enter()
        use_torchs_dtype()


def use_torchs_dtype() -> None:
    """Give new tensors torch's default dtype, also within a scope that changes it: the scope's is
    for its user's code, and workloads name their dtypes.
    """
    if _ENTERED:
        _set_default_dtype(_DEFAULT_DTYPE)


def run_patch(path: str, how: Loading, name: str = MODULE) -> AppliedPatch:
    """Import the patch, call its installers and enter its scope; raises whatever they raise."""
    return AppliedPatch(import_patch(path, how, name), how.get("scope"))


def blamed_module(path: str, how: Loading) -> dict[str, str]:
    """The first module of the project, other than the patch, that cannot be imported here, and the
    reason. Empty if all modules can be imported.

    A package around the patch is not run if it needs a module that is not installed; other modules
    have stand-ins. A missing name of torch, such as `torch.npu`, is returned too: a package for a
    device may add it.
    """
    dotted = _prepare(path, how) or ""
    name = ""
    try:
        with without_missing():
            for name in itertools.accumulate(dotted.split(".")[:-1], "{}.{}".format):
                importlib.import_module(name)
        name = ""
        run_patch(path, how)
    except BaseException as error:  # a module may raise anything, SystemExit included
        if not name and is_about_torch(error):
            if isinstance(error, AttributeError) and error.obj is torch:
                return {f"torch.{error.name}": one_line(error)}
            return {}
        is_stood_in = isinstance(error, StandsIn) and error.__cause__ is not None
        cause: Any = error.__cause__ if is_stood_in else error
        raising = name or _raising_module(cause, place_of(path, how)[1], path)
        return {raising: one_line(cause)} if raising else {}
    return {}


def _raising_module(error: Any, root: str, patch: str) -> str:
    """The innermost module of the project, other than the patch, whose import raised the error."""
    for frame, _ in reversed([*traceback.walk_tb(error.__traceback__)]):
        file, function = frame.f_code.co_filename, frame.f_code.co_name
        if function == "<module>" and file.startswith(f"{root}/") and file != patch:
            return str(frame.f_globals["__name__"])
    return ""


def is_about_torch(error: BaseException) -> bool:
    """True if the error is about a missing name of torch or Triton, and about no other module."""
    owner: Any = getattr(error, "name" if isinstance(error, ImportError) else "obj", None)
    if isinstance(owner, ModuleType):
        owner = owner.__name__
    elif not isinstance(owner, str):
        owner = getattr(owner, "__module__", None)
    return top_level(str(owner)) in ("torch", "triton")


def import_patch(path: str, how: Loading, name: str = MODULE) -> ModuleType:
    """Import the file once, and call the functions that install it; raises whatever they raise.

    With the name `AGAIN`, the file is run once more. If functions install the patch, only these
    functions are called again.
    """
    installers = how.get("install") or []
    dotted = _prepare(path, how)
    module = _MODULES.get(path)
    again = name == AGAIN and not installers
    try:
        if module is None or (again and dotted is None):
            module = importlib.import_module(dotted) if dotted else run_file(path, name)
        elif again:
            module = importlib.reload(module)
        _MODULES[path] = module
        for installer in installers:
            _call(module, installer)
    except (Exception, SystemExit) as error:
        if not are_used() or is_about_torch(error):
            raise
        packages = missing_packages()
        said = "not installed: " + ", ".join(packages) if packages else "its project has stand-ins"
        raise StandsIn(said, packages) from error
    # Collect garbage now, which may run code: a child collects less often than a user's process.
    gc.collect()
    return module


def import_others(path: str, how: Loading) -> None:
    """Import the modules of other projects that the file imports: their changes are not the
    patch's.

    For a scope, modules of the patch's own project are imported too: an import does not enter the
    scope.
    """
    _prepare(path, how)
    left_out = {"torch", "triton", *sys.stdlib_module_names, *how.get("stubs", ())}
    root = place_of(path, how)[1]
    for name in foreign_imports(path, root, leading=True, own=bool(how.get("scope"))):
        package, _, last = name.rpartition(".")
        # A package of the project may have a stand-in while its other packages run.
        first = package if os.path.isdir(os.path.join(root, top_level(name))) else top_level(name)
        if first not in left_out:
            with suppress(Exception):  # the patch itself reports it
                __import__(package or last, fromlist=[last])


def import_packages(path: str, how: Loading) -> bool:
    """Import the packages around the patch. True if some exist and did not import the patch."""
    dotted = _prepare(path, how) or ""
    package = dotted.rpartition(".")[0]
    if package:
        importlib.import_module(package)
    return bool(package) and dotted not in sys.modules


def _prepare(path: str, how: Loading) -> str | None:
    """Make the modules that the patch imports importable; return its own dotted name, if it is in a
    package.
    """
    sys.dont_write_bytecode = True
    dotted, root = place_of(path, how)
    for folder in (*reversed(how.get("paths", ())), *([root] if dotted else ())):
        if folder not in _READ_AS_SOURCES:
            _READ_AS_SOURCES.add(folder)
            _read_sources_below(folder)
        if folder not in sys.path:
            sys.path.insert(0, folder)
    install_stubs(how.get("stubs", ()), path, root)
    return _name_of_part(path, dotted) if how.get("part_of") and dotted else dotted


class _PartFinder:
    """Imports a part of a file in place of the file."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        part = _PARTS.get(name)
        return importlib.util.spec_from_file_location(name, part) if part else None


def _name_of_part(path: str, dotted: str) -> str:
    """The module name of a part. The first part to be imported has the whole file's name, and each
    other part another name.
    """
    if not _PARTS:
        sys.meta_path.insert(0, _PartFinder())
    known = {part: name for name, part in _PARTS.items()}
    name = known.get(path) or (f"{dotted}_{len(_PARTS)}" if dotted in _PARTS else dotted)
    _PARTS[name] = path
    return name


def place_of(path: str, how: Loading) -> tuple[str | None, str]:
    """The patch's dotted name (None outside packages) and import folder, found before it ran."""
    if path not in _PLACES:
        _PLACES[path] = place_in_package(how.get("part_of") or path, how.get("paths", ()))
    return _PLACES[path]


def module_of(path: str | None) -> ModuleType | None:
    """The module of a patch that was imported."""
    return _MODULES.get(path or "")


def is_patch_module(guarded: str) -> bool:
    """True if a guard, by Dynamo's name for it, is on the globals of a module run as a patch."""
    modules = [module.__name__ for module in _MODULES.values()]
    names = [f"{name.replace('_', '__').replace('.', '_dot_')}'" for name in modules]
    return guarded.startswith(tuple(f"G['__import_{name}" for name in (MODULE, *names)))


def held_by_patches(name: str) -> list[Any]:
    """The functions called `name` that the modules of run patches hold as originals."""
    values = itertools.chain(*(vars(module).values() for module in _MODULES.values()))
    return [each for each in values if inspect.isroutine(each) and each.__name__ == name]


def _call(module: ModuleType, text: str) -> Any:
    """Call `function`, or `package.module:function(arguments)`; arguments are literals."""
    owner, _, call = text.rpartition(":")
    node = ast.parse(call, mode="eval").body
    function: Any = importlib.import_module(owner) if owner else module
    arguments: list[Any] = []
    keywords: dict[str, Any] = {}
    if isinstance(node, ast.Call):
        arguments = [ast.literal_eval(argument) for argument in node.args]
        keywords = {word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg}
        node = node.func
    for name in ast.unparse(node).split("."):
        function = getattr(function, name)
    return function(*arguments, **keywords)


def run_file(path: str, name: str) -> ModuleType:
    """The module of a file, run by its loader."""
    loader = _SourceLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class _SourceLoader(SourceFileLoader):
    """Compiles a source each time, because the bytecode next to it may be of another source."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


_find_sources = FileFinder.path_hook(
    (ExtensionFileLoader, EXTENSION_SUFFIXES), (_SourceLoader, SOURCE_SUFFIXES)
)


def _read_sources_below(folder: str) -> None:
    """From now on read no bytecode in a folder of the patch, except in an environment inside it."""

    def finder(path: str) -> Any:
        if path.startswith(sys.prefix) or not f"{path}/".startswith(f"{folder}/"):
            raise ImportError("not the patch's")
        return _find_sources(path)

    sys.path_hooks.insert(0, finder)
    sys.path_importer_cache.clear()


@contextmanager
def faked_version(version: str) -> Iterator[None]:
    """Replace torch's version by `version` wherever a patch can read it."""
    # Every function of importlib.metadata that returns a version reads this property.
    real = vars(importlib.metadata.Distribution)["metadata"].fget

    def metadata(distribution: importlib.metadata.Distribution) -> Any:
        read = real(distribution)
        if read["Name"] == "torch":
            read.replace_header("Version", version)
        return read

    with (
        mock.patch.object(torch, "__version__", TorchVersion(version)),
        mock.patch.object(torch.torch_version, "__version__", TorchVersion(version)),
        mock.patch.object(torch.version, "__version__", version),
        mock.patch.object(importlib.metadata.Distribution, "metadata", property(metadata)),
    ):
        yield
