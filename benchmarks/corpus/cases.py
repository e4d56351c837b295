"""A folder with `corpus.toml` beside its patch -> a case with the verdicts that it must get: code,
releases, line.

A new case is a folder, and no code.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.corpus.checks import LINT, cell_names, needs_workload
from patchgate.checks.framework.find_checks import every_code
from patchgate.inputs.patch import load_patch
from patchgate.inputs.patch_source import read_lossy
from patchgate.inputs.toml import load_toml_record
from patchgate.lint.rules import CODES
from patchgate.model.errors import UsageError
from patchgate.model.paths import display_path
from patchgate.model.serialization import Invalid, KeyPath, key, list_of, one_of, read_string
from patchgate.model.versions import parse_range

NAME = "corpus.toml"
_STATIC = {known.code for known in CODES}
# Lint judges every release of the API index, the gate the rows.
GATE = "gate"
# A case may need these things that `corpus --gpu` has.
A_GPU = "a GPU"
# Parts of a sandbox, as `confinement` of a sentinel names them.
SANDBOX = ("mount", "pid", "ipc", "net", "landlock", "reads")
SOUND, HOSTILE, FAULT, UNCHANGED = "sound", "hostile", "fault", "unchanged"
KINDS = (
    SOUND,
    "gate",
    "attribute",
    "signature",
    "dead-patch",
    "binding",
    "numerics",
    "kernels/traffic",
    "latency",
    "compile-time",
    "recompile/graph-break",
    "cache-key",
    "import-effect",
    "config-leak",
    "hook",
    "interaction",
    HOSTILE,
    FAULT,
    UNCHANGED,
)
_FORM = '[[expect]] code = "PG113", torch = "2.13.0..2.15.0", at = "text of the line"'


def _read_cell(value: Any) -> str:
    name, _, about = str(value).partition(" ")
    one_of(cell_names(), "cell")(name)
    if needs_workload(name) and not about:
        raise Invalid(
            f"cell `{name}` without a workload", got=str(value), next=f'"{name} pointwise.cpu"'
        )
    return str(value)


def _read_range(value: Any) -> str:
    try:
        parse_range(read_string(value))
    except ValueError:
        raise Invalid("not a range of releases", next='torch = "2.13.0..2.15.0"') from None
    return str(value)


def _read_codes(value: Any) -> tuple[str, ...]:
    codes = tuple(value) if isinstance(value, list) else (value,)
    for code in codes:
        if code not in every_code():
            raise Invalid(f"no such code `{code}`", next="patchgate explain   (lists all)")
    return codes


@dataclass(frozen=True, kw_only=True)
class Expected:
    """One verdict that a case must get."""

    #: the code that must be red; one of several that say the same in other words
    codes: tuple[str, ...] = key(name="code", read=_read_codes, example=_FORM)
    #: the releases on which it must be, as a range; all when None
    torch: str | None = key(None, read=_read_range)
    #: file:line that the verdict must name; anywhere when None. The file has the text of that line.
    place: str | None = key(None, name="at")
    #: A part of `check item fact` that the verdict must be about: `parity decoder.cpu greedy
    #: tokens`.
    about: str | None = key(None, example='about = "graph prenorm_mlp.cpu dynamo.graph_breaks"')

    def covers(self, torch: str) -> bool:
        return self.torch is None or torch in parse_range(self.torch)

    @property
    def tool(self) -> str:
        """The tool that must see it: the gate, if one of the codes is its own."""
        return GATE if any(tool_of(code) == GATE for code in self.codes) else LINT


@dataclass(frozen=True, kw_only=True)
class CorpusCase:
    """One folder."""

    id: str = key("", name=None)
    folder: str = key("", name=None)
    #: one of KINDS
    kind: str = key(
        name="class", read=one_of(KINDS, "class"), example=f"one of: {', '.join(KINDS)}"
    )
    #: Cells of the gate that judge the case, as benchmarks/corpus/checks.py names them.
    cells: tuple[str, ...] = key(("lint", "api", "effects"), read=list_of(_read_cell))
    expected: tuple[Expected, ...] = key((), name="expect", example=_FORM)
    needs: str = ""  #: what is missing here to judge it
    others: tuple[str, ...] = key((), name="with")  #: folders of patches that are applied with it
    #: Parts of the sandbox that stop a hostile patch, one of which is enough: namespaces,
    #: "landlock", "reads".
    stopped_by: tuple[str, ...] = key(
        (),
        read=list_of(one_of(SANDBOX, "part of a sandbox")),
        example='stopped_by = ["pid", "landlock"]',
    )
    seconds: float = 60.0  #: time limit of a question to the probe
    #: Why it comes out wrong as yet: it is scored as it comes out, and fails no run.
    known: str = ""

    @property
    def sound(self) -> bool:
        return self.kind in (SOUND, UNCHANGED)


def load_cases(folders: list[Path]) -> list[CorpusCase]:
    """Every case of `folders`: each is a case, or holds some.

    Raises UsageError for the first thing that is wrong.
    """
    found = {folder: sorted([*folder.glob(NAME), *folder.glob(f"*/{NAME}")]) for folder in folders}
    for folder, files in found.items():
        if not files:
            advice = (
                f'a folder for each case, with patch.py and {NAME}: class = "...", then {_FORM}'
            )
            raise UsageError(
                "no case",
                where=display_path(folder),
                got=f"no {NAME} in it or one folder below",
                next=advice,
            )
    return [load_case(path.parent) for files in found.values() for path in files]


def with_gpu(case: CorpusCase) -> CorpusCase:
    """The case on a machine that has a GPU: when it needs nothing else it can be judged."""
    return replace(case, needs="") if case.needs == A_GPU else case


def with_sandbox(case: CorpusCase, parts: Collection[str]) -> CorpusCase:
    """The case on a machine whose sandbox has only these parts: what none of them stops is not
    judged.
    """
    missing = case.stopped_by and not set(case.stopped_by) & set(parts)
    return (
        replace(case, needs=f"a sandbox with {' or '.join(case.stopped_by)}") if missing else case
    )


def load_case(folder: Path) -> CorpusCase:
    """The case of `folder`. Raises UsageError with file:line for the first thing that is wrong."""

    def check(case: CorpusCase) -> None:
        # A hostile patch may come to nothing: that everything else goes on is what it is for.
        if case.sound is bool(case.expected) and not case.needs and case.kind != HOSTILE:
            got = f"class = {case.kind!r} with {len(case.expected)} expected codes"
            raise Invalid("a sound case expects nothing, any other something", got=got, next=_FORM)
        for index, expected in enumerate(case.expected):
            if expected.place:
                _place(folder, expected.place, ("expect", index, "at"))

    case = load_toml_record(CorpusCase, folder / NAME, check)
    others = tuple(str((folder / other).resolve()) for other in case.others)
    for path in (folder, *map(Path, others)):
        load_patch(path)  # what is wrong with it is said before anything runs
    return replace(
        case,
        id=folder.name,
        folder=str(folder.resolve()),
        expected=tuple(
            replace(e, place=_place(folder, e.place) if e.place else None) for e in case.expected
        ),
        others=others,
    )


def _place(folder: Path, text: str, path: KeyPath = ()) -> str:
    """file:line of the one line below `folder` that holds `text`.

    Raises Invalid at `path` for none or several.
    """
    found = [
        f"{display_path(file)}:{number}"
        for file in filter(Path.is_file, sorted(folder.glob("patch.*")))
        for number, line in enumerate(read_lossy(file).splitlines(), 1)
        if text in line
    ]
    if len(found) != 1:
        raise Invalid(
            "`at` must be text of exactly one line", path=path, next=f"found {len(found)}: {found}"
        )
    return found[0]


def tool_of(code: str) -> str:
    """Return the tool that has this code."""
    return LINT if code in _STATIC else GATE
