"""Every question of every check says all of how a workload is compiled, and of the patch."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import Instance, NothingToJudge, all_checks
from patchgate.inputs.manifest import Claims, Patch, Symptom
from patchgate.inputs.workloads import OPTIONS
from patchgate.model.records import Case, Workload
from patchgate.probe.process.message_schema import refusal
from patchgate.probe.protocol import QUESTIONS
from patchgate.runner.client import Runner
from patchgate.runner.run_settings import Run

CHECKS = ("kernels", "parity", "consistency", "compile", "cache", "recompile", "shapes", "latency")
WORKLOADS = {
    one.name: one
    for one in (
        Workload(
            name="mlp_training",
            path="mlp.py",
            dtype="float16",
            training=True,
            mode="max-autotune",
            checks=CHECKS,
        ),
        Workload(
            name="reader",
            path="r.py",
            dtype="float32",
            dynamic_dim=1,
            dynamic=True,
            reads=(2.0, 3.5),
            checks=CHECKS,
        ),
        Workload(
            name="sizes", path="s.py", dtype="bfloat16", dynamic=True, asks="shapes", checks=CHECKS
        ),
    )
}
COMPILED = ("dtype", "dynamic", "dynamic_dim", "training", "mode", "reads")
COUNTS = dict.fromkeys(
    ("hit", "miss", "bypass", "autograd_hit", "autograd_miss", "autograd_bypass"), 0
)
STEP = {"graphs": 1, "symbolic": 0}
STEPS = {"first call": STEP, "another size": STEP}
SAME = {"differing": 0.0, "distance": 0.0, "tokens": 64, "changed_tokens": 0}
NUMBERS = {
    **{
        "differing": 0.5,
        "elements": 10.0,
        "largest": 0.0,
        "ulps": 0.0,
        "special": {},
        "small": {},
        "memory": [],
        "launches": {},
    },
    "repeats": {"unpatched": True, "patched": True},
    **{
        f"{kind}_{side}": 0.0
        for kind in ("error", "worst")
        for side in ("eager", "unpatched", "patched")
    },
}
TIMES = {
    "rounds": [{"unpatched": [1.0] * 10, "patched": [1.0] * 10}] * 8,
    "peak_memory": {},
    "first_call": {"unpatched": 1.0, "patched": 1.0},
}
# Each question has an answer, so that a check goes on to its next one.
ANSWERS: dict[str, dict[str, Any]] = {
    "sentinel": {
        **{"facts": {}, "expected": {}},
        "confinement": {"namespaces": [], "landlock": 0, "reads": False},
    },
    "apply": {
        **{
            "changed": ["torch.a"],
            "replacements": {"torch.a": [1]},
            "holders": {},
            "bypassed": {},
            "unreachable": [],
        },
        **{
            "nested": [],
            "recursive": [],
            "again": "",
            "claimed": {},
            "defined": ["mine::f"],
            "effects": [],
            "stubbed": [],
        },
        **{"held": [], "calls": [], "offers": ["backend mine"]},
    },
    "applies": {"versions": {}},
    "new interpreter": {"missing": [], "dead": [], "later": []},
    "surface": {"findings": []},
    "functions": {"functions": {"f:1": [1, 2]}, "outcomes": {}},
    "observe": {"facts": {"loads": 1}, "environment": {}},
    "code": {"facts": {"loads": 1}},
    "custom operators": {"operators": {"mine::f": {"calls": 1, "faults": [], "some": []}}},
    "offers": {"runs": [{"graphs": 0, "changed": 0, "faults": {}}]},
    "plain run": {"code": [], "changed": []},
    "differ runs": {"metrics": {"differing": 0.0}},
    "differ bits": {"metrics": {"differing": 0.0}},
    "options": {"facts": {}},
    "shapes": {"facts": {}},
    "hooks": {"called": {}, "asked": {}},
    "undone": {"undone": []},
    "calls": {"calls": {"torch": 1}, "missing": ""},
    "cached": {"answers": COUNTS, "options": {}},
    "kernels": {},
    "recompiles": {"counts": {"compiled": STEPS}},
    "time": TIMES,
    "differ": {"metrics": NUMBERS},
    "differ forms": {
        "metrics": {"forms": {"a and b": {"unpatched": SAME, "patched": SAME}}, "error": 0.0}
    },
    "differ traces": {"metrics": {"parted": "add_3"}},
    "differ tokens": {"metrics": {}},
    "operators": {"unmeasured": "", "operators": {"torch.a": ["a"]}},
    "differ samples": {
        "metrics": {
            "differing": [],
            "judged": 1,
            "samples": 1,
            "unjudged": [],
            "grown": [],
            "kept": {"programs": 0, "expected": 0, "actual": 0, "sample": ""},
            "serial": [],
            "settings": [],
        }
    },
}
TYPES: dict[str, Any] = {do: question.request for do, question in QUESTIONS.items()}
ABOUT_A_WORKLOAD = {do for do, request in TYPES.items() if "workload" in request.__required_keys__}
# Read as a text, and not run.
_READ = "functions"
# A runner asks these by itself about a workload that did not compile.
_AFTERWARDS = {"failing stage", "stand-ins"}
_OF_A_REAL_GPU = {"differ bits"}


def no_server(torch: str, do: str) -> socket.socket:
    raise OSError(torch)


class Recorder(Runner):
    """A runner whose server gives canned answers.

    What was asked lies in `recorded`, as it went over the socket.
    """

    recorded: ClassVar[list[dict[str, Any]]] = []

    def _exchange(self, torch: str, do: str, message: bytes, seconds: float) -> dict[str, Any]:
        request: dict[str, Any] = json.loads(message)
        assert refusal(request) is None
        self.recorded.append(request)
        patched = request.get("patch") is not None
        # The code of both sides differs, so that the cache is also asked after an edit.
        differs = {"code": ["patched" if patched else "unpatched"], "kernels": {"a": str(patched)}}
        return differs | ANSWERS.get(do, {})


@pytest.fixture
def requests_of(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[dict[str, Any]]]:
    """The requests that a check sends for one workload: of one patch with a scope, and beside
    another with its own.
    """
    for name in ("mine", "other"):
        (folder / f"{name}.py").write_text("def f():\n    return 1\n")
        (folder / f"{name}.toml").write_text(f'title = "T"\nscope = "{name}_scope"\n')

    def requests(name: str, workload: str, device: str = "h200") -> list[dict[str, Any]]:
        monkeypatch.setattr(Recorder, "recorded", [])
        named = Symptom(workload=workload, device=device, fact="loads", predicate="> 4")
        claims = Claims(title="T", scope="mine_scope", symptom=named if name == "symptom" else None)
        patch = Patch(
            id="mine",
            path=str(folder / "mine.py"),
            source=(folder / "mine.py").read_text(),
            claims=claims,
        )
        run = Run(
            folder=str(folder / "out" / name),
            patch=patch.path,
            rows={"2.11.0": "python"},
            workloads=(workload,),
            devices=(device,),
            others=(str(folder / "other.py"),),
            nightly=True,
        )
        runner = Recorder(run=run, connect=no_server, logs={})
        context = CheckContext(run, patch, WORKLOADS, runner)
        check, case = (
            all_checks()[name],
            Case(torch="2.11.0", device=device, workload=workload, patch="mine"),
        )
        case = check.cases(patch, "2.11.0")[0] if check.cases else case
        with contextlib.suppress(NothingToJudge):
            list(check.ask(context, Instance(case=case, size="small")))
        return Recorder.recorded

    return requests


def says(request: dict[str, Any], workload: Workload) -> dict[str, Any]:
    """Return the fields of a request that differ from how a workload is compiled; JSON has lists
    for tuples.
    """
    expected = {"workload": workload.name, "workload_path": workload.path}
    expected |= {name: json.loads(json.dumps(getattr(workload, name))) for name in COMPILED}
    return {
        name: request.get(name, "nothing")
        for name, value in expected.items()
        if request.get(name) != value
    }


@pytest.mark.parametrize("workload", WORKLOADS)
# The manifest alone tells the one that is left out.
@pytest.mark.parametrize("name", [name for name in all_checks() if name != "claims"])
def test_every_question_says_all_of_how_its_workload_is_compiled(requests_of, name, workload):
    requests = requests_of(
        name, workload, "cpu" if name in ("parity", "equivalence", "latency") else "h200"
    )
    assert requests
    known = OPTIONS if name == "options" else WORKLOADS[workload]
    about = [request for request in requests if request["do"] in ABOUT_A_WORKLOAD]
    assert [
        (request["do"], says(request, known)) for request in about if says(request, known)
    ] == []
    assert [
        request["do"] for request in requests if request not in about and "workload" in request
    ] == []


def test_every_question_of_the_protocol_is_looked_at(requests_of):
    asked = {request["do"] for name in all_checks() for request in requests_of(name, "sizes")}
    assert asked == TYPES.keys() - _AFTERWARDS - _OF_A_REAL_GPU
    assert {"observe", "cached", "run", "trace", "time"} <= ABOUT_A_WORKLOAD


@pytest.mark.parametrize("workload", WORKLOADS)
def test_patches_in_either_order_are_compiled_as_the_workload_says(requests_of, workload):
    """PG812 and PG813 once compared a training workload as one of inference, and lost what
    `.item()` reads.
    """
    last, first = (
        request for request in requests_of("interaction", workload) if request["do"] == "observe"
    )
    assert says(last, WORKLOADS[workload]) == says(first, WORKLOADS[workload]) == {}
    names = [
        Path(path).name
        for asked in (last, first)
        for path in (asked["patch"], *(other["patch"] for other in asked["after"]))
    ]
    assert names == ["mine.py", "other.py", "other.py", "mine.py"]


@pytest.mark.parametrize("name", all_checks())
def test_every_question_of_a_patch_names_its_scope(requests_of, name):
    scopes = {"mine.py": "mine_scope", "edited.py": "mine_scope", "other.py": "other_scope"}
    requests = [request for request in requests_of(name, "reader") if request["do"] != _READ]
    patched = [request for request in requests if request.get("patch")]
    assert [request["scope"] for request in patched] == [
        scopes[Path(one["patch"]).name] for one in patched
    ]
    assert {request.get("scope") for request in requests if not request.get("patch")} <= {None}


def test_a_workload_that_says_nothing_of_itself_is_compiled_as_it_is_by_default(requests_of):
    (request, *_) = requests_of("machine", "reader")
    assert not {"workload", *COMPILED} & request.keys()
