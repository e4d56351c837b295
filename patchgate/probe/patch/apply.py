"""Applies a patch to the torch of this process, and tells everything that this changed.

Decides that a patch meets a stand-in device wherever one is simulated. Which
changes are faults is not known here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from patchgate.probe.patch import effects
from patchgate.probe.patch import env_vars as variables
from patchgate.probe.patch import line_coverage as lines
from patchgate.probe.patch import reachability as reach
from patchgate.probe.patch import snapshot as patching
from patchgate.probe.simulate.fake_device import fake_device

Request = dict[str, Any]
Stage = Callable[[str], None]


def apply_patch(request: Request, stage: Stage) -> None:
    """Run the request's patch, when it has one, after the patches that it comes `after`."""
    if request.get("patch"):
        stage("patch")
        simulated = request["profile"]["kind"] == "simulated"
        # On a GPU machine the patch would see the device while it is imported.
        with fake_device(request["profile"]) if simulated else contextlib.nullcontext():
            for number, path in enumerate(request.get("after", ())):
                patching.run_patch(path, f"{patching.MODULE}_{number}")
            patched = patching.run_patch(request["patch"], scope=request.get("scope"))
            if request.get("left"):
                patched.leave()


def undone(request: Request, stage: Stage) -> dict[str, Any]:
    """What the patches that come first have replaced, and nothing leads to any more once the last is applied."""
    with fake_device(request["profile"]):
        before = patching.snapshot()
        stage("patch")
        for number, path in enumerate(request["after"]):
            patching.run_patch(path, f"{patching.MODULE}_{number}")
        first = patching.changed(before, patching.snapshot())
        patching.run_patch(request["patch"], scope=request.get("scope"))
        last = patching.changed(before, patching.snapshot())
    gone = [
        name
        for name, (_, replacement) in first.items()
        if name not in last or not (last[name][1] is replacement or patching.keeps(last[name][1], replacement))
    ]
    return {"undone": sorted(gone), "shared": sorted(first.keys() & last.keys())}


def apply(request: Request, stage: Stage) -> dict[str, Any]:
    """Run the patch under a faked version, on a stand-in device, and tell everything that it changed."""
    path, scope = request["patch"], request.get("scope")
    recorder = effects.Recorder(path)
    with fake_device(request["profile"], recorder), patching.faked_version(request["version"]):
        before, state = patching.snapshot(), effects.State()
        stage("patch")
        with recorder.listening():
            module = patching.import_patch(path)
        patched = patching.Applied(module, scope)
        stage("compare")
        after = patching.snapshot()
        changed = patching.changed(before, after)
        effects.State().told(state, recorder)
        answer = {
            "changed": sorted(changed),
            "effects": list(recorder.found.values()),
            "holders": reach.holders(changed, after),
            "unreachable": reach.unreachable(changed),
            "replacements": lines.replacements(changed, path),
        }
        written = effects.settings(recorder)
        # Within a scope a setting is meant for the code in the scope.
        answer["unseen"] = [] if scope else effects.unseen(written)
        answer["dead"] = variables.without_effect(written, path)
        answer["leaks"] = patched.leaks(before)
        stage("patch again")
        users = effects.set_by_user(written)
        second = patching.run_patch(path, patching.MODULE + "_again", scope=scope)
        again = patching.changed(before, patching.snapshot())
        second.leave()
        answer["overwritten"] = effects.overwritten(written, users)
    nested = [name for name in changed if name in again and patching.keeps(again[name][1], changed[name][1])]
    return answer | {"nested": sorted(nested)}


def applies(request: Request, stage: Stage) -> dict[str, Any]:
    """Run the patch under a faked version, and tell only what it changed in torch and its settings."""
    with fake_device(request["profile"]), patching.faked_version(request["version"]):
        before, state, recorder = patching.snapshot(), effects.State(), effects.Recorder(request["patch"])
        stage("patch")
        patching.run_patch(request["patch"], scope=request.get("scope"))
        effects.State().told(state, recorder)
        changed = patching.changed(before, patching.snapshot())
        return {"changed": sorted(changed), "effects": list(recorder.found.values())}
