"""Device profiles: TOML files that describe a device to the probe (docs/devices.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from patchgate.inputs.toml import read_toml
from patchgate.model.errors import UsageError
from patchgate.model.paths import DEVICES, shown


def load_profile(name: str, folder: Path = DEVICES) -> dict[str, Any]:
    """A device profile as data. Raises UsageError naming the profiles that there are."""
    path = folder / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in folder.glob("*.toml")))
        raise UsageError(f"no device profile `{name}`", where=shown(folder), got=name, next=f"one of: {known}")
    profile = read_toml(path)
    if "plugin" in profile:  # named as seen from the profile
        profile["plugin"] = str((folder / profile["plugin"]).resolve())
    return profile


def profile_of(device: str, *, otherwise: str, folder: Path = DEVICES) -> str:
    """The profile that describes the device called `device`; `otherwise` where none does."""
    named = {read_toml(path).get("name"): path.stem for path in sorted(folder.glob("*.toml"))}
    return named.get(device, otherwise)
