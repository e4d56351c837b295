"""What a trial measures beside facts: outputs and tokens on the CPU, cached code, calls of a compile.

Decides what is asked, with which time and in which folder. Refuses to judge
the answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from patchgate.inputs.devices import load_profile
from patchgate.model.records import Patch, Workload
from patchgate.model.serialization import Answer
from patchgate.runner.cache import Cache
from patchgate.runner.client import Runner
from patchgate.runner.identity import key_of_question
from patchgate.runner.run import Run

# A patch is imported on a simulated GPU, so that none is needed and none is touched.
STAND_IN = "h200"
# A question that compiles more than once has the time of as many cases.
COMPILES = {"sample": 2, "forms": 4, "ranks": 2, "costs": 4}
# Compiles of either side whose CPU time is compared.
PAIRS = 10
# Inputs and weights of a comparison of numbers.
SEEDS = (0, 1, 2)


class Measuring:
    """The questions of a `Trial`, which has the run, the patch and the workloads."""

    run: Run
    patch: Patch
    runner: Runner

    def workload(self, name: str) -> Workload:
        raise NotImplementedError

    def run_on(self, device: str, torch: str, name: str, patch: Patch | None, outputs: str, do: str = "run") -> Answer:
        """Outputs of a workload on a device, written to the file `outputs`.

        With `do` "forms" those of its other forms, with "trace" its intermediates.
        """
        workload = self.workload(name)
        return self._write_on(
            device,
            torch,
            do,
            patch,
            outputs,
            **told(workload),
            seeds=list(SEEDS),
            training=workload.training,
            small=self.runner.nightly or "consistency" in workload.checks,
        )

    def sample_on(self, device: str, torch: str, patch: Patch | None, outputs: str) -> Answer:
        """Tokens of the small decoder, sampled on a device and written to the file `outputs`."""
        return self._write_on(device, torch, "sample", patch, outputs)

    def ranks_on(self, device: str, torch: str, patch: Patch | None, outputs: str) -> Answer:
        """Outputs of the stack of two ranks, written to the file `outputs`; "unmeasured" where there can be none."""
        return self._write_on(device, torch, "ranks", patch, outputs)

    def _write_on(self, device: str, torch: str, do: str, patch: Patch | None, outputs: str, **request: Any) -> Answer:
        """What torch gives unpatched is computed once for the same content, where runs share a shelf."""
        ask = partial(
            self._ask_once,
            torch,
            do,
            patch.path if patch else None,
            seconds=self.run.limits.seconds * _compiles(do, request),
            profile=load_profile(device),
            outputs=outputs,
            **request,
        )
        return self._with_binaries(torch, patch, ask)

    def _with_binaries(self, torch: str, patch: Patch | None, ask: Callable[..., Answer]) -> Answer:
        """Compiled C++ is found again by its own source text.

        The patched side has a folder of its own, so that nothing a patch leaves there is ever run unpatched.
        """
        side = hashlib.sha256(patch.source.encode()).hexdigest()[:16] if patch else "unpatched"
        kept = Path(self.run.binaries or Path(self.run.folder).parent / "cpp")
        binaries = kept / torch / side
        answer = ask(env={"TORCHINDUCTOR_CACHE_DIR": str(binaries.resolve())})
        if ".so: " in answer.get("failure", {}).get("signature", ""):
            # A process that was killed while it linked has left half a library there, which is nobody's fault now.
            with TemporaryDirectory(prefix="patchgate-") as fresh:
                answer = ask(env={"TORCHINDUCTOR_CACHE_DIR": fresh})
        return answer

    def _ask_once(self, torch: str, do: str, patch: str | None, seconds: float | None = None, **request: Any) -> Answer:
        """An answer of torch's own, without the patch, is kept for the same question where runs share a shelf."""
        unpatched = patch is None and request["profile"]["kind"] != "real"
        shelf = Cache(Path(self.run.shelf)) if unpatched and self.run.shelf else None
        key = key_of_question({"do": do, **request}, self.runner.identities[torch]) if shelf else None
        outputs = Path(request["outputs"]) if "outputs" in request else None
        kept = shelf.load(key, outputs) if shelf and key else None
        if kept is not None:
            return kept
        scope = self.patch.claims.scope if patch else None
        answer = self.runner.ask(torch, do, seconds, patch=patch, scope=scope, **request)
        if shelf and key and "failure" not in answer:
            shelf.save(key, answer, outputs)
        return answer

    def differ(self, torch: str, unpatched: str, patched: str, do: str = "differ") -> Answer:
        """Figures of the difference between two files that `run_on` wrote."""
        profile = load_profile("cpu")
        return self.runner.ask(torch, do, profile=profile, unpatched=unpatched, patched=patched)

    def compile_cached(self, torch: str, name: str, patch: str | None, cache: Path, tag: str) -> Answer:
        """Compile a workload on the CPU with the caches on and below `cache`; `tag` goes into their key."""
        workload = self.workload(name)
        return self.runner.ask(
            torch,
            "cached",
            **told(workload),
            profile=load_profile("cpu"),
            patch=patch,
            scope=self.patch.claims.scope if patch else None,
            tag=tag,
            env={"TORCHINDUCTOR_CACHE_DIR": str(cache)},
        )

    def built_kernels(self, torch: str, name: str, patch: str | None, cache: Path) -> Answer:
        """Machine code of a workload's Triton kernels for a simulated GPU, by source; Triton's cache is `cache`."""
        return self.runner.ask(
            torch,
            "kernels",
            **told(self.workload(name)),
            profile=load_profile(STAND_IN),
            patch=patch,
            scope=self.patch.claims.scope if patch else None,
            env={"TRITON_CACHE_DIR": str(cache)},
        )

    def compile_calls(self, torch: str, name: str, patch: str | None) -> Answer:
        """Python calls of one compile on a simulated GPU, by module."""
        workload = self.workload(name)
        # Where torch lies moves the count by as much as the budget: one of another place is no answer.
        place = self.run.rows[torch]
        return self._ask_once(torch, "calls", patch, place=place, **told(workload), profile=load_profile(STAND_IN))

    def compile_costs(self, torch: str, name: str) -> Answer:
        """CPU time and instructions of a compile on a simulated GPU, unpatched and with the patch in turn."""
        return self.runner.ask(
            torch,
            "costs",
            self.run.limits.seconds * COMPILES["costs"],
            **told(self.workload(name)),
            profile=load_profile(STAND_IN),
            patch=self.patch.path,
            scope=self.patch.claims.scope,
            pairs=PAIRS,
        )

    def recompiles(self, torch: str, name: str, patch: Patch | None) -> Answer:
        """How often a workload is compiled on the CPU, in several calls of several instances of it."""
        return self.runner.ask(
            torch,
            "recompiles",
            **told(self.workload(name)),
            profile=load_profile("cpu"),
            patch=patch.path if patch else None,
            scope=patch.claims.scope if patch else None,
        )


def _compiles(do: str, request: Mapping[str, Any]) -> int:
    """How often a question compiles: once more for each small size, and twice where gradients are taken."""
    sizes, graphs = 3 if request.get("small") else 1, 2 if request.get("training") else 1
    return COMPILES.get(do, 1) * sizes * graphs


def told(workload: Workload) -> dict[str, Any]:
    """What a probe is told of a workload."""
    return {
        "workload": workload.name,
        "workload_path": workload.path,
        "dtype": workload.dtype,
        "dynamic": workload.dynamic,
    }
