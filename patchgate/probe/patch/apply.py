"""Applies a patch to the torch of this process, and answers what that changed.

Whether a change is a fault is for the host to judge.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Any, NoReturn, cast

from patchgate.probe.patch import effects, holders, line_coverage
from patchgate.probe.patch.beyond_snapshots import held_by_torch, recording_calls
from patchgate.probe.patch.live_api import covered_names
from patchgate.probe.patch.load import (
    AGAIN,
    MODULE,
    AppliedPatch,
    blamed_module,
    faked_version,
    import_packages,
    import_patch,
    place_of,
    run_patch,
)
from patchgate.probe.patch.module_name import what_calls_again, what_runs_again
from patchgate.probe.patch.offers import offers
from patchgate.probe.patch.snapshot import (
    Snapshot,
    changes,
    defined_operators,
    identity,
    reaches,
    saved_after_replacing,
    take_snapshot,
    wrapped_twice,
)
from patchgate.probe.patch.stubs import uses
from patchgate.probe.patch.torch_imports import torch_imports_added_to
from patchgate.probe.process.reply import exception_failure, exit_failure, write_reply
from patchgate.probe.process.sandbox import use_folder
from patchgate.probe.protocol import (
    Applied,
    Apply,
    ApplyEach,
    Changes,
    ChangesByVersion,
    Effect,
    Failed,
    FindUndone,
    Loading,
    OtherPatch,
    Patched,
    Profile,
    Request,
    Stage,
    StandIns,
    Undone,
)
from patchgate.probe.simulate.fake_device import fake_device
from patchgate.probe.simulate.triton_driver import BESIDE_THE_CPU, triton_driver

# Modules of a project that are replaced at most.
_MOST_REPLACED = 24


def apply_patch(request: Request, stage: Stage) -> None:
    """Run the patch of a `Patched` request, when it has one, after the patches named by `after`.

    It meets a fake device wherever one is simulated, and wherever code is generated for a CPU
    Triton's driver of one: what is here is the machine's, and none of the case's.
    """
    if request.get("patch"):
        stage("patch")
        with _device_of(request["profile"]):
            _run_first(request.get("after", ()))
            patched = run_patch(request["patch"], cast(Loading, request))
            if request.get("left"):
                patched.leave()


def _device_of(profile: Profile) -> AbstractContextManager[None]:
    if profile["kind"] == "simulated":
        return fake_device(profile)
    return triton_driver(BESIDE_THE_CPU) if profile["kind"] == "codegen" else nullcontext()


def _run_first(patches: Iterable[OtherPatch]) -> None:
    for number, other in enumerate(patches):
        run_patch(other["patch"], other, f"{MODULE}_{number}")


def undone(request: FindUndone, stage: Stage) -> Undone:
    """The replacements by the patches of `after` that nothing leads to any more once `patch` has
    run.
    """
    with fake_device(request["profile"]):
        before = take_snapshot()
        stage("patch")
        with torch_imports_added_to(before):
            _run_first(request["after"])
            first = changes(before, take_snapshot())
            run_patch(request["patch"], request)
        last = changes(before, take_snapshot())
    gone = [
        name
        for name, (_, replacement) in first.items()
        if name not in last
        or not (last[name][1] is replacement or reaches(last[name][1], replacement))
    ]
    return {"undone": sorted(gone)}


def apply(request: Apply, stage: Stage) -> Applied:
    """Run the patch twice under a faked version, on a fake device: what it changed, and what the
    second run adds.
    """
    path, scope = request["patch"], request.get("scope")
    recorder = effects.Recorder(path, in_package=bool(place_of(path, request)[0]))
    note_call = partial(recorder.note, "device")
    with fake_device(request["profile"], note_call), faked_version(request["version"]):
        stage("patch")
        before, settings, held = _before_the_patch(request, recorder)
        with torch_imports_added_to(before):
            with recorder.recording():
                module = import_patch(path, request)
            if scope:  # a setting that the scope makes ends with it
                effects.Settings().note_changes(settings, recorder)
            patched = AppliedPatch(module, scope)
        stage("compare")
        after = take_snapshot()
        changed = changes(before, after)
        if not scope:
            effects.Settings().note_changes(settings, recorder)
        written = recorder.settings()
        twice = wrapped_twice(changed)
        answer: Applied = {
            **_changes(request, before, after, changed, recorder),
            "holders": holders.holders(changed, after),
            "torchs": holders.replaced_by_torchs_own(changed, before),
            "overrides": sorted(name for name, (old, _) in changed.items() if old is None),
            "unreachable": holders.unreachable(changed),
            "replacements": line_coverage.replacements(changed, path),
            # Within a scope a setting is meant for the code in the scope.
            "unseen": [] if scope else effects.unseen(written),
            "leaks": patched.leaks(before),
            "leaks_by": {},
            "held": [],
            "calls": [],
            "overwritten": [],
            "nested": twice,
            "runs_again": "in the same run" if twice else "",
            "added": holders.names_unknown_to_torch(changed, request["targets"]),
            "again": "",
            "recursive": saved_after_replacing(changed),
            "package": str(place_of(path, request)[0] or "").rpartition(".")[0],
            "offers": [],
            "absent": recorder.absent(),
        }
        is_installed = changed or any(effect["kind"] == "config" for effect in answer["effects"])
        answer["offers"] = offers(
            module, changed, request.get("entry_points", ()), passes=not is_installed
        )
        if not (changed or answer["effects"]):
            now = held_by_torch(module.__name__.partition(".")[0])
            own = {name: (None, value) for at, (name, value) in now.items() if at not in held}
            answer["held"] = sorted(own)
            answer["replacements"] = line_coverage.replacements(own, path)
        if scope and not answer["leaks"]:
            answer["leaks_by"] = _leaks_by(patched)
        stage("patch again")
        _apply_again(request, answer, before, changed, written)
    return answer


def _leaks_by(patched: AppliedPatch) -> dict[str, list[str]]:
    """How a scope may end -> the names that it leaves changed then, each tried in a new process."""
    ends = {
        "an exception in its block": patched.leave_by_exception,
        "a block inside another": patched.leave_nested,
    }
    answers = {how: _reply_of_fork(partial(_write_leaks, end)) for how, end in ends.items()}
    return {how: answer["names"] for how, answer in answers.items() if answer.get("names")}


def _write_leaks(end: Callable[[], None], file: int) -> NoReturn:
    names: list[str] = []
    with suppress(Exception):  # one that does not run is judged elsewhere
        before, settings = take_snapshot(), effects.Settings()
        with torch_imports_added_to(before):
            end()
        names = [*changes(before, take_snapshot()), *effects.Settings().names_unlike(settings)]
    write_reply({"names": sorted(names)}, file)


def _before_the_patch(
    request: Apply | ApplyEach, recorder: effects.Recorder | None = None
) -> tuple[Snapshot, effects.Settings, dict[int, Any]]:
    """Torch, the settings and what torch holds as the patch meets them: what importing its packages
    changes is theirs.

    A package that imports the patch itself installs it: then all of that is the patch's.
    """
    before, settings = take_snapshot(), effects.Settings()
    recording = recorder.recording() if recorder else nullcontext()
    with torch_imports_added_to(before), recording:
        is_imported_later = import_packages(request["patch"], request)
    if not is_imported_later:
        return before, settings, {}
    if recorder:
        recorder.clear()
    package, _, _ = str(place_of(request["patch"], request)[0]).partition(".")
    return take_snapshot(), effects.Settings(), held_by_torch(package) if recorder else {}


def _apply_again(
    request: Apply,
    answer: Applied,
    before: Snapshot,
    changed: dict[str, tuple[Any, Any]],
    written: list[Effect],
) -> None:
    """Run the patch once more, with its settings set otherwise by a user, and add what came of
    that.
    """
    values = effects.set_by_user(written)
    is_silent = not (changed or answer["effects"] or answer["held"])
    with (
        torch_imports_added_to(before),
        recording_calls(request["patch"] if is_silent else None) as answer["calls"],
    ):
        try:
            second = run_patch(request["patch"], request, AGAIN)
        except Exception as error:  # a loud failure applies nothing twice
            answer["again"] = f"{type(error).__name__}: {error}".splitlines()[0]
            return
    again = changes(before, take_snapshot())
    second.leave()
    answer["overwritten"] = effects.overwritten(written, values)
    nested = {
        name for name in changed if name in again and reaches(again[name][1], changed[name][1])
    }
    nested |= {*saved_after_replacing(again)} - {*answer["recursive"]}
    answer["nested"] = sorted(nested | {*answer["nested"]})
    if nested and not answer["runs_again"]:
        installers = request.get("install") or []
        path, place = request["patch"], place_of(request["patch"], request)
        calling = (
            what_calls_again(path, *place, installers)
            if installers
            else what_runs_again(path, *place)
        )
        answer["runs_again"] = calling or ", ".join(installers)


def find_stand_ins(request: Patched, stage: Stage) -> StandIns:
    """The modules of the patch's project that cannot be imported here, each with the reason, in
    processes of their own.

    Each is replaced before the next one is looked for, until the patch runs, or fails by itself.
    """
    stage("patch")
    found: dict[str, str] = {}
    while len(found) < _MOST_REPLACED:
        how = {**request, "stubs": [*request.get("stubs", ()), *found]}
        blamed = _reply_of_fork(partial(_write_blamed, cast(Patched, how))).get("blamed", {})
        if not blamed.keys() - found:
            break
        found |= blamed
    return {"replaced": found}


def _write_blamed(request: Patched, file: int) -> NoReturn:
    blamed: dict[str, str] = {}
    with suppress(BaseException), fake_device(request["profile"]):
        blamed = blamed_module(str(request["patch"]), request)
    write_reply({"blamed": blamed}, file)


def applies(request: ApplyEach, stage: Stage) -> ChangesByVersion:
    """Run the patch under each of the versions, in a process of its own: what it changed in torch
    and the settings.
    """
    stage("patch")
    answers = {
        version: _reply_of_fork(partial(_write_changes, request, version))
        for version in request["versions"]
    }
    return {"versions": cast(dict[str, Changes | Failed], answers)}


def _reply_of_fork(write: Callable[[int], NoReturn]) -> dict[str, Any]:
    """The reply that a fork of this process writes to the file that `write` gets; a failure if it
    ends without one.
    """
    with tempfile.TemporaryFile() as file:
        pid = os.fork()
        if pid == 0:
            write(file.fileno())
        _, status = os.waitpid(pid, 0)
        file.seek(0)
        written = file.read()
    if written:
        return dict(json.loads(written))
    return {
        "failure": {
            **exit_failure(status),
            "stage": "patch",
            "detail": "",
            "where": None,
            "raised_at": None,
            "missing": [],
        }
    }


def _write_changes(request: ApplyEach, version: str, file: int) -> NoReturn:
    """The answer for one version, in folders that no other version has written to."""
    answer: Mapping[str, Any]
    try:
        use_folder(os.path.abspath(version))
        os.chdir(version)
        with fake_device(request["profile"]), faked_version(version):
            answer = _changes_by(request)
    except BaseException as error:  # the patch may raise anything, SystemExit included
        answer = {"failure": exception_failure(error, request["patch"]) | {"stage": "patch"}}
    write_reply(answer, file)


def _changes_by(request: ApplyEach) -> Changes:
    recorder = effects.Recorder(request["patch"])
    before, settings, _ = _before_the_patch(request)
    with torch_imports_added_to(before):
        run_patch(request["patch"], request)
    effects.Settings().note_changes(settings, recorder)
    after = take_snapshot()
    return _changes(request, before, after, changes(before, after), recorder)


def _with_importers(names: Collection[str], changed: Mapping[str, tuple[Any, Any]]) -> list[str]:
    """The names, and those under which other modules have imported the same originals.

    A function may have another replacement there; any other value has to have the same.
    """

    def key(name: str) -> tuple[int, ...]:
        old, now = changed[name]
        return (identity(old),) if callable(old) else (identity(old), identity(now))

    claimed = {key(name) for name in names if changed[name][0] is not None}
    return [name for name in changed if name in names or key(name) in claimed]


def _changes(
    request: Apply | ApplyEach,
    before: Snapshot,
    after: Snapshot,
    changed: Mapping[str, tuple[Any, Any]],
    recorder: effects.Recorder,
) -> Changes:
    """The changes that running the patch made, in torch and elsewhere."""
    return {
        "changed": sorted(changed),
        "claimed": {
            target: _with_importers(covered_names(target, changed), changed)
            for target in request["targets"]
        },
        "defined": defined_operators(before, after),
        "effects": recorder.effects(),
        "stubbed": uses(),
    }
