"""Finds the file of a patch, and reads its text and its syntax tree as Python itself does.

A byte order mark or a coding line decides the encoding; otherwise it is UTF-8.
"""

from __future__ import annotations

import ast
import functools
import io
import os
import shlex
import sys
import tokenize
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from patchgate.model.errors import UsageError
from patchgate.model.files import read_regular, refuse_outer_link
from patchgate.model.paths import display_path
from patchgate.model.syntax_tree import nodes_of
from patchgate.model.text import did_you_mean

DIFFS = (".diff", ".patch")
_FOLDER = "patchgate lint reads all of a folder; `patches` in a table names some"
_FORM = "give a folder that holds patch.py or patch.diff (and patch.toml), or a .py or .diff file"
# An import of these modules changes nothing in torch.
_NO_PATCHES = {"torch", "triton", *sys.stdlib_module_names}
# A larger file is not taken for a patch.
_BYTES = 16 << 20


Node = TypeVar("Node", bound=ast.AST)


class Unreadable(Exception):
    """A file that Python refuses, with the line and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        self.line, self.reason = line, reason
        super().__init__(reason)

    def in_file(self, path: Path) -> UsageError:
        """The error for the user, with the name of the file."""
        return UsageError(
            "not readable as Python",
            where=f"{display_path(path)}:{self.line}",
            got=self.reason,
            next="correct the file first",
        )


def source_and_manifest(path: Path) -> tuple[Path, Path]:
    """The source of the patch at `path`, and the place of its manifest, which need not exist.

    Raises UsageError if there is no patch.
    """
    if not os.path.exists(path):  # `path.exists()` may raise for a name of 5,000 characters
        near = path.parent.iterdir() if os.path.isdir(path.parent) else ()
        siblings = {each.name for each in near}
        is_link = os.path.islink(path)
        raise UsageError(
            "no such patch",
            where=str(path) if is_link else display_path(path),
            got=f"a link to {path.readlink()}, which is not there"
            if is_link
            else "nothing at that path",
            next=did_you_mean(path.name, siblings - {path.name}, str(path)[: -len(path.name)])
            or _FORM,
        )
    source = next(
        (path / name for name in ("patch.py", "patch.diff") if (path / name).is_file()), path
    )
    refuse_outer_link(source)
    if not source.is_file() or source.suffix not in (".py", *DIFFS):
        got = (
            f"a file with the suffix {source.suffix!r}"
            if source.is_file()
            else "neither a file nor a folder"
        )
        raise UsageError(
            "not a patch",
            where=display_path(path),
            got="a folder without patch.py or patch.diff" if path.is_dir() else got,
            next=f"{_FOLDER}; or {_FORM}" if path.is_dir() else _FORM,
        )
    return source, source.parent / "patch.toml" if path.is_dir() else source.with_suffix(".toml")


def refuse_empty(source: Path) -> None:
    """Raise UsageError for a file that cannot change torch: an empty file, or a file with nothing
    except comments, texts and imports of torch and the standard library.
    """
    try:
        text = read_source(source)
        if text.strip() and source.suffix in DIFFS:
            return
        if not is_idle(text):
            return
    except Unreadable:  # a verdict says so
        return
    path = display_path(source)
    raise UsageError(
        "no patch: nothing in this file changes torch",
        where=path,
        got="only comments, texts and imports" if text.strip() else "an empty file",
        next=f"write the patch there, then: patchgate gate {shlex.quote(path)}",
    )


def is_idle(text: str) -> bool:
    """True if a Python file has no statement that could change torch. Raises Unreadable."""
    return all(map(_is_idle, parse(text).body))


def _is_idle(node: ast.stmt) -> bool:
    """True for `pass`, for a text or another constant, and for an import of modules that cannot be
    patches.
    """
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom):
        names = ["." * node.level + (node.module or "")]
    found = {name.partition(".")[0] for name in names}
    return isinstance(node, ast.Pass) or (bool(found) and found <= _NO_PATCHES)


def read_source(path: Path) -> str:
    """The text of a patch; a diff is read as UTF-8.

    Raises Unreadable if Python refuses the text, and UsageError if there is no file.
    """
    data = _bytes(path)
    if path.suffix != ".py":
        return _universal(data.decode("utf-8", errors="replace"))
    try:
        return _universal(data.decode(_encoding(data)))
    except UnicodeDecodeError as error:
        raise Unreadable(data.count(b"\n", 0, error.start) + 1, str(error)) from None
    except (LookupError, ValueError) as error:  # a codec not for text, such as `rot13`
        raise Unreadable(1, str(error)) from None


def read_lossy(path: Path) -> str:
    """The text of a patch to show or to compare; bytes that cannot be decoded are replaced."""
    try:
        return read_source(path)
    except Unreadable:
        return _universal(_bytes(path).decode("utf-8", errors="replace"))


def parse(source: str) -> ast.Module:
    """The syntax tree. Raises Unreadable, with the line, for everything that Python refuses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except SyntaxError as error:
        raise Unreadable(error.lineno or 1, error.msg) from None
    except (RecursionError, MemoryError):
        raise Unreadable(1, "nested too deeply") from None
    except (ValueError, UnicodeError) as error:
        raise Unreadable(1, str(error)) from None


def nodes_in(tree: ast.AST, kind: type[Node]) -> Iterator[Node]:
    """The nodes of one type in a tree."""
    return (node for node in nodes_of(tree) if isinstance(node, kind))


def mentioned_operators(tree: ast.Module) -> list[str]:
    """The names of operators that a source writes, calls or quotes in a text: functions of torch
    (`torch.nn.functional.dropout`) and of the module `operator`, and names that may be methods of
    tensors (`torch.Tensor.view`).

    The names are only hints on where to look.
    """
    known = _imported(tree)
    nodes = sorted(nodes_in(tree, ast.expr), key=lambda node: (node.lineno, node.col_offset))
    written = [_dotted(node, known) for node in nodes]
    texts = [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    called = [
        node.func.attr
        for node in nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and not _dotted(node.func, known)
    ]
    methods = [f"torch.Tensor.{name}" for name in (*texts, *called) if name.isidentifier()]
    return list(dict.fromkeys(name for name in (*written, *methods) if "." in name))


@functools.lru_cache(maxsize=64)
def line_of_change(source: str) -> int:
    """The number of the first line that assigns to something of torch. If no line does, the first
    line that calls a function of torch as a statement or as a decorator; otherwise 1.
    """
    try:
        tree = parse(source)
        known = _imported(tree)
        written, called = list[int](), list[int]()
        for node in ast.walk(tree):
            written += [each.lineno for each in _written_to(node) if _dotted(_owner(each), known)]
            called += [each.lineno for each in _called_alone(node) if _dotted(each, known)]
    except (Unreadable, RecursionError):
        return 1
    return min(written or called, default=1)


def _written_to(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the target of `a.b = f` or `a.b[key] = f`, or the `a` of `setattr(a, "b", f)`."""
    if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
        yield node
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr" and node.args:
        yield node.args[0]


def _called_alone(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the function `f` of a statement `f(op)(g)`, or of a decorator `@f(op)`."""
    calls: list[ast.expr] = getattr(node, "decorator_list", [])
    for each in [node.value] if isinstance(node, ast.Expr) else calls:
        called = each
        while isinstance(called, ast.Call):
            called = called.func
        if called is not each:
            yield called


def _owner(node: ast.expr) -> ast.expr:
    """The name or attribute without its subscripts: `a.b` for `a.b[key]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def _imported(tree: ast.Module) -> dict[str, str]:
    """Map each imported name to the full name in torch or `operator` that it stands for."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            pairs = [(a.asname or a.name.partition(".")[0], a) for a in node.names]
            known |= {name: a.name if a.asname else name for name, a in pairs}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            known |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            dotted = _dotted(node.value, known)
            known |= {node.targets[0].id: dotted} if dotted else {}
    return {
        name: dotted
        for name, dotted in known.items()
        if dotted.partition(".")[0] in ("torch", "operator")
    }


def _dotted(node: ast.AST, known: Mapping[str, str]) -> str:
    """The full name, `torch.ops.aten.add` for `aten.add`; empty if the first name is not
    imported.
    """
    if isinstance(node, ast.Name):
        return known.get(node.id, "")
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value, known)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def _bytes(path: Path) -> bytes:
    refuse_outer_link(path)
    try:
        return read_regular(path, _BYTES)
    except OSError as error:
        raise UsageError(
            "cannot be read",
            where=display_path(path),
            got=error.strerror or str(error),
            next="make it a file that you may read, or name others",
        ) from None


def _encoding(data: bytes) -> str:
    try:
        return tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    except SyntaxError as error:
        data.decode("utf-8")  # says which byte it is, if that is the reason
        raise Unreadable(1, str(error)) from None


def _universal(text: str) -> str:
    return io.StringIO(text, newline=None).read()
