"""Runs a patch as in a new interpreter, where only `import torch` has loaded parts of torch.
Finds the names that it does not replace there, and the environment variables without effect.

A patch must not depend on modules that its importer has loaded before, as the fork server has. A
variable has no effect if nothing reads it, or if it was read before it was set.
"""

from __future__ import annotations

import ast
import difflib
import mmap
import os
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from patchgate.probe.patch.load import faked_version, place_of, run_patch
from patchgate.probe.patch.module_name import top_level
from patchgate.probe.patch.snapshot import CHANGEABLE, Changes, changes, resolve, take_snapshot
from patchgate.probe.patch.torch_imports import torch_imports_added_to
from patchgate.probe.protocol import Effect, RunAnew, RunAnewResult, Stage
from patchgate.probe.simulate.fake_device import described_device
from patchgate.probe.simulate.needs_device import missing_answer

# The folders of torch's own code, and Triton's.
_OWN_CODE = tuple(
    str(Path(torch.__file__).parents[1] / name) + os.sep for name in ("torch", "triton")
)
# A variable of torch's or Triton's starts with one of these.
_PREFIXES = ("TORCH", "PYTORCH", "TRITON", "INDUCTOR", "AOT")
# The least likeness to a known name at which a name counts as misspelt: for names without such a
# prefix, and with one.
_OTHERWISE_ALIKE, _ALIKE = 0.85, 0.6
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_QUOTED = re.compile(rb"[\"']([A-Z][A-Z0-9]*_[A-Z0-9_]+)[\"']")
_ENVIRONMENT = re.compile(rb"environ|getenv|env_")
# Names of methods and functions that only write a variable.
_WRITERS = {"setdefault", "putenv", "setenv", "unsetenv", "delenv", "pop"}


def run_in_new_interpreter(request: RunAnew, stage: Stage) -> RunAnewResult:
    """The requested names that the patch does not replace here, and the variables that it sets
    without effect.
    """
    stage("new interpreter")
    # Variable -> the modules of torch and Triton that were loaded when it was first set.
    loaded: dict[str, set[str]] = {}
    is_running = True

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if is_running and event == "os.putenv":
            names = {name for name in sys.modules if top_level(name) in ("torch", "triton")}
            loaded.setdefault(os.fsdecode(arguments[0]), names)

    before = take_snapshot()
    with (
        described_device(request["profile"]),
        faked_version(request["version"]),
        torch_imports_added_to(before),
    ):
        environment = dict(os.environ)
        sys.addaudithook(audit)
        try:
            run_patch(request["patch"], request)
        except BaseException as error:  # the patch may raise anything, SystemExit included
            needed = missing_answer(error)
            if not needed:
                raise
            return {"unmeasured": needed}
        is_running = False
        later = [name for name in request["holders"] if not _is_loaded(name)]
        # Import the modules of the names: a patch may change a module on its import.
        for name in request["names"]:
            with suppress(LookupError):
                resolve(name.partition("[")[0].rpartition(".")[0])
        changed = changes(before, take_snapshot())
    written = {name for name in os.environ if os.environ[name] != environment.get(name)}
    dead = []
    for name in sorted({*written, *request["variables"]}):
        known = loaded.get(name) if name in written else None
        reason = _why_without_effect(name, known, request["patch"])
        if reason:
            what = f"{'set' if name in written else 'claimed'}: {reason}"
            dead.append(
                Effect(kind="environment", name=name, older=[], what=what, line=None, old="")
            )
    missing = [name for name in request["names"] if not _is_replaced(name, changed)]
    return {"missing": missing, "dead": dead, "later": later}


def _is_loaded(name: str) -> bool:
    """True if the module, class or table that has the name is loaded."""
    owner = name.partition("[")[0] if name.endswith("]") else name.rpartition(".")[0]
    parts, below = owner.split("."), list[str]()
    while parts and ".".join(parts) not in sys.modules:
        below.insert(0, parts.pop())
    value: Any = sys.modules.get(".".join(parts))
    for part in below:
        value = getattr(value, part, None)
    return value is not None


def _is_replaced(name: str, changed: Changes) -> bool:
    """True if the name is changed, or if its module was loaded later and imported the object from a
    place where the patch had put it.

    If nothing had loaded the module before, no snapshot knows its original; then code from outside
    of torch counts as a replacement.
    """
    if name in changed:
        return True
    in_modules = name.startswith("sys.modules[")
    try:
        value = sys.modules[name[len("sys.modules[") : -1]] if in_modules else resolve(name)
    except LookupError:
        return False
    if isinstance(value, ModuleType):
        return top_level(value.__name__) not in CHANGEABLE
    function = getattr(value, "__func__", value)
    file = getattr(getattr(function, "__code__", None), "co_filename", "")
    if file.startswith("/") and not file.startswith(_OWN_CODE):
        return True
    # Equal constants are one object, wherever they are.
    is_constant = isinstance(value, (bool, int, float, str, bytes, type(None)))
    return not is_constant and any(value is now for _, now in changed.values())


def _why_without_effect(name: str, loaded: Collection[str] | None, patch: str) -> str | None:
    """The reason why setting the variable has no effect; None if it may have one.

    `loaded` names the modules that were loaded when the patch set it; None if it is only claimed.
    """
    files = ((path, source) for path, source in _sources() if name.encode() in source)
    places = {path: _strings(ast.parse(source), name) for path, source in files}
    readers = {path: around for path, around in places.items() if around}
    if not readers:
        return None if _in_libraries(name) or _read_elsewhere(name, patch) else _unknown(name)
    if loaded is None:
        return None
    loaded_now = list(sys.modules.items())
    modules = {str(getattr(module, "__file__", "")): dotted for dotted, module in loaded_now}
    early = []
    for path, around in readers.items():
        module = modules.get(str(path), "")
        if module not in loaded:
            return None
        if any(_is_read_later(place, sys.modules.get(module)) for place in around):
            return None
        early.append(module)
    return f"read only when {', '.join(sorted(early)[:3])} is imported, which was before"


def _unknown(name: str) -> str | None:
    """The message on an environment variable that nothing reads, if its name starts like torch's
    and Triton's variables or resembles one of them; None for any other name.
    """
    is_torchs = name.startswith(_PREFIXES)
    # Names in capitals in quotes, in files that read the environment.
    texts = (source for _, source in _sources() if _ENVIRONMENT.search(source))
    known = {found.decode() for text in texts for found in _QUOTED.findall(text)}
    cutoff = _ALIKE if is_torchs else _OTHERWISE_ALIKE
    near = difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
    if not is_torchs and not near:
        return None
    nearest = f"; the nearest that is read is {near[0]}" if near else ""
    return f"nothing in torch {torch.__version__}, Triton or the project reads it{nearest}"


@cache
def _sources() -> list[tuple[Path, bytes]]:
    """The Python files of torch and Triton."""
    files = [path for folder in _folders() for path in sorted(folder.rglob("*.py"))]
    return [(path, path.read_bytes()) for path in files]


def _folders() -> Iterator[Path]:
    yield Path(torch.__file__).parent
    for path in sys.path:
        if Path(path, "triton", "__init__.py").is_file():
            yield Path(path, "triton")
            return


def _strings(tree: ast.AST, text: str) -> list[tuple[ast.AST, ...]]:
    """For each place of the string `text`, the nodes around it, the innermost first."""
    places: list[tuple[ast.AST, ...]] = []
    todo: list[tuple[ast.AST, ...]] = [(tree,)]
    while todo:
        around = todo.pop()
        if isinstance(around[0], ast.Constant) and around[0].value == text:
            places.append(around[1:])
        todo += [(child, *around) for child in ast.iter_child_nodes(around[0])]
    return places


def _is_read_later(around: tuple[ast.AST, ...], module: ModuleType | None) -> bool:
    """True if code may read the variable once its module is imported: in a function, in a
    descriptor that reads it at each access, or through a name or a table that holds it.
    """
    if any(isinstance(node, _FUNCTIONS) or _makes_descriptor(node, module) for node in around):
        return True
    for node in around:
        if isinstance(node, (ast.Call, ast.Compare, ast.Subscript)):
            return False
        if isinstance(node, ast.stmt):
            return isinstance(node, (ast.Assign, ast.AnnAssign))
    return False


def _makes_descriptor(node: ast.AST, module: ModuleType | None) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    made = getattr(module, node.func.id, None)
    return isinstance(made, type) and hasattr(made, "__get__")


def _in_libraries(name: str) -> bool:
    for path in (path for folder in _folders() for path in folder.rglob("*.so*")):
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            if text.find(name.encode()) >= 0:
                return True
    return False


def _read_elsewhere(name: str, patch: str) -> bool:
    """True if the patch, its package, or another package that is loaded reads the variable."""
    dotted, root = place_of(patch, {})
    package = top_level(dotted) if dotted else ""
    own = Path(root, package).rglob("*.py") if dotted else [Path(patch)]
    if any(_reads(path, name) for path in own if path.is_file()):
        return True
    others = set(map(top_level, sys.modules)) - {"torch", "triton", "patchgate", package}
    for top in others - set(sys.stdlib_module_names):
        file = getattr(sys.modules.get(top), "__file__", None) or ""
        if file.endswith("__init__.py"):
            files = filter(Path.is_file, Path(file).parent.rglob("*.py"))
            if any(name.encode() in text for text in map(Path.read_bytes, files)):
                return True
    return False


def _reads(path: Path, name: str) -> bool:
    source = path.read_bytes()
    try:
        places = _strings(ast.parse(source), name) if name.encode() in source else []
    except SyntaxError:
        return True
    return not all(map(_is_written, places))


def _is_written(around: tuple[ast.AST, ...]) -> bool:
    """True if the code around the string only sets or removes the variable."""
    nearest = around[0]
    if isinstance(nearest, ast.Subscript):
        return not isinstance(nearest.ctx, ast.Load)
    if isinstance(nearest, ast.Call):
        called = ast.unparse(nearest.func).rpartition(".")[2]
        return called in _WRITERS and isinstance(around[1], ast.Expr)
    calls = (node for node in around if isinstance(node, ast.Call))
    updates = any(ast.unparse(call.func).endswith(".update") for call in calls)
    return isinstance(nearest, ast.Dict) and updates
