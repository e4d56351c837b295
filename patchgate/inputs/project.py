"""The project around a patch: the table `[tool.patchgate]` of its pyproject.toml, or its
patchgate.toml.

Each key has a default, so a folder without a table is a project too. docs/project.md shows all
keys.
"""

from __future__ import annotations

import re
from dataclasses import replace
from glob import has_magic
from pathlib import Path, PurePath
from typing import Any

from patchgate.inputs.patch_source import DIFFS
from patchgate.inputs.toml import (
    OWN_FILE,
    PYPROJECT,
    folders_around,
    line_of,
    load_toml_record,
    table_around,
)
from patchgate.model.budgets import BUDGETS
from patchgate.model.errors import UsageError
from patchgate.model.paths import DEVICES, display_path, leaves_project, split_entry
from patchgate.model.records import Budget, record
from patchgate.model.serialization import (
    Invalid,
    key,
    list_of,
    read_requirement,
    read_specifier,
    read_string,
    read_version,
)
from patchgate.model.versions import full_release

_TABLE = ("tool", "patchgate")
# Limits of a path in the table, and of each name in the path; no file system has longer names.
_PATH_BYTES, _NAME_BYTES = 2048, 255
_RELEASES = 'releases = ["2.11.0", "2.12.1"]'
_DEVICES = ("h200", "cpu")
# The default folder's name is no valid name of a package, because setuptools refuses a project
# with two folders that may be packages.
_GOLDEN, _OLD_GOLDEN = "patchgate-golden", "patchgate/golden"
# Files at the root of a project without a table.
_MARKS = (".git", PYPROJECT, "setup.py", "setup.cfg")


def _read_path(value: Any) -> str:
    path = PurePath(read_string(value))
    if path.is_absolute() or ".." in path.parts or not value or "\0" in value:
        raise Invalid("not a path below the folder of the table")
    if len(str(path).encode()) > _PATH_BYTES or any(
        len(part.encode()) > _NAME_BYTES for part in path.parts
    ):
        raise Invalid("longer than any path")
    return path.as_posix()


def _read_label(value: Any) -> str:
    """Read a label. It must be one line, because pipelines write it among other lines."""
    if not re.fullmatch(r"[\w.:/=-]+( [\w.:/=-]+)*|", read_string(value), re.ASCII):
        raise Invalid("not a label of machines: letters, digits, blanks and . : / = _ - alone")
    return str(value)


@record
class Project:
    """The settings that all patches of a project share. Paths are relative to `root`."""

    root: str = key(".", name=None)  #: the folder of the table
    table: str | None = key(None, name=None)  #: the file that has the table
    #: torch releases to judge on; when empty, the pre-merge releases
    releases: tuple[str, ...] = key(
        (), read=list_of(lambda value: full_release(read_version(value))), example=_RELEASES
    )
    #: PEP 440 specifier of the torch that the project supports; when empty, any torch
    torch_range: str = key("", read=read_specifier, example='torch_range = ">=2.9"')
    #: files and folders, or patterns for their names
    patches: tuple[str, ...] = key(
        (), read=list_of(_read_path), example='patches = ["my_package/torch_patches/*.py"]'
    )
    #: the project's own files or folders of workloads, and names to choose from patchgate's
    workloads: tuple[str, ...] = key(
        (), read=list_of(_read_path), example='workloads = ["tests/workloads"]'
    )
    #: folder of the facts that are accepted
    golden: str = key("", read=_read_path, example=f'golden = "{_GOLDEN}"')
    #: names of profiles, or the project's own profile files; when empty, h200 and cpu
    devices: tuple[str, ...] = key(
        (),
        read=list_of(_read_path),
        example='devices = ["h200", "cpu", "tests/npu.toml"]',
    )
    budgets: dict[str, Budget] = key(dict, **BUDGETS)  #: of patches whose manifests state none
    #: public models that are judged too: names of patchgate's models, or the project's own files
    models: tuple[str, ...] = key(
        (), read=list_of(_read_path), example='models = ["llama-3-8b", "tests/own.toml"]'
    )
    #: packages that are installed in addition to torch, in pip's syntax
    requires: tuple[str, ...] = key(
        (), read=list_of(read_requirement), example='requires = ["transformers>=4.50"]'
    )
    #: folder of a package that is installed in addition to torch, with its dependencies
    install: str = key("", read=_read_path, example='install = "."')
    #: folders to import from
    path: tuple[str, ...] = key((), read=list_of(_read_path), example='path = ["src"]')
    #: label of the pipeline's machines with a GPU; when empty, there are none
    gpu_runner: str = key("", read=_read_label, example='gpu_runner = "gpu"')

    def at(self, name: str) -> Path:
        """The path of a file or folder of the project."""
        return Path(self.root, name)

    def _inside(self, key: str, name: str) -> Path:
        """The same path as `at`.

        Raises UsageError if links lead out of the project, because a patch may read the path and
        `accept` may write it.
        """
        path = self.at(name)
        if leaves_project(path, Path(self.root)):
            raise self.fault(
                key, "outside of the project", str(path.resolve()), "a path without links out of it"
            )
        return path

    @property
    def judged_devices(self) -> tuple[str, ...]:
        """The names of the devices that a patch is judged on."""
        return tuple(map(_name_of_device, self.devices)) or _DEVICES

    @property
    def profiles(self) -> dict[str, str]:
        """The project's own device profiles: name -> file."""
        own = [name for name in self.devices if name.endswith(".toml")]
        return {_name_of_device(name): str(self._inside("devices", name)) for name in own}

    @property
    def golden_folder(self) -> Path:
        """The folder of golden files; by default, the first existing folder of two names."""
        there = (name for name in (_GOLDEN, _OLD_GOLDEN) if self.at(name).is_dir())
        return self._inside("golden", self.golden or next(there, _GOLDEN))

    @property
    def import_path(self) -> tuple[str, ...]:
        """The absolute folders to import from."""
        return tuple(str(self._inside("path", name)) for name in self.path)

    def check_profiles(self) -> None:
        """Raise UsageError for a profile file that does not exist, and for a profile file with the
        name of a device of patchgate: a result would not show which of the two devices it is for.
        """
        for name, path in self.profiles.items():
            if name == "cuda" or (DEVICES / f"{name}.toml").is_file():
                raise self.fault(
                    "devices",
                    f"patchgate has a device `{name}`",
                    display_path(path),
                    "rename the file",
                )
            if not Path(path).is_file():
                raise self.fault(
                    "devices",
                    "no such device profile",
                    display_path(path),
                    "a path of a device profile, relative to the table (patchgate explain devices)",
                )

    def own_workloads(self) -> list[Path]:
        """The project's own files of workloads, and its folders of such files.

        Raises UsageError for a file or folder that does not exist.
        """
        own = (name for name in self.workloads if "/" in name or name.endswith(".py"))
        paths = [self._inside("workloads", name) for name in own]
        for path in paths:
            if not path.exists():
                raise self.fault(
                    "workloads",
                    "no such file or folder",
                    display_path(path),
                    (
                        "a file or a folder of the project, or the name of a workload that comes "
                        "with patchgate"
                    ),
                )
        return paths

    @property
    def chosen_workloads(self) -> tuple[str, ...]:
        """The workloads of patchgate that the project names. If there are any, no other workloads
        of patchgate are judged.
        """
        return tuple(
            name for name in self.workloads if "/" not in name and not name.endswith(".py")
        )

    def where(self, key: str) -> str:
        """file:line of a key, for a message."""
        if self.table is None:
            return display_path(self.root)
        table, text = Path(self.table), Path(self.table).read_text(encoding="utf-8")
        return f"{display_path(table)}:{line_of(text, table_keys(table, key))}"

    def fault(self, key: str, what: str, got: str, next: object) -> UsageError:
        """An error that names the line of `key`."""
        return UsageError(what, where=self.where(key), got=got, next=next)

    def patch_paths(self) -> list[Path]:
        """The files that `patches` names, each once.

        Raises UsageError for an entry that names nothing.
        """
        found: dict[Path, None] = {}
        for entry in self.patches:
            is_pattern = has_magic(entry) and "::" not in entry
            try:
                paths = (
                    sorted(filter(_may_be_patch, Path(self.root).glob(entry)))
                    if is_pattern
                    else [self.at(entry)]
                )
            except ValueError as error:
                raise self.fault("patches", "not a pattern", entry, str(error)) from None
            if not paths or not split_entry(paths[0])[0].exists():
                raise self.fault(
                    "patches",
                    "no such patch",
                    entry,
                    f"a path or a pattern below {display_path(self.root)}",
                )
            found |= {self._inside("patches", str(path)): None for path in paths}
        for path in found:
            if "\n" in str(path):  # a pipeline passes one path on each line
                raise self.fault(
                    "patches",
                    "a line feed in a path",
                    display_path(path),
                    "call the file otherwise",
                )
        return list(found)


def _may_be_patch(path: Path) -> bool:
    """True if a path that matches a pattern may be a patch. An empty `__init__.py` or a README is
    no patch.
    """
    if path.name == "__init__.py":
        return bool(path.read_bytes().strip())
    return path.is_dir() or path.suffix in (".py", *DIFFS)


def _name_of_device(name: str) -> str:
    return PurePath(name).stem if name.endswith(".toml") else name


def project_around(place: Path) -> Project:
    """The project around `place`; if no folder around it has a table, the project of the working
    directory.
    """
    return find_project(place, Path.cwd())


def find_project(*places: Path) -> Project:
    """The project of the first place that has a table around it. If no place has one, the project
    around the first place, without a table.
    """
    for place in places:
        table = table_around(place)
        if table is not None:
            return _load(table)
    around = list(folders_around(places[0]))
    root = next(filter(is_root, around), around[0])
    return Project(root=str(root))


def is_root(folder: Path) -> bool:
    """True if the contents of a folder show that it is the root of a project."""
    return any((folder / mark).exists() for mark in _MARKS)


def _load(table: Path) -> Project:
    project = load_toml_record(Project, table, below=table_keys(table))
    return replace(project, root=str(table.parent), table=str(table))


def table_keys(table: Path, *keys: str) -> tuple[str, ...]:
    """The path, in its file, of a key of the project's table."""
    return keys if table.name == OWN_FILE else (*_TABLE, *keys)
