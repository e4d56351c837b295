"""Resolve names from the other files of a patch's project: find the file that an import refers to,
the statements that bind the name in that file, and the value of the name.

Files are found by path, and nothing is run. Only statements that bind a wanted name are parsed,
because imports may reach a thousand files when a check needs three lines of one file. A value is
computed again only for a release that gives a different answer to a question that the value needs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import islice, pairwise
from os.path import exists, isdir, isfile, islink  # pathlib raises if a name is too long
from pathlib import Path

from patchgate.inputs.patch_source import Unreadable, nodes_in, parse, read_lossy, read_source
from patchgate.lint.index.read_module import DEFINITIONS, flat
from patchgate.lint.index.release import Release
from patchgate.lint.interpret.state import State, execute_block
from patchgate.lint.interpret.values import (
    External,
    Instance,
    Known,
    LocalClass,
    LocalFunction,
    OwnFiles,
    OwnFunction,
    OwnModule,
    OwnName,
    Scope,
    Symbol,
    Unknown,
    Value,
)
from patchgate.model.errors import UsageError
from patchgate.model.paths import leaves_project
from patchgate.model.records import record

# A file without these words has nothing to do with torch.
_MATTERS = re.compile(r"torch|triton|[Vv]ersion")
# The number of folders, from a file's own upwards, that are searched for an absolute import.
_DEPTH = 8
# The texts and statements of this many files are cached.
_FILES = 8192
# A function with more than _LINES lines is not read for its value. Only texts with more than _LONG
# characters are searched for such functions.
_LONG, _LINES = 20_000, 200
# Comments and string literals. Only triple-quoted literals extend over several lines.
_OPAQUE = re.compile(
    r'#[^\n]*|"""(?:[^"\\]+|\\.|"(?!""))*"""|\'\'\'(?:[^\'\\]+|\\.|\'(?!\'\'))*\'\'\''
    r'|"(?:[^"\\\n]+|\\.)*"|\'(?:[^\'\\\n]+|\\.)*\'',
    re.S,
)
# The first character of a top-level statement, or of one of its decorators.
_START = re.compile(r"^(?!(?:else|elif|except|finally)\b)[^\s#)\]}]", re.M)
_DEFINED = re.compile(r"^(?:class|def|async +def)\s+(\w+)", re.M)
_OWN_TRITON = re.compile(r"^\s*url\s*=.*/triton(\.git)?/?\s*$", re.M)
# Files of tests, by their names and by the folders just above them.
_OF_TESTS = re.compile(r"(test_.*|.*_test|conftest)\.py")
# Packages that add names to torch itself when they are imported.
OF_VENDORS = re.compile(
    r"torch_(br|gcu|mlu|musa|neuronx?|npu|sdaa|xla)|habana_frameworks|intel_extension_for_pytorch"
)
_IMPORTS_VENDOR = re.compile(rf"^[ \t]*(?:import|from) (?:{OF_VENDORS.pattern})\b", re.M)
_TESTS = frozenset({"test", "tests"})
_ABOVE = 5
# Values that hold no scope: releases that give the same answers may share them.
_PLAIN = (Known, Unknown, External, Symbol, Instance)
# The maximum depth of nested reads of names; Python allows a thousand nested calls.
_DEEPEST = 24
# A function of the patch is read for its value only if it is as small as version helpers are.
_MAX_INLINED_NODES = 120
# A function smaller than this may be read even if it only returns a constant; a larger one must
# name versions, checks or constants.
_PLAIN_NODES = 16
_TELLING = re.compile(
    r"(?i:version|torch|triton|hasattr|signature|spec)|^_?(is|has|supports?)_|^_?[A-Z][A-Z0-9_]+$"
)


@record
class OwnImport:
    """`from module import name` at the top of a file; `level` counts the leading dots."""

    module: str
    level: int
    name: str


def is_of_tests(file: Path) -> bool:
    return _OF_TESTS.fullmatch(file.name) is not None or bool(_TESTS & {*file.parts[-_ABOVE:]})


@lru_cache(maxsize=4096)
def brings_triton(folder: Path) -> bool:
    """True if the repository of a folder is triton, or has triton as a submodule."""
    if (folder / "python" / "triton" / "language").is_dir():
        return True
    modules = folder / ".gitmodules"
    if modules.is_file():
        return _OWN_TRITON.search(read_lossy(modules)) is not None
    ends = (folder / ".git").exists() or folder.parent == folder
    return not ends and brings_triton(folder.parent)


def submodule(file: Path, name: str) -> Path | None:
    """The file of the submodule `name`, if `file` is the `__init__.py` of a package."""
    return _module_below(file.parent, name) if file.name == "__init__.py" else None


def statements_binding(file: Path, name: str) -> list[ast.stmt]:
    """The top-level statements of a file that bind a name; empty if the file does not concern
    torch.
    """
    if name.encode() not in _data(file):
        return []
    top = _top_of(file)
    return top.binding(name) if top.matters else []


@lru_cache(maxsize=1 << 16)
def file_of(module: str, level: int, importer: Path) -> Path | None:
    """The file that `from ..module import` in `importer` refers to; None if it is outside the
    project.
    """
    if level:
        folder = importer.parent
        for _ in range(level - 1):
            folder = folder.parent
        return _module_below(folder, module)
    return _absolute(importer.parent, module)


@lru_cache(maxsize=8192)
def _absolute(folder: Path, module: str) -> Path | None:
    first = module.partition(".")[0]
    for above in (folder, *folder.parents)[:_DEPTH]:
        # A folder on Python's path is no package itself.
        if not exists(above / "__init__.py") and (
            isdir(above / first) or isfile(above / f"{first}.py")
        ):
            return _module_below(above, module)
    return None


@lru_cache(maxsize=8192)
def _module_below(folder: Path, module: str) -> Path | None:
    path = folder.joinpath(*module.split(".")) if module else folder
    for file in (path / "__init__.py", path.with_name(f"{path.name}.py")):
        if isfile(file) and not (islink(file) and leaves_project(file, file.parent)):
            return file
    return None


@dataclass(eq=False)
class _Chunk:
    """One or a few top-level statements of a file, parsed on first use."""

    start: int
    text: str

    @cached_property
    def body(self) -> list[ast.stmt]:
        statements = parse(self.text).body
        # The bodies of long functions are dropped: generated code would fill the memory.
        for statement in statements if len(self.text) > _LONG else ():
            members = statement.body if isinstance(statement, ast.ClassDef) else ()
            for node in (statement, *members):
                is_function = isinstance(node, ast.FunctionDef)
                if is_function and (node.end_lineno or 0) - node.lineno > _LINES:
                    node.body = [ast.copy_location(ast.Pass(), node)]
        return statements

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that the statements bind, and the dictionaries that they fill."""
        return frozenset(name for statement in self.body for name in _bound(statement))


class _Top:
    """The top level of a file."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._binding: dict[str, list[ast.stmt]] = {}
        #: True if the text contains a word that concerns torch.
        self.matters = _MATTERS.search(text) is not None

    @cached_property
    def _chunks(self) -> tuple[dict[str, list[_Chunk]], list[_Chunk]]:
        """The chunks of classes and functions by name, and the chunks of all other statements."""
        inside = [each.span() for each in _OPAQUE.finditer(self._text) if "\n" in each[0]]
        starts, decorated = [], False
        for each in _START.finditer(self._text):
            while inside and inside[0][1] <= each.start():
                inside.pop(0)
            if inside and inside[0][0] < each.start():
                continue
            if not decorated:
                starts.append(each.start())
            decorated = each[0] == "@"
        defined: dict[str, list[_Chunk]] = {}
        others: list[_Chunk] = []
        for start, stop in pairwise([*starts, len(self._text)]):
            chunk = _Chunk(start, self._text[start:stop])
            name = (
                _DEFINED.search(chunk.text)
                if chunk.text.startswith(("@", "class", "def", "async"))
                else None
            )
            (defined.setdefault(name[1], []) if name else others).append(chunk)
        return defined, others

    def binding(self, name: str) -> list[ast.stmt]:
        """The statements that bind a name, in order; an import is reduced to the part that binds
        the name.
        """
        if name not in self._binding:
            try:
                found = self._bind(name)
            except Unreadable:  # some lines only look like statements
                found = [each for each in self._whole if name in _bound(each)]
            self._binding[name] = [_only(each, name) for each in found]
        return self._binding[name]

    def _bind(self, name: str) -> list[ast.stmt]:
        defined, others = self._chunks
        word = re.compile(rf"\b{re.escape(name)}\b")
        found = [
            each
            for each in others
            if name in each.text and word.search(each.text) and name in each.names
        ]
        chunks = sorted([*found, *defined.get(name, ())], key=lambda each: each.start)
        return [
            statement for chunk in chunks for statement in chunk.body if name in _bound(statement)
        ]

    def importing(self, name: str) -> list[ast.ImportFrom]:
        """The top-level `from` imports in chunks that contain the name."""
        text = "import *" if name == "*" else name
        try:
            found = [
                each.body for each in self._chunks[1] if text in each.text and "import" in each.text
            ]
        except Unreadable:
            found = [self._whole]
        statements = (each for body in found for each, _ in flat(body))
        return [each for each in statements if isinstance(each, ast.ImportFrom)]

    @cached_property
    def _whole(self) -> list[ast.stmt]:
        try:
            return parse(self._text).body
        except Unreadable:
            return []


def _only(statement: ast.stmt, name: str) -> ast.stmt:
    """The statement; an import is reduced to the part that binds the name."""
    if not isinstance(statement, (ast.Import, ast.ImportFrom)):
        return statement
    names = [
        each for each in statement.names if name == (each.asname or each.name.partition(".")[0])
    ]
    if isinstance(statement, ast.Import):
        return ast.copy_location(ast.Import(names=names), statement)
    return ast.copy_location(
        ast.ImportFrom(module=statement.module, names=names, level=statement.level), statement
    )


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement binds and the dictionaries that it fills, outside functions."""
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        if isinstance(node, (*DEFINITIONS, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (each.asname or each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                yield node.id
        else:
            match node:
                case ast.Subscript(value=ast.Name(id=table), ctx=ast.Store()):
                    yield table
                case ast.Call(func=ast.Attribute(value=ast.Name(id=table), attr="update")):
                    yield table
            # An `except` handler or a `match` pattern binds one of these names.
            name = getattr(node, "name", None) or getattr(node, "rest", None)
            if isinstance(name, str):
                yield name
            todo.extend(ast.iter_child_nodes(node))


@lru_cache(maxsize=_FILES)
def _top_of(file: Path) -> _Top:
    try:
        return _Top(read_source(file))
    except (Unreadable, UsageError):
        return _Top("")


@lru_cache(maxsize=_FILES)
def _data(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


@lru_cache(maxsize=1 << 16)
def may_bring(file: Path, name: str) -> bool:
    """True if a file or one that it star-imports contains `name` or has a submodule `name`."""
    todo, seen, word = [file], {file}, name.encode()
    while todo:
        here = todo.pop()
        data = _data(here)
        if word in data or submodule(here, name) is not None:
            return True
        for each in imports_of(here, "*") if b"import *" in data else ():
            starred = file_of(each.module, each.level, here)
            if starred is not None and starred not in seen:
                seen.add(starred)
                todo.append(starred)
    return False


@lru_cache(maxsize=1 << 16)
def imports_of(file: Path, name: str) -> tuple[OwnImport, ...]:
    """The top-level imports of a file that bind `name`; if there are none, its star imports."""
    if b"import" not in _data(file):
        return ()
    found = [
        OwnImport(module=node.module or "", level=node.level, name=alias.name)
        for node in _top_of(file).importing(name)
        for alias in node.names
        if (alias.asname or alias.name) == name
    ]
    return tuple(found) if found or name == "*" else imports_of(file, "*")


@lru_cache(maxsize=1 << 16)
def exports(file: Path, name: str) -> bool:
    """False if the file's `__all__` keeps the name from `import *`."""
    if b"__all__" not in _data(file):
        return True
    listed = _top_of(file).binding("__all__")
    literal = all(
        isinstance(each, (ast.Assign, ast.AnnAssign))
        and isinstance(each.value, (ast.List, ast.Tuple))
        for each in listed
    )
    return not (listed and literal) or repr(name) in " ".join(map(ast.unparse, listed))


def own_value(own: OwnName, state: State, *, called: bool = False) -> Value:
    """The value of a name in another file of the project; nothing in that file is noted.

    The name counts as followed, except for a `called` function: its call is tracked instead. A name
    that has nothing to do with torch stays a name, because its spelling may say enough.
    """
    files, release = state.own, state.release
    if files is None:
        return External(dotted=own.dotted)
    if files.unfinished:
        return _followed(own, files, release)
    with apart(files, release):
        value = _followed(own, files, release)
    if not (called and isinstance(value, OwnFunction)):
        files.followed.add(own)
    return value


@contextmanager
def apart(files: OwnFiles, release: Release) -> Iterator[None]:
    """Record nothing for the file that is being read, while questions concern another file."""
    followed, questions = files.followed, release.questions
    files.followed, release.questions = set(), None
    try:
        yield
    finally:
        files.followed, release.questions = followed, questions


def _followed(own: OwnName, files: OwnFiles, release: Release) -> Value:
    everywhere, key = (own.file, own.name, ""), (own.file, own.name, release.version)
    known = files.values.get(everywhere) or files.values.get(key)
    if known is None:
        name: Value = External(dotted=own.dotted)
        files.values[key] = name, frozenset()  # the value at the end of a circle of imports
        with release.recorded() as questions:
            value = _own_value(own, files, release) if len(files.unfinished) < _DEEPEST else name
        known = value, frozenset(questions)
        files.values[key if questions or not isinstance(value, _PLAIN) else everywhere] = known
    value, depends_on = known
    if release.questions is not None:
        release.questions |= depends_on
    return value


def _own_value(own: OwnName, files: OwnFiles, release: Release) -> Value:
    statements = statements_binding(own.file, own.name)
    value = None
    is_class = bool(statements) and all(isinstance(each, ast.ClassDef) for each in statements)
    if not is_class:
        value = value_at_top(own.name, own.file, files, release)
        if isinstance(value, LocalFunction):
            return OwnFunction(function=value, own=own)
        if isinstance(value, OwnName):
            return _followed(value, files, release)
        if value is not None and not isinstance(value, LocalClass):
            return value
    for each in imports_of(own.file, own.name) if value is None and not is_class else ():
        file = file_of(each.module, each.level, own.file)
        name = own.name if each.name == "*" else each.name
        if file is not None and (
            each.name != "*" or (exports(file, name) and may_bring(file, name))
        ):
            found = _followed(OwnName(file=file, name=name, dotted=own.dotted), files, release)
            if found != External(dotted=own.dotted):
                return found
    below = submodule(own.file, own.name)
    return (
        OwnModule(file=below, dotted=own.dotted)
        if below is not None
        else External(dotted=own.dotted)
    )


def value_at_top(name: str, file: Path, files: OwnFiles, release: Release) -> Value | None:
    """The value of a name at the top of a file; None if no statement there binds it."""
    statements = statements_binding(file, name)
    if not statements or (file, name) in files.unfinished:
        return None
    readings = files.readings.setdefault((file, name), [])
    for first, value, depends_on in readings:
        if first is release or (
            isinstance(value, _PLAIN) and first.answers_as(release, depends_on)
        ):
            if release.questions is not None:
                release.questions |= depends_on
            return value
    scope = Scope(file=file, outside=partial(value_at_top, file=file, files=files, release=release))
    last = statements[-1]
    with release.recorded() as questions:
        if len(statements) == 1 and isinstance(last, ast.FunctionDef):
            value = LocalFunction(node=last, scope=scope)
        else:
            files.unfinished.append((file, name))
            try:
                execute_block(
                    statements, State(release=release, own=files, scope=scope, postponed=True)
                )
            finally:
                files.unfinished.pop()
            value = scope.names.get(name)
    readings.append((release, value, frozenset(questions)))
    return value


def same_own_values(
    own: Iterable[OwnName], files: OwnFiles, first: Release, second: Release
) -> bool:
    """True if names of the project's other files have the same values in both releases."""
    here, there = State(release=first, own=files), State(release=second, own=files)
    return all(_same(own_value(each, here), own_value(each, there)) for each in own)


def _same(first: Value, second: Value) -> bool:
    """True if two values are the same. Functions are the same if the values that they read from
    their own file are the same.
    """
    if not isinstance(first, OwnFunction) or not isinstance(second, OwnFunction):
        return first == second
    if first.function.node is not second.function.node:
        return False
    todo, seen = [first.function.node], set[ast.AST]()
    while todo:
        node = todo.pop()
        seen.add(node)
        for name in (
            names_in(node)
            if may_tell(node)
            else names_in(getattr(node, "returns", None) or ast.Pass())
        ):
            value = second.function.scope.lookup(name)
            if isinstance(value, LocalFunction) and value.node not in seen:
                todo.append(value.node)
            elif isinstance(value, _PLAIN) and value != first.function.scope.lookup(name):
                return False
    return True


def imports_vendor(text: str) -> bool:
    """True if a file imports a vendor's package, which adds names to torch for all files."""
    return _IMPORTS_VENDOR.search(text) is not None


@lru_cache(maxsize=4096)
def names_in(node: ast.AST) -> frozenset[str]:
    """The names in a node, cached because each release needs them again."""
    return frozenset(each.id for each in nodes_in(node, ast.Name))


@lru_cache(maxsize=4096)
def may_tell(function: ast.AST) -> bool:
    """True if a function is as small as version helpers are, and may return a version check or a
    constant. Cached, because it is called often.
    """
    nodes = list(islice(ast.walk(function), _MAX_INLINED_NODES + 1))
    if len(nodes) > _MAX_INLINED_NODES or not any(
        isinstance(node, ast.Return) and node.value for node in nodes
    ):
        return False
    names = (getattr(node, "id", None) or getattr(node, "attr", None) or "" for node in nodes)
    return len(nodes) < _PLAIN_NODES or any(_TELLING.search(name) for name in names)
