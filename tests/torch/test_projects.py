"""Patches as projects have them: modules of packages, functions called later, stubs, whole modules;
each run once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from patchgate.checks.api import judge_api
from patchgate.checks.effects import judge_effects
from patchgate.inputs.devices import load_profile
from patchgate.inputs.patch import load_patch
from patchgate.inputs.project import find_project
from patchgate.inputs.workloads import load_workloads
from patchgate.model.paths import ROOT
from patchgate.model.policy import Colour
from patchgate.model.records import Case
from patchgate.model.serialization import failure_of
from patchgate.runner.client import Runner, loading, request_for
from patchgate.runs.gate import with_stand_ins

PROJECTS = ROOT / "fixtures" / "projects"
FLOAT8 = "quantization/quant/float8/_inductor_patch.py"
INFERENCE = "inference/decode/hooks/realize.py"
LATE = "serving/engine/late.py"
RUNTIME = "runtime/src/runtime/srt/utils/patch_torch.py"
TUNING = "tuning/tuner/patching_utils.py"
WHOLE_MODULE = "accelerator/npu_backend/patch_modules.py"
MIN_MAX = [
    f"torch._inductor.codegen.triton.TritonOverrides.{name}" for name in ("maximum", "minimum")
]
REALIZE = "torch._inductor.ir.StorageBox.should_realize_on_reuse"
REDUCTIONS = "torch.multiprocessing.reductions"
FREEZING = "torch._inductor.fx_passes.freezing_patterns"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The names that a project's patch replaces on a release, and the codes that it gets."""

    changed: list[str]
    red: frozenset[str] = frozenset()  #: codes
    perhaps: frozenset[str] = frozenset()  #: codes that are red on one of the releases
    stubbed: tuple[str, ...] = ()


SERVING = [
    "torch._inductor.codegen.cpp.CppVecKernel._engine_patched",
    "torch._inductor.codegen.cpp.CppVecKernel.indirect_assert",
    "torch._inductor.graph.FALLBACK_ALLOW_LIST",
    REALIZE,
    "torch._inductor.ir.StorageBox._engine_patched",
    "torch._inductor.lowering.FALLBACK_ALLOW_LIST",
    "torch._inductor.pattern_matcher.fallback_node_due_to_unsupported_type",
    "torch._inductor.scheduler.Scheduler.can_fuse",
]
EXPECTED = {
    "serving/engine/env_override.py": Expected(changed=SERVING),
    # Importing it runs its package, and that the other patch, which is not judged here.
    LATE: Expected(changed=[REALIZE]),
    RUNTIME: Expected(
        changed=[f"{REDUCTIONS}._reduce_tensor_original", f"{REDUCTIONS}.reduce_tensor"],
        stubbed=("runtime.kernels", "runtime.kernels.rebuild"),
    ),
    "training/trainer/compile/patch_backward.py": Expected(
        changed=[
            "torch._functorch.aot_autograd.default_partition",
            "torch._functorch.partitioners.default_partition",
        ]
    ),
    # An option that is set holds in one thread from 2.12 on.
    TUNING: Expected(
        changed=["torch.nn.functional._plain_layer_norm", "torch.nn.functional.layer_norm"],
        perhaps=frozenset({"PG214"}),
    ),
    # Files of torch import names that the module in its place has not.
    WHOLE_MODULE: Expected(
        changed=[FREEZING, f"{FREEZING}.freezing_passes", f"sys.modules[{FREEZING}]"],
        red=frozenset({"PG103"}),
    ),
    FLOAT8: Expected(changed=MIN_MAX),
}


def applied(
    runner: Runner, torch: str, file: str, question: str = "apply", **more: Any
) -> dict[str, Any]:
    how = loading(load_patch(PROJECTS / file)) | more
    asked: dict[str, Any] = {} if question == "surface" else {"version": torch}
    asked |= {"holders": []} if question == "new interpreter" else {"targets": []}
    return runner.ask(torch, question, profile=load_profile("h200"), **how, **asked)


@pytest.mark.parametrize("file", EXPECTED)
def test_a_projects_patch_is_judged_where_it_lies(torch: str, runner: Runner, file: str) -> None:
    patch, expected, case = (
        load_patch(PROJECTS / file),
        EXPECTED[file],
        Case(torch=torch, patch="p"),
    )
    answer = applied(runner, torch, file)
    assert "failure" not in answer, answer["failure"]["detail"]
    # More may be replaced beside them: behind a gate of one release, or by another patch that the
    # package imports.
    assert set(expected.changed) <= set(answer["changed"])
    assert answer["nested"] == []
    # Triton has `sys.modules` under a name of its own.
    assert not [name for name in answer["changed"] if name.startswith("triton.")]
    assert tuple(use["name"] for use in answer["stubbed"] if use["by_patch"]) == expected.stubbed
    surface = applied(runner, torch, file, "surface")
    assert "failure" not in surface, surface["failure"]["detail"]
    verdicts = [*judge_effects(case, patch, answer, ""), *judge_api(case, patch, surface, "")]
    red = {verdict.code for verdict in verdicts if verdict.colour is Colour.RED}
    assert expected.red <= red <= expected.red | expected.perhaps, verdicts


# Before a merge one of them; PG215, PG222 and PG223 start an interpreter too.
@pytest.mark.parametrize(
    "file",
    [
        "serving/engine/env_override.py",
        *(pytest.param(f, marks=pytest.mark.nightly) for f in (TUNING, WHOLE_MODULE)),
    ],
)
def test_what_a_patch_does_once_a_module_is_there_it_does_in_a_new_interpreter_too(
    torch: str, runner: Runner, file: str
) -> None:
    answer = applied(
        runner, torch, file, "new interpreter", names=EXPECTED[file].changed, variables=[]
    )
    assert "failure" not in answer, answer["failure"]
    assert answer["missing"] == []


@pytest.mark.parametrize(
    ("install", "installed"),
    [
        ([], False),
        (["Patches.install(False, name='cost')"], False),
        (["Patches.install(True, name='cost')"], True),
        (["engine.late:Patches.install(True, name='cost')"], True),
    ],
)
def test_a_patch_that_a_project_calls_later_is_installed_by_what_its_manifest_names(
    torch: str, runner: Runner, install: list[str], installed: bool
) -> None:
    # Importing the package runs its other patch, which replaces the same and more: that is none of
    # this one's.
    answer = applied(runner, torch, LATE, install=install)
    assert "failure" not in answer, answer
    assert answer["changed"] == ([REALIZE] if installed else [])
    assert [effect["name"] for effect in answer["effects"]] == []


def test_what_importing_its_package_changes_is_not_the_patch_s(torch: str, runner: Runner) -> None:
    answer = applied(runner, torch, FLOAT8, install=[])
    assert [answer[kind] for kind in ("changed", "defined", "effects", "held")] == [[], [], [], []]


@pytest.mark.parametrize(
    ("entry", "changed", "options"),
    [
        ("patch_layer_norm(compiled=False)", 2, []),
        (
            "tuner.patching_utils:patch_compile_options(debug=True)",
            0,
            ["torch._inductor.config.max_autotune_pointwise"],
        ),
        ("patch_nothing()", 0, []),
    ],
)
def test_each_of_several_functions_is_a_part(
    torch: str, runner: Runner, entry: str, changed: int, options: list[str]
) -> None:
    answer = applied(runner, torch, f"{TUNING}::{entry}")
    assert len(answer["changed"]) == changed
    assert [one["name"] for one in answer["effects"] if one["kind"] == "config"] == options


def test_parts_of_one_file_are_installed_beside_each_other(torch: str, runner: Runner) -> None:
    calls = load_patch(PROJECTS / TUNING).claims.apply
    first, second = (load_patch(PROJECTS / f"{TUNING}::{call}") for call in calls)
    answer = runner.ask(
        torch, "undone", profile=load_profile("h200"), **loading(second), after=[loading(first)]
    )
    assert answer["undone"] == []


def test_a_part_of_a_file_is_imported_in_the_place_of_the_file(
    torch: str, runner: Runner, tmp_path: Path
) -> None:
    whole = PROJECTS / "training/trainer/compile/patch_backward.py"
    parts = []
    for at, owner in enumerate(("aot_autograd", "partitioners")):
        folder = tmp_path / ".parts" / f"part-{at}"
        folder.mkdir(parents=True)
        (folder / "patch.py").write_text(
            f"from torch._functorch import {owner}\nfrom ..torch_version import "
            "required_torch_version\n"
            f"from .partition import keep_all\n{owner}.default_partition = keep_all\n"
        )
        (folder / "patch.toml").write_text(f'part_of = "{whole}"\n')
        parts.append(loading(load_patch(folder)))
    first, second = parts
    name = "torch._functorch.{}.default_partition"
    answer = applied(runner, torch, LATE, **first)
    assert answer["changed"] == [name.format("aot_autograd")], answer
    answer = applied(
        runner, torch, LATE, "new interpreter", names=answer["changed"], variables=[], **first
    )
    assert (answer["missing"], answer["dead"]) == ([], [])
    answer = runner.ask(torch, "undone", profile=load_profile("h200"), **second, after=[first])
    assert answer["undone"] == [], answer


def test_what_installs_a_patch_and_is_not_there_is_the_failure_of_the_patch(
    torch: str, runner: Runner
) -> None:
    failure = applied(runner, torch, LATE, install=["instal()"])["failure"]
    assert failure["cause"] == "raised"
    assert "instal" in failure["signature"]


def test_without_its_stubs_a_package_has_stand_ins_for_all_that_it_lacks(
    torch: str, runner: Runner
) -> None:
    answer = applied(runner, torch, RUNTIME, stubs=[])
    assert {use["name"].partition(".")[0] for use in answer["stubbed"]} == {"fastserve", "runtime"}


STAND_INS = ["decode", "decode.registry"]


def test_what_cannot_be_imported_of_a_project_is_replaced_and_the_patch_runs(
    torch: str, runner: Runner
) -> None:
    patch = load_patch(PROJECTS / INFERENCE)
    assert patch.claims.apply == ("install",)
    judged = with_stand_ins(replace(runner.run, rows={torch: ""}), patch, runner)
    assert judged.stand_ins == {
        "decode": "ModuleNotFoundError: No module named 'decode_kernels'",
        "decode.registry": "RuntimeError: no accelerator was found",
    }
    answer = runner.ask(
        torch, "apply", profile=load_profile("h200"), version=torch, targets=[], **loading(judged)
    )
    assert answer["changed"] == [REALIZE]
    names = {use["name"] for use in answer["stubbed"]}
    assert {"decode.registry", "quick_json.loads()"} <= names
    assert not [name for name in names if name.startswith("decode_npu")]  # it can do without


def test_where_a_stand_in_would_decide_a_patch_is_not_judged(torch: str, runner: Runner) -> None:
    failure = applied(runner, torch, INFERENCE.replace("realize", "decided"), stubs=STAND_INS[:1])[
        "failure"
    ]
    assert failure["cause"] == "missing"
    assert failure["signature"].endswith(
        "decode_kernels.READERS, which is not here, decides; not installed: decode_kernels"
    )
    assert failure["missing"] == ["decode_kernels"]


ABOUT_A_DEVICE = """import torch
torch.accelerator.memory_stats = torch.npu.memory_stats
"""


def test_a_device_that_torch_lacks_has_a_stand_in(
    torch: str, runner: Runner, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (tmp_path / "setup.py").write_text("setup(install_requires=['torch-npu'])")
    (mine / "__init__.py").touch()
    (mine / "patch.py").write_text(ABOUT_A_DEVICE)
    patch = load_patch(mine / "patch.py")
    judged = with_stand_ins(replace(runner.run, rows={torch: ""}), patch, runner)
    assert list(judged.stand_ins) == ["torch.npu"]
    how = loading(judged) | {"version": torch, "targets": []}
    answer = runner.ask(torch, "apply", profile=load_profile("h200"), **how)
    assert answer["changed"] == ["torch.accelerator.memory_stats"]
    assert [use["name"] for use in answer["stubbed"]] == ["torch.npu.memory_stats"]
    surface = runner.ask(
        torch, "surface", profile=load_profile("h200"), targets=[], **loading(judged)
    )
    assert surface["changed"] == answer["changed"], surface
    (tmp_path / "setup.py").write_text("setup(install_requires=['torch'])")
    assert not with_stand_ins(replace(runner.run, rows={torch: ""}), patch, runner).stand_ins


@pytest.mark.parametrize(
    ("before", "is_the_patchs"), [("", False), ("import os\nos.environ['A'] = 'b'\n", True)]
)
def test_what_an_import_of_another_project_changes_is_not_the_patchs(
    torch: str, runner: Runner, tmp_path: Path, before: str, is_the_patchs: bool
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "mine").mkdir()
    text = "import torch._inductor.utils as utils\nutils.{} = lambda *given: False\n"
    (tmp_path / "other" / "accelerated.py").write_text(text.format("is_gpu"))
    patch = tmp_path / "mine" / "patch.py"
    patch.write_text(f"{before}import accelerated\n{text.format('is_cpu_device')}")
    how = loading(load_patch(patch)) | {"version": torch, "targets": []}
    how["paths"] = [str(tmp_path / "other")]
    answer = runner.ask(torch, "apply", profile=load_profile("h200"), **how)
    names = [f"torch._inductor.utils.{name}" for name in ("is_cpu_device", "is_gpu")]
    assert answer["changed"] == names[: 1 + is_the_patchs]


SCOPE = """import contextlib
import torch._inductor.utils as utils
{changes}

@contextlib.contextmanager
def scope():
    before, utils.is_gpu = utils.is_gpu, lambda device: False
    yield
    utils.is_gpu = before
"""


@pytest.mark.parametrize(
    ("changes", "leaks"),
    [("", []), ("utils.is_cpu_device = None", ["torch._inductor.utils.is_cpu_device"])],
)
def test_what_packages_change_that_import_a_scope_is_not_left_by_it(
    torch: str, runner: Runner, tmp_path: Path, changes: str, leaks: list[str]
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    text = "import torch._inductor.utils as utils\nutils.get_k_splits = None\n"
    (mine / "__init__.py").write_text(f"from mine import scoped\n{text}")
    (mine / "scoped.py").write_text(SCOPE.format(changes=changes))
    how = loading(load_patch(mine / "scoped.py")) | {"scope": "scope", "install": []}
    asked = {"version": torch, "targets": []}
    answer = runner.ask(torch, "apply", profile=load_profile("h200"), **how, **asked)
    assert answer["leaks"] == leaks
    assert "torch._inductor.utils.is_gpu" in answer["changed"]
    assert "torch._inductor.utils.get_k_splits" not in answer["changed"]


INSTALLED = """import torch._inductor.utils as utils

def install():
    utils.is_gpu = lambda device: False

def nothing():
    utils.get_k_splits = utils.get_k_splits
"""
OF_PACKAGE = "import torch._inductor.utils as utils\nutils.get_k_splits = None\n"


@pytest.mark.parametrize(
    ("package", "function", "own"),
    [
        (OF_PACKAGE, "install", True),
        (f"from mine import patch\n{OF_PACKAGE}", "install", True),
        (f"{OF_PACKAGE}from mine import patch\n", "nothing", False),
        (f"{OF_PACKAGE}from mine.patch import install\ninstall()\n", "install", True),
    ],
)
def test_what_a_package_changes_is_not_of_the_function_that_installs_the_patch(
    torch: str, runner: Runner, tmp_path: Path, package: str, function: str, own: bool
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "__init__.py").write_text(package)
    (mine / "patch.py").write_text(INSTALLED)
    how = loading(load_patch(Path(f"{mine / 'patch.py'}::{function}")))
    asked = {"version": torch, "targets": []}
    answer = runner.ask(torch, "apply", profile=load_profile("h200"), **how, **asked)
    assert answer["changed"] == ["torch._inductor.utils.is_gpu"] * own
    assert answer["by_package"] == ["torch._inductor.utils.get_k_splits"]


def test_a_table_of_python_in_which_torch_has_registered_the_original_is_a_holder(
    torch: str, runner: Runner, tmp_path: Path
) -> None:
    patch = tmp_path / "reductions.py"
    text = """from torch.multiprocessing import reductions
reductions._reduce_tensor_before = reductions.reduce_tensor
reductions.reduce_tensor = lambda tensor: reductions._reduce_tensor_before(tensor)
"""
    for more, held in (("", True), ("reductions.init_reductions()\n", False)):
        patch.write_text(text + more)
        how = loading(load_patch(patch)) | {"version": torch, "targets": []}
        answer = runner.ask(torch, "apply", profile=load_profile("h200"), **how)
        names = [name for holders in answer["holders"].values() for name in holders]
        assert any("ForkingPickler" in name for name in names) is held, answer["holders"]


def test_what_is_loaded_after_a_patch_that_is_imported_first_is_named(
    torch: str, runner: Runner, tmp_path: Path
) -> None:
    patch = tmp_path / "first.py"
    patch.write_text("import torch._inductor.utils as utils\nutils.is_gpu = lambda device: False\n")
    names = ["torch._inductor.ir.is_gpu", "torch._inductor.utils.is_gpu"]
    about = {"names": [], "variables": [], "holders": names, "version": torch}
    answer = runner.ask(
        torch,
        "new interpreter",
        profile=load_profile("h200"),
        **about,
        **loading(load_patch(patch)),
    )
    assert answer["later"] == names[:1], answer


def test_a_handler_in_a_thread_local_is_seen_and_a_call_into_cpp_is_named(
    torch: str, runner: Runner, tmp_path: Path
) -> None:
    handler = tmp_path / "handler.py"
    handler.write_text(
        (ROOT / "fixtures" / "verdicts" / "PG211-sets-a-handler.py").read_text("utf-8")
    )
    answer = applied(runner, torch, str(handler))
    assert (answer["changed"], answer["calls"]) == ([], [])
    assert any("threadlocal" in name for name in answer["held"])
    handler.write_text("import torch\n\ntorch.init_num_threads()\n")
    answer = applied(runner, torch, str(handler))
    assert (answer["changed"], answer["effects"], answer["held"]) == ([], [], [])
    assert answer["calls"] == ["torch.init_num_threads"]


def test_denormals_that_are_flushed_are_seen(torch: str, runner: Runner, tmp_path: Path) -> None:
    patch = tmp_path / "flushes.py"
    patch.write_text("import torch\n\ntorch.set_flush_denormal(True)\n")
    (seen,) = applied(runner, torch, str(patch))["effects"]
    assert seen["name"] == "float arithmetic"


def test_a_file_is_read_in_the_encoding_that_python_reads_it_in(
    torch: str, runner: Runner, tmp_path: Path
) -> None:
    text = (
        "import torch._inductor.ir as ir\r\nname = 'caf\u00e9'\r\nif ir:\r\n    ir.mine = "
        "lambda: None\r\n"
    )
    for at, (head, encoding) in enumerate(
        [("", "utf-8-sig"), ("# -*- coding: latin-1 -*-\r\n", "latin-1")]
    ):
        patch = tmp_path / f"read_{at}.py"
        patch.write_bytes((head + text).encode(encoding))
        for question in ("apply", "surface"):
            answer = applied(runner, torch, str(patch), question)
            assert "failure" not in answer, answer
            assert answer["changed"] == ["torch._inductor.ir.mine"]


READS_THE_VERSION = (
    "torch.__version__",
    "torch.version.__version__",
    "torch.torch_version.__version__",
    "importlib.metadata.version('torch')",
    "importlib.metadata.distribution('torch').version",
    "importlib.metadata.metadata('torch')['Version']",
)


def test_a_version_check_gets_the_faked_release_wherever_it_reads_it(
    torch: str, runner: Runner, tmp_path: Path
) -> None:
    patch = tmp_path / "gated.py"
    checks = (
        f"if {read} == '9.8.7':\n    ir.read_{at} = True\n"
        for at, read in enumerate(READS_THE_VERSION)
    )
    patch.write_text(
        f"import importlib.metadata, torch\nimport torch._inductor.ir as ir\n{''.join(checks)}"
    )
    how = loading(load_patch(patch))
    answer = runner.ask(
        torch, "apply", profile=load_profile("h200"), version="9.8.7", targets=[], **how
    )
    assert answer["changed"] == [
        f"torch._inductor.ir.read_{at}" for at in range(len(READS_THE_VERSION))
    ]


@pytest.mark.parametrize("patched", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_a_project_brings_its_own_device_as_a_profile_that_its_table_names(
    torch: str, runner: Runner, patched: bool
) -> None:
    path = PROJECTS / "accelerator" / "npu_backend" / "patch_modules.py"
    project = find_project(path)
    assert project.judged_devices == ("npu", "cpu")
    profile, workload = load_profile("npu", project.profiles), load_workloads()["pointwise"]
    answer = runner.ask(
        torch, "observe", **request_for(workload, profile, load_patch(path) if patched else None)
    )
    assert failure_of(answer) is None, answer
    assert "# generated for npu" in answer["code"][0]
    facts = answer["facts"]
    assert (facts["kernels.called"], facts["dynamo.graphs"], facts["bytes.total"]) == (
        1,
        1,
        3 * 4 * 4096**2,
    )
