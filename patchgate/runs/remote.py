"""A share of a sweep, carried out on another machine: all that it needs comes with it, all that it found goes back.

Decides what travels, and how paths over there become ours. Refuses to know what carries it.
"""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from patchgate.runner.environments import Environments
from patchgate.runner.run import Limits
from patchgate.runs.history.store import History
from patchgate.runs.sweep import Done, Job, Sweep, material

_TEXTS = (".json",)
_STAYS = ("patches", "history.sqlite")


@dataclass(frozen=True, kw_only=True)
class Order:
    """One torch and the patches to judge on it; `patches` maps our name of each to its files.

    `python` is the row's interpreter here, used where it is there too; otherwise one is made.
    `home` is what our folder of results is called in what is found.
    """

    torch: str
    patches: Mapping[str, Mapping[str, bytes]]
    home: str
    material: list[str]
    devices: tuple[str, ...]
    python: str | None = None
    workloads: tuple[str, ...] = ()
    nightly: bool = False
    limits: Limits = field(default_factory=Limits)
    workers: int = 2


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """What was found: a zip of the sweep's folder, and the jobs done; `problem` where nothing could be begun."""

    content: bytes = b""
    done: tuple[Done, ...] = ()
    problem: str = ""


def files_at(path: Path) -> dict[str, bytes]:
    """What a patch is made of: a folder's files, or a file and its manifest. The first is what it goes by."""
    if path.is_dir():
        found = [each for each in sorted(path.rglob("*")) if each.is_file() and "__pycache__" not in each.parts]
        return {f"{path.name}/{each.relative_to(path).as_posix()}": each.read_bytes() for each in found}
    return {each.name: each.read_bytes() for each in (path, path.with_suffix(".toml")) if each.is_file()}


def carry_out(order: Order) -> Parcel:
    """What a worker does."""
    if material() != order.material:
        return Parcel(problem="the patchgate there is another than here, or has other workloads or golden files")
    with tempfile.TemporaryDirectory(prefix="patchgate-share-") as folder:
        home = Path(folder).resolve()
        places = {
            name: _write(home / "patches" / str(at), order.patches[name]) for at, name in enumerate(order.patches)
        }
        rows = {order.torch: order.python} if order.python and Path(order.python).is_file() else {}
        environments, history = Environments(rows), History(home / "history.sqlite")
        done: list[Done] = []
        sweep = Sweep(
            folder=home,
            environments=environments,
            history=history,
            tell=lambda line: None,
            devices=order.devices,
            workloads=order.workloads,
            nightly=order.nightly,
            limits=order.limits,
            workers=order.workers,
        )
        try:
            jobs = [Job(torch=order.torch, patch=place) for place in places.values()]
            done = [sweep.judged(job) for job in jobs]
        finally:
            environments.close()
            history.close()
        ours = {str(place): name for name, place in places.items()} | {str(home): order.home}
        return Parcel(content=_packed(home, ours), done=tuple(done))


def unpack(parcel: Parcel, folder: Path) -> None:
    """Put the results where ours are. Observations are kept by content: one that is there already is the same."""
    with zipfile.ZipFile(io.BytesIO(parcel.content)) as packed:
        packed.extractall(folder)


def _write(folder: Path, files: Mapping[str, bytes]) -> Path:
    """The patch over there: what all its files are below, or the first of them."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder / next(iter(files)).partition("/")[0]


def _packed(home: Path, ours: Mapping[str, str]) -> bytes:
    """Every result, with the paths over there under our names; the longest first, because some hold others."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as into:
        for path in sorted(home.rglob("*")):
            name = path.relative_to(home)
            if not path.is_file() or name.parts[0].startswith(_STAYS):
                continue
            content = path.read_bytes()
            if path.suffix in _TEXTS:
                for theirs in sorted(ours, key=len, reverse=True):
                    content = content.replace(theirs.encode(), ours[theirs].encode())
            into.writestr(name.as_posix(), content)
    return packed.getvalue()
