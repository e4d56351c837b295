"""Device profiles: TOML files that describe a device to the probe.

docs/devices.md lists the keys of each kind of profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from patchgate.inputs.toml import load_toml_record
from patchgate.model.errors import UsageError
from patchgate.model.paths import DEVICES, display_path, leaves_project
from patchgate.model.records import FactValue, record
from patchgate.model.serialization import key, one_of
from patchgate.model.text import nearest

#: The device of a run on a real GPU; its observations are recorded under the name of its profile.
REAL = "cuda"
#: A key of a profile, and the prefix of its facts.
PADDING = "padding"
_NONE: Mapping[str, str] = {}


@record
class Profile:
    """The keys of a device profile."""

    name: str | None = None  #: the name by which the device calls itself
    kind: str | None = key(
        None, read=one_of(("simulated", "codegen", "real", "plugin"), "kind of device")
    )
    backend: str | None = None  #: torch's device type
    source: str | None = None  #: where the figures come from
    #: as `torch.cuda.get_device_properties` reports them on the device
    properties: dict[str, Any] | None = None
    #: the most thread blocks that one multiprocessor holds at a time
    blocks_per_multiprocessor: int | None = None
    #: matrix products that the device timed -> "padded" or "kept"
    padding: dict[str, str] | None = None
    isa: str | None = None  #: vector instruction set of the generated C++, as Inductor names it
    threads: int | None = None  #: threads of the generated C++
    #: a Python file that makes the device known to torch; its path is relative to the profile
    plugin: str | None = None


def device_names(own: Mapping[str, str] = _NONE) -> list[str]:
    """The sorted names of all profiles. `own` maps the names of the project's profiles to files."""
    return sorted({*own, *(path.stem for path in DEVICES.glob("*.toml"))})


def load_profile(name: str, own: Mapping[str, str] = _NONE) -> dict[str, Any]:
    """A device profile in the form that the probe takes.

    Raises UsageError if there is no such profile.
    """
    path = Path(own.get(name, DEVICES / f"{name}.toml"))
    if not path.is_file():
        raise UsageError(
            f"no device profile `{name}`",
            where=display_path(path.parent),
            got=name,
            next=nearest(name, device_names(own)),
        )
    at = path.stat()
    profile = deepcopy(
        _read_profile(path, at.st_mtime_ns, at.st_size)
    )  # callers may change their copy
    if "plugin" in profile:
        plugin = (path.parent / profile["plugin"]).resolve()
        if leaves_project(plugin, path.parent):  # a patch may read the folder around it
            raise UsageError(
                "outside of the project",
                where=display_path(path),
                got=str(plugin),
                next="a file in it",
            )
        profile["plugin"] = str(plugin)
    return profile


@cache
def _read_profile(path: Path, _changed_at: int, _size: int) -> dict[str, Any]:
    """The profile in a file; cached, because each case of a run asks for it."""
    return {
        key: value
        for key, value in asdict(load_toml_record(Profile, path)).items()
        if value is not None
    }


def profile_files(name: str, own: Mapping[str, str]) -> list[str]:
    """The file of one of a project's profiles, and the file of the plugin that makes its device
    known.
    """
    return [own[name], *filter(None, [load_profile(name, own).get("plugin")])]


def profile_of(device: str, *, otherwise: str, own: Mapping[str, str] = _NONE) -> str:
    """The name of the profile whose device calls itself `device`; `otherwise` if there is none."""
    profiles = {load_profile(name, own).get("name"): name for name in device_names(own)}
    return profiles.get(device, otherwise)


def padding_of(facts: Mapping[str, FactValue]) -> dict[str, str]:
    """The matrix products whose padding was timed, and the decision for each: "padded" or
    "kept".
    """
    prefix = f"{PADDING}."
    return {
        name.removeprefix(prefix): str(facts[name]) for name in facts if name.startswith(prefix)
    }
