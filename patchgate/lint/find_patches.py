"""Finds the patches at the given paths, and the releases on which each patch is judged.

In a folder, every file is looked at, but only files that use torch's compiler are judged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from patchgate.inputs.patch_source import DIFFS, read_lossy, source_and_manifest
from patchgate.inputs.torch_range import TorchRange, range_of_folder, torch_range
from patchgate.lint.findings import newer
from patchgate.lint.index.records import SCOPE
from patchgate.lint.index.release import Release
from patchgate.lint.interpret.project_files import imports_vendor, is_of_tests
from patchgate.lint.interpret.values import OwnFiles
from patchgate.lint.interpret.version_gates import HELPERS
from patchgate.model.paths import display_path, leaves_project
from patchgate.model.records import record
from patchgate.model.versions import in_order

_BELOW = {
    root: "|".join(each.split(".")[1] for each in SCOPE if each.startswith(f"{root}."))
    for root in ("torch", "triton")
}
# A file without any of these words has nothing that lint could judge.
_TOUCHES = re.compile(
    "|".join(
        [
            *(rf"\b{root}\.(?:{below})\b" for root, below in _BELOW.items()),
            *(
                rf"\bfrom {root} import[^\n]*(?:\(|\b(?:{below})\b)"
                for root, below in _BELOW.items()
            ),
            r"\bimport torch as\b|\btorch\.(?:version\.)?__version__",
            rf"\b(?:{'|'.join(HELPERS)})\(",
        ]
    )
)
_FROM_TORCH = re.compile(
    r"^\s*from (?:torch|triton)[\w.]* import (\([^)]*\)|[^\n]*)|^\s*import torch[\w.]+ as (\w+)",
    re.M,
)
_FROM = re.compile(r"^\s*from ([\w.]+) import (\([^)]*\)|[^\n]*)", re.M)
_NAME = re.compile(r"[A-Za-z_]\w*")
# `Owner.name = ...` and `setattr(Owner, "name", ...)`, anywhere in a file.
_SET = re.compile(r"""\b(\w+)\.(\w+)\s*=(?!=)|\bsetattr\(\s*(?:\w+\.)*(\w+),\s*["'](\w+)["']""")
# A folder with one of these is a package, or the root of a project.
_MARKS = ("__init__.py", ".git", "pyproject.toml", "setup.py", "setup.cfg", "patchgate.toml")
_DIFF_OF_TORCH = re.compile(r"^\+\+\+ (?:b/)?(?:torch|triton)/", re.M)
_SKIPPED = frozenset({"__pycache__", "node_modules"})


# At most this many ranges of folders below a project are shown.
_SHOWN = 3
# A range, the releases that it allows, and the known releases that are newer.
_Judged = tuple[TorchRange, Sequence[str], Sequence[str]]
# Keys that only the manifest of a patch has; other TOML files of a folder lack them.
_OF_A_MANIFEST = re.compile(r"^\s*(applies_to|targets|numerics|symptom|fixed_in)\s*=", re.M)


@record
class Place:
    """A file to judge, on the releases that its project supports."""

    file: Path
    releases: Sequence[Release]
    own: OwnFiles
    #: True if the project or the user states the releases.
    stated: bool = False
    #: True if the user, not the project, states the releases.
    asked: bool = False
    #: The other known releases.
    others: Sequence[Release] = ()
    #: The releases of `others` that are newer than all of `releases`; empty if `asked`.
    ahead: Sequence[Release] = ()
    #: The `applies_to` of the manifest next to the file.
    claimed: SpecifierSet | None = None
    #: True if the file was found in a folder, not named by the user.
    walked: bool = False

    @property
    def name(self) -> str:
        return display_path(self.file)


@dataclass(kw_only=True)
class Walk:
    """The files at some paths.

    `files` counts all files that were looked at; `ranges` are the projects' own ranges, in words.
    """

    places: list[Place] = field(default_factory=list)
    files: int = 0
    ranges: list[str] = field(default_factory=list)

    @property
    def versions(self) -> list[str]:
        """Each release on which something is judged."""
        return in_order(release.version for place in self.places for release in place.releases)


def walk(
    paths: Iterable[Path], releases: Sequence[Release], *, whole: bool = False, since: str = ""
) -> Walk:
    """Return every patch at `paths` with the releases that its project supports. `whole` takes all
    releases instead; `since` leaves out older releases.

    Raises UsageError for a path that does not exist.
    """
    result = Walk()
    for path in paths:
        alone, below = patch_files(path)
        files, own = [*alone, *below], OwnFiles()
        ranges = _Ranges(path=path.resolve(), releases=releases, whole=whole, since=since)
        result.files += len(files)
        texts = {each: read_lossy(each) for each in files}
        if below:
            own.set_in = _set_in(texts)
            own.extended_by_vendor = any(map(imports_vendor, texts.values()))
        for file in [*alone, *(each for each in _touching(texts) if each not in alone)]:
            walked = file not in alone
            allowed, judged, later = ranges.of(file.parent if walked else None)
            place = Place(
                file=file,
                releases=[each for each in releases if each.version in judged],
                others=[each for each in releases if each.version not in judged],
                ahead=[each for each in releases if each.version in later],
                stated=whole or bool(allowed.specifiers),
                asked=whole,
                own=own,
                claimed=None if whole else _claimed(file, walked),
                walked=walked,
            )
            result.places.append(place)
        result.ranges += [each for each in ranges.stated() if each not in result.ranges]
    return result


@dataclass(kw_only=True)
class _Ranges:
    """The releases that the project at a path supports. A subfolder that states a range of its own
    is judged on the releases that both ranges allow; if there are none, on those of its own range.
    """

    path: Path
    releases: Sequence[Release]
    whole: bool
    since: str
    _known: dict[Path | None, _Judged] = field(default_factory=dict)

    def of(self, folder: Path | None) -> _Judged:
        """The range for the files of a folder; None stands for the project's own folder."""
        if folder is not None:
            here = folder.resolve()
            folder = here if self.path in here.parents and not self.whole else None
        if folder not in self._known:
            self._known[folder] = self._judged(folder)
        return self._known[folder]

    def _judged(self, folder: Path | None) -> _Judged:
        if folder is None:
            allowed = TorchRange() if self.whole else torch_range(self.path)
            return self._releases(allowed, ())
        own, above = range_of_folder(folder), self.of(folder.parent)
        return self._releases(own, above[1]) if own.specifiers else above

    def _releases(self, allowed: TorchRange, within: Sequence[str]) -> _Judged:
        known = [each.version for each in self.releases]
        judged = allowed.of(known, {each.version: each.triton for each in self.releases})
        judged = [each for each in judged if not self.since or Version(each) >= Version(self.since)]
        judged = [each for each in judged if each in within] or judged
        return allowed, judged, [] if self.whole else newer(known, judged)

    def stated(self) -> Iterator[str]:
        """Yield the range of the project, and some ranges of its subfolders, in words."""
        self.of(None)
        texts = {folder: str(allowed) for folder, (allowed, _, _) in self._known.items()}
        below = dict.fromkeys(text for folder, text in texts.items() if folder is not None)
        yield from filter(None, dict.fromkeys((texts[None], *list(below)[:_SHOWN])))


def patch_files(path: Path) -> tuple[list[Path], list[Path]]:
    """The patches at `path`, and the other files below it.

    The patches are the file itself, or the patch.py and patch.diff of a folder. The other files are
    all other Python files and diffs below the folder; a folder that holds only a patch has none.
    """
    if not path.is_dir():
        return [source_and_manifest(path)[0]], []
    alone = [path / f"patch{suffix}" for suffix in (".py", *DIFFS)]
    alone = [file for file in alone if file.is_file()]
    if alone and not any((path / mark).exists() for mark in _MARKS):
        return alone, []
    return alone, sorted({*_files_below(path)} - {*alone})


def _files_below(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        here = Path(where)
        folders[:] = [
            each
            for each in folders
            if not each.startswith(".")
            and each not in _SKIPPED
            and not (here / each / "pyvenv.cfg").exists()
        ]
        for path in (here / name for name in names if name.endswith((".py", *DIFFS))):
            # Skip pipes, links out of the project, and broken links, which some editors leave next
            # to an open file.
            if path.is_file() and not (path.is_symlink() and leaves_project(path, folder)):
                yield path


def _set_in(texts: Mapping[Path, str]) -> dict[str, set[Path]]:
    """Map `Owner.name` to the project's files that set it, except tests, which restore it."""
    found: dict[str, set[Path]] = {}
    for file in (each for each in texts if each.suffix == ".py" and not is_of_tests(each)):
        for owner, name, holder, text in _SET.findall(texts[file]):
            if owner not in ("self", "cls"):
                found.setdefault(f"{owner or holder}.{name or text}", set()).add(file.resolve())
    return found


def _touching(texts: Mapping[Path, str]) -> list[Path]:
    """The files that use torch's compiler, and files that import torch's names from such files."""
    touching = {file for file, text in texts.items() if _touches(text, diff=file.suffix in DIFFS)}
    names = {
        file: _NAME.findall(" ".join(map(" ".join, _FROM_TORCH.findall(texts[file]))))
        for file in touching
    }
    by_module: dict[str, set[str]] = {}
    for file, brought in names.items():
        by_module.setdefault(
            file.parent.name if file.stem == "__init__" else file.stem, set()
        ).update(brought)
    for file, text in texts.items():
        if file not in touching and file.suffix == ".py":
            for module, brought in _FROM.findall(text):
                if by_module.get(module.rpartition(".")[2], set()).intersection(
                    _NAME.findall(brought)
                ):
                    touching.add(file)
                    break
    return [file for file in texts if file in touching]


def _touches(text: str, *, diff: bool) -> bool:
    if diff:
        return bool(_DIFF_OF_TORCH.search(text))
    return bool(_TOUCHES.search(text)) or ("torch.compile" in text and "options" in text)


def _claimed(file: Path, walked: bool) -> SpecifierSet | None:
    """Read `applies_to` of the manifest next to a patch. If the patch was found in a folder, the
    TOML file next to it may be something other than a manifest.
    """
    manifest = file.with_suffix(".toml")
    if not manifest.is_file() or (walked and not _OF_A_MANIFEST.search(read_lossy(manifest))):
        return None
    from patchgate.inputs.patch import (
        load_claims,
    )  # imported only for a manifest: the import takes a tenth of a second

    claims = load_claims(manifest)
    return SpecifierSet(claims.applies_to) if claims.applies_to else None
