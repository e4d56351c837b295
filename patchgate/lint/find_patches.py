"""Find the patches at some paths, each with the releases on which it is judged.

In a folder every file is looked at, and only a file that uses torch's compiler is judged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from patchgate.inputs.patch_source import DIFFS, read_lossy, source_and_manifest
from patchgate.inputs.torch_range import TorchRange, torch_range
from patchgate.lint.findings import newer
from patchgate.lint.index.records import SCOPE
from patchgate.lint.index.release import Release
from patchgate.lint.interpret.project_files import is_of_tests
from patchgate.lint.interpret.values import OwnFiles
from patchgate.lint.interpret.version_gates import HELPERS
from patchgate.model.paths import display_path, leaves_project
from patchgate.model.records import record
from patchgate.model.versions import in_order

_BELOW = {
    root: "|".join(each.split(".")[1] for each in SCOPE if each.startswith(f"{root}."))
    for root in ("torch", "triton")
}
# A file without any of these says nothing that lint could judge.
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
# `Owner.name = ...` and `setattr(Owner, "name", ...)`, wherever they stand.
_SET = re.compile(r"""\b(\w+)\.(\w+)\s*=(?!=)|\bsetattr\(\s*(?:\w+\.)*(\w+),\s*["'](\w+)["']""")
_DIFF_OF_TORCH = re.compile(r"^\+\+\+ (?:b/)?(?:torch|triton)/", re.M)
_SKIPPED = frozenset({"__pycache__", "node_modules"})


# Words that only a manifest of a patch has, where a folder's other tables lie beside its files.
_OF_A_MANIFEST = re.compile(r"^\s*(applies_to|targets|numerics|symptom|fixed_in)\s*=", re.M)


@record
class Place:
    """A file to judge, on the releases that its project supports."""

    file: Path
    releases: Sequence[Release]
    own: OwnFiles
    #: Somebody says which releases these are: the project, or whoever asks.
    stated: bool = False
    #: True if the user asked for it.
    asked: bool = False
    #: Known releases that its project does not support.
    others: Sequence[Release] = ()
    #: The newer ones of these, if nobody has asked for certain releases.
    ahead: Sequence[Release] = ()
    #: The specifier of its manifest.
    claimed: SpecifierSet | None = None
    #: It was come upon in a folder, and not asked for by itself.
    walked: bool = False

    @property
    def name(self) -> str:
        return display_path(self.file)


@dataclass(kw_only=True)
class Walk:
    """The files at some paths.

    `files` counts all that were looked at; `ranges` are the projects' own ranges, in words.
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
    """Return every patch at `paths` with the releases that its project supports; all releases if
    `whole`, and none older than `since`.

    Raises UsageError for a path that does not exist.
    """
    result = Walk()
    known = [each.version for each in releases]
    for path in paths:
        files, own = patch_files(path), OwnFiles()
        allowed = TorchRange() if whole else torch_range(path)
        judged = allowed.of(known, {each.version: each.triton for each in releases})
        judged = [each for each in judged if not since or Version(each) >= Version(since)]
        later = [] if whole else newer(known, judged)
        if str(allowed) not in ("", *result.ranges):
            result.ranges.append(str(allowed))
        result.files += len(files)
        walked = path.is_dir() and files[:1] != _patches_in(path)[:1]
        if walked:
            own.set_in = _set_in(files)
        for file in _touching(files) if walked else files:
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
    return result


def patch_files(path: Path) -> list[Path]:
    """The patches at `path`: itself, a folder's patch.py or patch.diff, or every Python file and
    diff below it.
    """
    if not path.is_dir():
        return [source_and_manifest(path)[0]]
    return _patches_in(path) or sorted(_files_below(path))


def _patches_in(folder: Path) -> list[Path]:
    return [file for suffix in (".py", *DIFFS) if (file := folder / f"patch{suffix}").is_file()]


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
            # No pipe, no link to nowhere, as some editors leave beside a file that is open, and
            # none to a stranger's.
            if path.is_file() and not (path.is_symlink() and leaves_project(path, folder)):
                yield path


def _set_in(files: Sequence[Path]) -> dict[str, set[Path]]:
    """Map `Owner.name` to the files of the project that set it; tests restore such names."""
    found: dict[str, set[Path]] = {}
    for file in (each for each in files if not is_of_tests(each)):
        for owner, name, holder, text in (
            _SET.findall(read_lossy(file)) if file.suffix == ".py" else ()
        ):
            if owner not in ("self", "cls"):
                found.setdefault(f"{owner or holder}.{name or text}", set()).add(file.resolve())
    return found


def _touching(files: Sequence[Path]) -> list[Path]:
    """The files that use torch's compiler, and the files that import its names from them."""
    texts = {file: read_lossy(file) for file in files}
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
    return [file for file in files if file in touching]


def _touches(text: str, *, diff: bool) -> bool:
    if diff:
        return bool(_DIFF_OF_TORCH.search(text))
    return bool(_TOUCHES.search(text)) or ("torch.compile" in text and "options" in text)


def _claimed(file: Path, walked: bool) -> SpecifierSet | None:
    """Read the claims of the manifest beside a patch; the folder may have other tables."""
    manifest = file.with_suffix(".toml")
    if not manifest.is_file() or (walked and not _OF_A_MANIFEST.search(read_lossy(manifest))):
        return None
    from patchgate.inputs.patch import (
        load_claims,
    )  # only for who has one: it takes a tenth of a second

    claims = load_claims(manifest)
    return SpecifierSet(claims.applies_to) if claims.applies_to else None
