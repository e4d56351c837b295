"""Applies a patch to the torch of this process, and returns the changes.

The host judges if a change is a fault.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from types import ModuleType
from typing import Any, cast

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from patchgate.probe.patch import coverage, effects, holders, snapshot
from patchgate.probe.patch.beyond_snapshots import held_by_torch, recording_calls
from patchgate.probe.patch.live_api import covered_names
from patchgate.probe.patch.load import (
    AGAIN,
    MODULE,
    AppliedPatch,
    blamed_module,
    faked_version,
    import_others,
    import_packages,
    import_patch,
    names_left,
    place_of,
    run_patch,
)
from patchgate.probe.patch.module_name import top_level, what_calls_again, what_runs_again
from patchgate.probe.patch.offers import offers
from patchgate.probe.patch.own_spans import OwnSpans
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
from patchgate.probe.patch.torch_imports import add_changes, torch_imports_added_to
from patchgate.probe.process.reply import (
    exception_failure,
    exit_failure,
    failure,
    write_reply,
)
from patchgate.probe.process.sandbox import use_folder
from patchgate.probe.process.watched_imports import Execute, WatchedImports
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

# The most modules of a project that stand-ins replace.
_MOST_REPLACED = 24
_NO_ENDS: dict[str, Any] = {"leaks_by": {}, "ended": []}
# An entry for a kernel: `torch.library._impls['aten/where.ScalarOther/CPU']`.
_LIBRARY_ENTRY = re.compile(r"\.library\._impls\['(\w+)/([\w.]+)/\w+'\]$")


def apply_patch(request: Request, stage: Stage) -> None:
    """Run the patch of a `Patched` request, if it has one, after the patches named by `after`.

    The patch sees a fake device if a device is simulated, and a fake device's Triton driver if code
    is generated for a CPU, because the devices of this machine must not matter.
    """
    if request.get("patch"):
        stage("patch")
        with _device_of(request["profile"]):
            _run_first(request.get("after", ()))
            with holders.loaded_later(request.get("later", {})):
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
    """The names that the patches of `after` replaced, if they no longer lead to the replacements
    once `patch` has run.
    """
    with fake_device(request["profile"]):
        before = take_snapshot()
        stage("patch")
        with torch_imports_added_to(before):
            _run_first(request["after"])
            first = changes(before, take_snapshot())
            run_patch(request["patch"], request)
        last = changes(before, take_snapshot())
    gone = []
    for name, (_, replacement) in first.items():
        now = last.get(name, (None, None))[1]
        if name not in last or not (now is replacement or reaches(now, replacement)):
            gone.append(name)
    return {"undone": sorted(gone)}


def apply(request: Apply, stage: Stage) -> Applied:
    """Run the patch twice. Return its changes, and the changes that the second run adds."""
    path, scope = request["patch"], request.get("scope")
    dotted = place_of(path, request)[0] or ""
    recorder = effects.Recorder(path, in_package=bool(dotted))
    note_call = partial(recorder.note, "device")
    with fake_device(request["profile"], note_call), faked_version(request["version"]):
        stage("patch")
        before, settings, held, by_package = _before_the_patch(request, recorder)
        consisted = snapshot.contents(before)
        with torch_imports_added_to(before):
            with recorder.recording():
                module = import_patch(path, request)
            imported = effects.Settings()
            modes = _modes_without_compiles()
            patched = AppliedPatch(module, scope)
        stage("compare")
        made = effects.Settings().made_since(imported)
        after = take_snapshot()
        changed = changes(before, after)
        # Settings that the scope makes end with the scope, and do not count.
        (imported if scope else effects.Settings()).note_changes(settings, recorder)
        _note_changes_in_a_fork(after, recorder)
        written, holding = recorder.settings(), holders.holders(changed, after)
        answer: dict[str, Any] = {
            **_changes(request, before, after, changed, recorder),
            "holders": holding,
            "bypassed": holders.bypassed(changed, holding),
            "edited": snapshot.edited(consisted, after),
            "overrides": sorted(name for name, (old, _) in changed.items() if old is None),
            "unreachable": holders.unreachable(changed),
            "uncompiled": "".join(_modes_without_compiles()[len(modes) :][:1]) if scope else "",
            # Settings of a scope are meant for the code in the scope only.
            "unseen": [] if scope else effects.unseen(written),
            "leaks": _leaks(patched, before, imported) if scope else [],
            "added": holders.names_unknown_to_torch(changed, request["targets"]),
            "recursive": saved_after_replacing(changed),
            "package": dotted.rpartition(".")[0],
            "by_package": by_package,
            "absent": recorder.absent(),
        }
        answer["offers"] = _offers(request, module, changed, answer["effects"])
        own = {} if changed or answer["effects"] else _held_since(module, held)
        answer["held"] = sorted(own)
        answer["replacements"] = coverage.replacements(own or changed, path)
        answer |= _other_ends(patched, made) if scope and not answer["leaks"] else _NO_ENDS
        stage("patch again")
        answer |= _applied_again(request, answer, before, changed, written)
    return cast(Applied, answer)


def _modes_without_compiles() -> list[str]:
    """The classes of the active dispatch modes under which torch compiles nothing."""
    return [
        type(mode).__name__
        for mode in _get_current_dispatch_mode_stack()
        if not (mode.is_infra_mode() or mode.ignore_compile_internals())
    ]


def _offers(
    request: Apply, module: ModuleType, changed: snapshot.Changes, made: Iterable[Effect]
) -> list[str]:
    """The offers of the patch. Passes are included only if the patch itself installs nothing."""
    is_installed = changed or any(effect["kind"] == "config" for effect in made)
    return offers(module, changed, request.get("entry_points", ()), passes=not is_installed)


def _note_changes_in_a_fork(now: Snapshot, recorder: effects.Recorder) -> None:
    """If the patch registered functions that run in forks, note the functions and classes of torch
    that differ in a fork of this process.
    """

    def replaced() -> dict[str, Any]:
        found = changes(now, take_snapshot()).items()
        return {"names": sorted(name for name, (_, new) in found if callable(new))}

    names = _in_fork(replaced).get("names", []) if recorder.acts_in_forks else []
    if names:
        recorder.note("process", "os.fork", f"in a forked process: {', '.join(names)}")


def _held_since(module: ModuleType, held: Collection[int]) -> snapshot.Changes:
    """The objects of the patch's package that torch holds now, and did not hold before."""
    now = held_by_torch(top_level(module.__name__))
    return {name: (None, value) for at, (name, value) in now.items() if at not in held}


def _leaks(patched: AppliedPatch, before: Snapshot, imported: effects.Settings) -> list[str]:
    """Leave the scope, and return the names of everything that is changed outside it. Settings are
    compared with those after the import.
    """
    return [*patched.leaks(before), *effects.Settings().names_unlike(imported)]


def _other_ends(patched: AppliedPatch, made: list[Effect]) -> dict[str, Any]:
    """The changes that remain if the scope ends in other ways (`leaks_by`), and the changes that
    the end of a nested block reverts (`ended`).
    """
    ended = _in_fork(partial(_ended_early, patched)).get("names", [])
    return {"leaks_by": _leaks_by(patched, made), "ended": ended}


def _leaks_by(patched: AppliedPatch, made: list[Effect]) -> dict[str, list[str]]:
    """Map each way in which a scope may end to the names that stay changed; each way is tried in a
    new process. `made` are the settings that the scope makes.
    """
    ends = {
        "an exception in its block": (patched.leave_by_exception, []),
        "a block inside another": (patched.leave_nested, []),
        "a block over settings of the user": (patched.leave_again, made),
    }
    leaks = {
        how: _in_fork(partial(_leaks_after, end, users)).get("names")
        for how, (end, users) in ends.items()
    }
    return {how: names for how, names in leaks.items() if names}


def _ended_early(patched: AppliedPatch) -> dict[str, list[str]]:
    """The names that a scope changes, and that the end of a nested block of the scope reverts too
    early. Empty if the scope refuses to be nested.
    """
    before, settings = take_snapshot(), effects.Settings()

    def changed() -> set[str]:
        found = changes(before, take_snapshot())
        # An attribute that was None may be new: an earlier end of the scope may set it to None.
        names = (name for name, (old, _) in found.items() if old is not None or name[-1] == "]")
        return {*names, *effects.Settings().names_unlike(settings)}

    with torch_imports_added_to(before):
        patched.enter()
    within = changed()
    ended = within - changed() if patched.nest() else ()
    kernels = {name: _kernels(name) for name in ended}
    patched.leave()
    return {"names": sorted(name for name in kernels if kernels[name] == _kernels(name))}


def _kernels(name: str) -> str:
    """The kernels that the dispatcher has for the operator of a library's entry; empty for other
    names. If two entries are for one kernel, the end of the first removes the name.
    """
    entry = _LIBRARY_ENTRY.search(name)
    return str(torch._C._dispatch_dump(f"{entry[1]}::{entry[2]}")) if entry else ""


def _leaks_after(end: Callable[[], None], made: list[Effect]) -> dict[str, Any]:
    """The names that are changed after `end`, which enters the scope and leaves it. Before `end`,
    each setting of `made` gets another value, as a user may set it.
    """
    effects.set_by_user(made)
    before, settings = take_snapshot(), effects.Settings()
    with torch_imports_added_to(before):
        end()
    changed = changes(before, take_snapshot())
    names = [*names_left(changed), *effects.Settings().names_unlike(settings)]
    return {"names": sorted(names)}


def _before_the_patch(
    request: Apply | ApplyEach, recorder: effects.Recorder | None = None
) -> tuple[Snapshot, effects.Settings, dict[int, Any], list[str]]:
    """Import the patch's packages and its imports from other projects. Return the state before the
    patch runs: of torch, of the settings, and of the objects that torch holds; also the names that
    the packages changed.

    If a package imports the patch itself, the package installs it, so all changes by the import are
    the patch's. For a scope, which no import enters, and for an installing function, which alone is
    judged, only two kinds of changes are the patch's: those by its own file, and those by that
    function if the package calls it.
    """
    import_others(request["patch"], request)
    dotted = str(place_of(request["patch"], request)[0])
    before, settings, own = take_snapshot(), effects.Settings(), list[tuple[Snapshot, Snapshot]]()
    spans = OwnSpans(request["patch"], request.get("install") or ())

    def run_patch_itself(module: ModuleType, run: Execute, _: bool) -> None:
        was = take_snapshot()
        with spans.running():
            run(module)
        own.append((was, take_snapshot()))

    with (
        torch_imports_added_to(before),
        WatchedImports(dotted.__eq__, run_patch_itself),
        recorder.recording() if recorder else nullcontext(),
        spans.watching() if request.get("install") else nullcontext(),
    ):
        is_imported_later = import_packages(request["patch"], request)
    bare = Snapshot(before)
    if not is_imported_later:
        if request.get("scope"):
            before = take_snapshot()
            for was, now in own:
                add_changes(before, now, was)
        elif request.get("install"):
            spans.add_others(before, settings)
            if recorder:
                recorder.keep_own()
            return before, settings, {}, sorted(changes(bare, before))
        return before, settings, {}, []
    if recorder:
        recorder.clear()
    package = top_level(dotted)
    before, held = take_snapshot(), held_by_torch(package) if recorder else {}
    return before, effects.Settings(), held, sorted(changes(bare, before))


def _applied_again(
    request: Apply,
    answer: Mapping[str, Any],
    before: Snapshot,
    changed: snapshot.Changes,
    written: list[Effect],
) -> dict[str, Any]:
    """Change the patch's settings as a user may, run the patch once more, and return the answers
    on the second run.
    """
    values = effects.set_by_user(written)
    is_silent = not (changed or answer["effects"] or answer["held"])
    twice = wrapped_twice(changed)
    again: dict[str, Any] = {
        "overwritten": [],
        "nested": twice,
        "runs_again": "in the same run" if twice else "",
    }
    path = request["patch"]
    with (
        torch_imports_added_to(before),
        recording_calls(path if is_silent else None) as calls,
    ):
        try:
            second = run_patch(path, request, AGAIN)
        except Exception as error:  # a loud failure applies nothing twice
            loud = f"{type(error).__name__}: {error}".splitlines()[0]
            second = None
    if second is None:
        return {**again, "again": loud, "calls": calls}
    now = changes(before, take_snapshot())
    second.leave()
    nested = {name for name in changed if name in now and reaches(now[name][1], changed[name][1])}
    nested |= {*saved_after_replacing(now)} - {*answer["recursive"]}
    if nested and not twice:
        place, installers = place_of(path, request), request.get("install") or []
        calling = what_calls_again(path, *place, installers) if installers else ""
        again["runs_again"] = calling or ", ".join(installers) or what_runs_again(path, *place)
    again["nested"] = sorted({*nested, *twice})
    again["overwritten"] = effects.overwritten(written, values)
    return {**again, "again": "", "calls": calls}


def find_stand_ins(request: Patched, stage: Stage) -> StandIns:
    """The modules of the patch's project that cannot be imported here, each with the reason, found
    in new processes.

    Each is replaced before the search for the next, until the patch runs or fails by itself.
    """
    stage("patch")
    found: dict[str, str] = {}
    while len(found) < _MOST_REPLACED:
        how = {**request, "stubs": [*request.get("stubs", ()), *found]}
        blamed = _in_fork(partial(_blamed, cast(Patched, how))).get("blamed", {})
        if not blamed.keys() - found:
            break
        found |= blamed
    return {"replaced": found}


def _blamed(request: Patched) -> dict[str, Any]:
    with fake_device(request["profile"]):
        return {"blamed": blamed_module(str(request["patch"]), request)}


def applies(request: ApplyEach, stage: Stage) -> ChangesByVersion:
    """Run the patch under each of the versions, in a new process; return the changes in torch and
    in the settings.
    """
    stage("patch")
    answers = {
        each: _in_fork(partial(_changes_under, each, request)) for each in request["versions"]
    }
    return {"versions": cast(dict[str, Changes | Failed], answers)}


def _in_fork(answer: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Call `answer` in a fork of this process and return its result. Empty if it raises; a failure
    if the fork ends without a reply.
    """
    with tempfile.TemporaryFile() as file:
        pid = os.fork()
        if pid == 0:
            reply: Mapping[str, Any] = {}
            with suppress(BaseException):
                reply = answer()
            write_reply(reply, file.fileno())
        _, status = os.waitpid(pid, 0)
        file.seek(0)
        written = file.read()
    return (
        json.loads(written)
        if written
        else {"failure": failure(**exit_failure(status), stage="patch")}
    )


def _changes_under(version: str, request: ApplyEach) -> Mapping[str, Any]:
    """The changes under one version, in folders that no other version has written to."""
    try:
        use_folder(os.path.abspath(version))
        os.chdir(version)
        with fake_device(request["profile"]), faked_version(version):
            recorder = effects.Recorder(request["patch"])
            before, settings, *_ = _before_the_patch(request)
            with torch_imports_added_to(before):
                run_patch(request["patch"], request)
            effects.Settings().note_changes(settings, recorder)
            after = take_snapshot()
            return _changes(request, before, after, changes(before, after), recorder)
    except BaseException as error:  # the patch may raise anything, SystemExit included
        return {"failure": exception_failure(error, request["patch"]) | {"stage": "patch"}}


def _changes(
    request: Apply | ApplyEach,
    before: Snapshot,
    after: Snapshot,
    changed: snapshot.Changes,
    recorder: effects.Recorder,
) -> Changes:
    """The changes in torch and elsewhere that running the patch made."""
    lists = snapshot.changed_lists(before, after)
    return {
        "changed": sorted(changed),
        "claimed": {
            target: [target]
            if target in lists
            else _with_importers(covered_names(target, changed), changed)
            for target in request["targets"]
        },
        "defined": defined_operators(before, after),
        "effects": recorder.effects(),
        "stubbed": uses(),
    }


def _with_importers(names: Collection[str], changed: snapshot.Changes) -> list[str]:
    """The names, and the names under which other modules have imported the same originals.

    If the original is callable, its other names may have another replacement; for any other value,
    the replacement must be the same.
    """

    def key(name: str) -> tuple[int, ...]:
        old, now = changed[name]
        return (identity(old),) if callable(old) else (identity(old), identity(now))

    claimed = {key(name) for name in names if changed[name][0] is not None}
    return [name for name in changed if name in names or key(name) in claimed]
