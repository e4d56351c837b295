"""Values of names from the project's other files, read when a name is used.

Those files get no findings.

A value that depends on nothing in torch is computed once for all releases. Any other is computed
again only for a release that answers one of its questions differently.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path

from patchgate.lint.index.release import Question, Release
from patchgate.lint.interpret.project_files import (
    OwnFiles,
    exports,
    file_of,
    imports_of,
    may_bring,
    statements_binding,
    submodule,
)
from patchgate.lint.interpret.state import State, execute_block
from patchgate.lint.interpret.values import (
    External,
    Instance,
    Known,
    LocalClass,
    LocalFunction,
    OwnFunction,
    OwnModule,
    OwnName,
    Scope,
    Symbol,
    Unknown,
    Value,
)

# Values that are the same whoever reads them.
_PLAIN = (Known, Unknown, External, Symbol, Instance)
# Names that are read for each other before one is given up; Python itself ends at a thousand calls.
_DEEPEST = 24
# A function of the patch is read for its value only where it is as small as version helpers are.
_MAX_INLINED_NODES = 120
# One that is smaller than this may return a constant; a longer one must speak of versions, checks
# or constants.
_PLAIN_NODES = 16
_TELLING = re.compile(
    r"(?i:version|torch|triton|hasattr|signature|spec)|^_?(is|has|supports?)_|^_?[A-Z][A-Z0-9_]+$"
)


def own_value(own: OwnName, state: State, *, called: bool = False) -> Value:
    """The value of a name of another file of the project; nothing of that file is noted.

    A function is read for its value only, and where it is `called` the call is what is asked. What
    says nothing of
    torch stays a name: its spelling may tell.
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
    """Ask questions on behalf of another file: nothing is noted for the file that is being read."""
    followed, questions = files.followed, release.questions
    files.followed, release.questions = set(), None
    try:
        yield
    finally:
        files.followed, release.questions = followed, questions


@contextmanager
def _recorded(release: Release) -> Iterator[set[Question]]:
    """The questions that are asked meanwhile; whoever records around it has asked them too."""
    around, release.questions = release.questions, set()
    try:
        yield release.questions
    finally:
        meanwhile, release.questions = release.questions or set(), around
        if around is not None:
            around |= meanwhile


def _followed(own: OwnName, files: OwnFiles, release: Release) -> Value:
    everywhere, key = (own.file, own.name, ""), (own.file, own.name, release.version)
    known = files.values.get(everywhere) or files.values.get(key)
    if known is None:
        name: Value = External(dotted=own.dotted)
        files.values[key] = name, frozenset()  # where a circle of imports ends
        with _recorded(release) as questions:
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
    """The value of a name at the top of a file; None if nothing there binds it."""
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
    with _recorded(release) as questions:
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
    """True if names of the project's other files stand for the same in both releases."""
    here, there = State(release=first, own=files), State(release=second, own=files)
    return all(_same(own_value(each, here), own_value(each, there)) for each in own)


def _same(first: Value, second: Value) -> bool:
    """Functions are the same where what they read of their own file is."""
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


@lru_cache(maxsize=4096)
def names_in(node: ast.AST) -> frozenset[str]:
    """The names in a piece of a patch; each release asks again."""
    return frozenset(each.id for each in ast.walk(node) if isinstance(each, ast.Name))


@lru_cache(maxsize=4096)
def may_tell(function: ast.AST) -> bool:
    """True if a function is as small as version helpers are, and returns what may come from one;
    asked often.
    """
    nodes = list(islice(ast.walk(function), _MAX_INLINED_NODES + 1))
    if len(nodes) > _MAX_INLINED_NODES or not any(
        isinstance(node, ast.Return) and node.value for node in nodes
    ):
        return False
    names = (getattr(node, "id", None) or getattr(node, "attr", None) or "" for node in nodes)
    return len(nodes) < _PLAIN_NODES or any(_TELLING.search(name) for name in names)
