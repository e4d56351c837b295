"""Imports a patch under the name that its project gives it, and calls what installs it.

A file in a package is imported under its own dotted name, so that whoever imports it, its package included, gets the
one module. Any other file is run as a module of ours.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.metadata
import importlib.util
import itertools
import os
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import torch
import torch.version
from torch.torch_version import TorchVersion

from patchgate.probe.patch.snapshot import Snapshot, changes, take_snapshot
from patchgate.probe.patch.stubs import install_stubs
from patchgate.probe.protocol import Loading

#: Name of the module as which a patch that lies in no package is run, and the one as which it is run again.
MODULE = "patchgate_patch"
AGAIN = f"{MODULE}_again"
# What stands in the folder of a project; a package reaches no higher.
_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
# Path of each patch that was run -> its module.
_MODULES: dict[str, types.ModuleType] = {}
# A context manager that nobody holds is collected, and a scope that is collected is left.
_ENTERED: list[contextlib.AbstractContextManager[Any]] = []


class AppliedPatch:
    """A patch that was run, and its scope entered when it has one."""

    def __init__(self, module: types.ModuleType, scope: str | None) -> None:
        self._imported = take_snapshot() if scope else {}
        self._scope: contextlib.AbstractContextManager[Any] | None = getattr(module, scope)() if scope else None
        if self._scope is not None:
            self._scope.__enter__()
            _ENTERED.append(self._scope)

    def leave(self) -> None:
        if self._scope is not None:
            self._scope.__exit__(None, None, None)

    def leaks(self, before: Snapshot) -> list[str]:
        """Leave the scope. The names that the patch changes outside it: by its import, or still after it."""
        if self._scope is None:
            return []
        self.leave()
        return sorted({**changes(before, self._imported), **changes(before, take_snapshot())})


def run_patch(path: str, how: Loading, name: str = MODULE) -> AppliedPatch:
    """Import the patch, call what installs it and enter its scope; raises whatever it raises."""
    return AppliedPatch(import_patch(path, how, name), how.get("scope"))


def import_patch(path: str, how: Loading, name: str = MODULE) -> types.ModuleType:
    """Import the file, once however often it is asked for, and call what installs it; raises whatever they raise.

    As `AGAIN` the file is run once more, or, where something installs it, that is called once more.
    """
    sys.dont_write_bytecode = True
    installers = how.get("install") or []
    dotted, root = place_in_package(path, how.get("paths", ()))
    for folder in (*reversed(how.get("paths", ())), *([root] if dotted else ())):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    install_stubs(how.get("stubs", ()), path, (dotted or "").split("."), root)
    module = _MODULES.get(path)
    again = name == AGAIN and not installers
    if module is None or (again and dotted is None):
        module = importlib.import_module(dotted) if dotted else _run_file(path, name)
    elif again:
        module = importlib.reload(module)
    _MODULES[path] = module
    for installer in installers:
        _call_installer(module, installer)
    return module


def place_in_package(path: str, paths: Sequence[str] = ()) -> tuple[str | None, str]:
    """(dotted name of the file's module, folder from which it is imported); no name where it is in no package.

    A folder of `paths` around the file says what its name is. Else every folder around it with an `__init__.py`
    belongs to it, and so do namespaces: folders without one that the file itself imports from, or that its relative
    imports need.
    """
    path = os.path.abspath(path)
    folder = os.path.dirname(path)
    below = [root for root in map(os.path.abspath, paths) if path.startswith(f"{root}{os.sep}")]
    if below:
        root = max(below, key=len)
        return _dotted(path, root), root
    root = folder
    while os.path.isfile(os.path.join(root, "__init__.py")):
        root = os.path.dirname(root)
    root = _namespace_root(path, root) or root
    return (None, folder) if root == folder else (_dotted(path, root), root)


def _dotted(path: str, root: str) -> str:
    names = os.path.splitext(os.path.relpath(path, root))[0].split(os.sep)
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def _namespace_root(path: str, root: str) -> str | None:
    """The folder from which a file is imported whose top folder, below `root`, is in a namespace; None for no such."""
    names, level = _imports(path)
    around = [root]
    while not any(os.path.exists(os.path.join(around[-1], mark)) for mark in _PROJECT):
        if around[-1] == os.path.dirname(around[-1]):
            break
        around.append(os.path.dirname(around[-1]))
    for inner, outer in itertools.pairwise(around):
        name = os.path.basename(inner)
        if name in names and not os.path.exists(os.path.join(root, name)) and importlib.util.find_spec(name) is None:
            return outer
    folder = os.path.dirname(path)
    if not level or root != folder:
        return None
    for _ in range(level):
        folder = os.path.dirname(folder)
    has_project = around[-1] != os.path.dirname(around[-1])
    source = next((each for each in around if os.path.basename(each) == "src"), around[-1] if has_project else folder)
    return source if source != root else None


def _imports(path: str) -> tuple[set[str], int]:
    """First names of what a file imports, and how far up its relative imports reach; nothing where it is no Python."""
    try:
        with open(path, "rb") as file:
            nodes = list(ast.walk(ast.parse(file.read())))
    except SyntaxError:
        return set(), 0
    origins = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in origins if node.module and not node.level}
    return {name.split(".")[0] for name in names}, max((node.level for node in origins), default=0)


def is_patch_module(guarded: str) -> bool:
    """Whether Dynamo's name of a guard is about the globals of a module that was run as a patch."""
    names = (module.__name__.replace("_", "__").replace(".", "_dot_") for module in _MODULES.values())
    return guarded.startswith((f"G['__import_{MODULE}", *(f"G['__import_{name}'" for name in names)))


def _call_installer(module: types.ModuleType, installer: str) -> None:
    """Call `function`, or `package.module:function(arguments)`; arguments are literals."""
    owner, _, call = installer.rpartition(":")
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
    function(*arguments, **keywords)


def _run_file(path: str, name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"not a Python file: {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def faked_version(version: str) -> Iterator[None]:
    """Replace torch's version by `version` wherever a patch can read it."""
    real = importlib.metadata.version
    with (
        mock.patch.object(torch, "__version__", TorchVersion(version)),
        mock.patch.object(torch.version, "__version__", version),
        mock.patch.object(importlib.metadata, "version", lambda name: version if name == "torch" else real(name)),
    ):
        yield
