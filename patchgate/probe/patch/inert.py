"""Shows that running a patch does nothing: each statement that runs only imports, defines, compares or reads a version.

What is not known to be harmless counts as an effect. A copy of the file is run in which a stop stands in place of each
such statement: nothing that a patch could use against the judge has run when the answer is there.
"""

from __future__ import annotations

import ast
import secrets
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from patchgate.probe.patch.harmless_statements import Names


class Doubts:
    """The first statement in doubt that a run of a file comes to; `text` says which, as `line 12: calls f`."""

    def __init__(self, path: str, stop: Callable[[str], NoReturn], installers: Sequence[str] = ()) -> None:
        """`stop` is called in place of the statement; `installers` are called afterwards."""
        self._path, self._stop, self._installers = path, stop, installers
        # As Python reads it: a comment may name another encoding.
        self._tree = ast.parse(Path(path).read_bytes())
        self._met: dict[int, str] = {}

    @property
    def text(self) -> str:
        """What was met, even where `stop` could not be called, at the limit of recursion; empty for nothing."""
        return next(iter(self._met.values()), "")

    def run(self, module: types.ModuleType) -> None:
        """Run the file as `module`, up to its first statement in doubt."""
        name = f"_{secrets.token_hex(8)}"
        tree = ast.fix_missing_locations(_Stopped(self._tree, name).visit(self._tree))
        vars(module).update({name: self._met, f"{name}_": lambda: self._stop(self.text)})
        exec(compile(tree, self._path, "exec", dont_inherit=True), vars(module))
        for call in self._installers:
            function = vars(module).get(call.partition("(")[0])
            if not isinstance(function, types.FunctionType) or function.__code__.co_filename != self._path:
                self._stop(f"{call}: no function of the file")


class _Stopped(ast.NodeTransformer):
    """Puts a stop in place of each statement that may have an effect."""

    def __init__(self, tree: ast.Module, name: str) -> None:
        self._name, names = name, Names(tree)
        self._doubts: dict[ast.AST, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.stmt):
                parts = (node, *getattr(node, "handlers", ()))
                self._doubts[node] = next((what for part in parts for what in names.doubts(part)), "")

    def visit(self, node: ast.AST) -> Any:
        what = self._doubts.get(node)
        if not (what and isinstance(node, ast.stmt)):
            return self.generic_visit(node)
        # To store an item takes no call, so that it cannot fail where recursion is at its limit.
        line = node.lineno
        return ast.parse(f"{self._name}[{line}] = {f'line {line}: {what}'!r}\n{self._name}_()").body
