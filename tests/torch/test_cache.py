"""The compiler's caches: they hide nothing from our own figures, and answer a fork as they answer a
new process.
"""

from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from patchgate.checks.framework.find_checks import every_code
from patchgate.inputs.devices import load_profile
from patchgate.inputs.workloads import load_workloads
from patchgate.model.paths import ROOT

STORING = str(ROOT / "fixtures" / "verdicts" / "PG701-stores-what-is-reused.py")
# Fails where the compiler reads torch's headers, as it does to name the precompiled one, or makes
# that.
REFUSING = """
from torch._inductor.cpp_builder import CppBuilder
build = CppBuilder.build

def refuse(self):
    if self._preprocessing or self._precompiling:
        raise RuntimeError("the headers are read")
    return build(self)

CppBuilder.build = refuse
"""
# Notes each command by which C++ is compiled.
NOTING = """
import os
from torch._inductor import cpp_builder
from torch._inductor.codecache import CppPythonBindingsCodeCache
from torch._inductor.cpp_builder import CppBuilder
run, build = cpp_builder.run_compile_cmd, CppBuilder.build
load = CppPythonBindingsCodeCache.load_pybinding_async

def note(line, cwd):
    if " -include " in line:
        with open(os.path.join(os.environ["TORCHINDUCTOR_CACHE_DIR"], "noted"), "a") as file:
            file.write(line + "\\n")
    return run(line, cwd)

cpp_builder.run_compile_cmd = note
"""
# Another child has a temporary file in the same folder.
OF_ANOTHER = """
import os, threading
from torch._inductor import codecache
folder = os.path.join(os.environ["TORCHINDUCTOR_CACHE_DIR"], "aa")
os.makedirs(os.path.join(folder, f".{os.getpid()}.{threading.get_ident()}.tmp"))
codecache.write_atomic(os.path.join(folder, "mine"), "text", make_dirs=True)
codecache.write_atomic(os.path.join(codecache._HEADER_DIR, "of-a-header"), b"text", make_dirs=True)
"""
BUILDING = "CppBuilder.build = lambda self: build(self)\n"
DEFINING = """
def define(arguments, source, **more):
    return load(arguments, 'DIRECTIVE\\n' + source, **more)

CppPythonBindingsCodeCache.load_pybinding_async = define
"""
# After it a kernel has another name: a copy to another dtype comes first. Its backward is equal.
UPCASTING = """
import torch
import torch.nn.functional as F
original = F.gelu

def gelu(input, approximate="none"):
    result = original(input.float(), approximate=approximate)
    return result.to(input.dtype)

F.gelu = gelu
"""
# Its scatter takes an index that a kernel makes.
SCATTERING = str(ROOT / "fixtures" / "fresh-12" / "spyre-lastwrite-fixed" / "patch.py")
NO_FMA = str(ROOT / "fixtures" / "verdicts" / "PG707-no-fused-multiply-add.py")
WORKLOADS = load_workloads()
CHAIN, ROUTING = WORKLOADS["residual_chain"], WORKLOADS["moe_routing"]
TRAINED = WORKLOADS["prenorm_mlp_training"]


def own_folder(kept, torch):
    parent = kept / "cpp" / torch
    parent.mkdir(parents=True, exist_ok=True)
    return Path(mkdtemp(dir=parent))


@pytest.fixture
def ask(torch, runner, kept):
    """Asks about a workload on the CPU; the questions of a test share one cache directory, and all
    tests the headers.

    The directory belongs to this test alone: torch names its temporary files by process and thread,
    which are the same in two children of two workers.
    """
    cache = own_folder(kept, torch)

    def put(do, patch, workload=CHAIN, **request):
        return runner.ask(
            torch,
            do,
            workload=workload.name,
            workload_path=workload.path,
            dtype=workload.dtype,
            dynamic=workload.dynamic,
            profile=load_profile("cpu"),
            patch=patch,
            **{"env": {"TORCHINDUCTOR_CACHE_DIR": str(cache)}, **request},
        )

    return put


def test_a_patch_with_the_lines_to_paste_has_a_key_of_its_own(ask: Any, tmp_path: Path) -> None:
    """It finds nothing that was stored without it, where the same patch without them does."""
    ask("cached", None, tag="")
    assert ask("cached", STORING, tag="")["answers"]["hit"] == 1
    patch = tmp_path / "patch.py"
    patch.write_text(every_code()["PG701"].paste + "\n\n\n" + Path(STORING).read_text("utf-8"))
    answers = ask("cached", str(patch), tag="")["answers"]
    assert (answers["hit"], answers["miss"]) == (0, 1)


def test_the_temporary_file_of_another_child_is_not_touched(
    ask: Any, kept: Path, torch: str, tmp_path: Path
) -> None:
    """Children have the same process number, which torch names temporary files by."""
    patch = tmp_path / "patch.py"
    patch.write_text(OF_ANOTHER)
    cache = own_folder(kept, torch)
    answer = ask("observe", str(patch), env={"TORCHINDUCTOR_CACHE_DIR": str(cache)})
    assert "failure" not in answer
    assert (cache / "aa" / "mine").read_text() == "text"


def test_a_process_started_afresh_is_given_what_a_fork_is_given(ask):
    assert ask("cached", None, tag="")["answers"]["miss"] == 1
    answers = [ask("cached", STORING, tag="", **fresh) for fresh in ({}, {"fresh": True})]
    assert answers[0] == answers[1]
    assert (answers[0]["answers"]["hit"], answers[0]["answers"]["autograd_hit"]) == (1, 1)


def test_no_header_is_made_where_no_kernel_is_built(ask, torch, kept):
    cache = own_folder(kept, torch) / "own" / "cache"
    ask("cached", None, tag="", env={"TORCHINDUCTOR_CACHE_DIR": str(cache)})
    assert not list(cache.parent.rglob("*.h"))


def test_code_of_a_patch_is_its_own_beside_a_warm_cache(ask):
    cold = [ask("observe", patch)["code"] for patch in (None, STORING)]
    assert cold[0] != cold[1]
    ask("cached", None, tag="")
    assert ask("cached", STORING, tag="")["answers"]["hit"] == 1
    assert [ask("observe", patch)["code"] for patch in (None, STORING)] == cold


def test_a_kernel_of_another_name_is_no_other_code(ask, torch, kept, tmp_path):
    (tmp_path / "patch.py").write_text(UPCASTING)
    asked = "cached", str(tmp_path / "patch.py"), TRAINED
    ask("cached", None, TRAINED, tag="", training=True)
    warm = ask(*asked, tag="", training=True)
    cold = {"TORCHINDUCTOR_CACHE_DIR": str(own_folder(kept, torch))}
    assert warm["answers"]["hit"] == 1
    assert warm["code"] == ask(*asked, tag="", training=True, env=cold)["code"]


def test_what_no_kernel_has_written_is_an_index_within_bounds(ask):
    assert ask("cached", SCATTERING, ROUTING, tag="")["answers"]["miss"] == 1


def test_numbers_of_a_patch_are_its_own_beside_a_warm_cache(ask, torch, runner, tmp_path):
    ask("cached", None, tag="")
    sides = {"unpatched": None, "patched": STORING}
    for side, patch in sides.items():
        ask("run", patch, seeds=[0], training=False, small=False, outputs=str(tmp_path / side))
    files = {side: str(tmp_path / side) for side in sides}
    figures = runner.ask(torch, "differ", profile=load_profile("cpu"), **files)["metrics"]
    assert figures["differing"] > 0


@pytest.mark.parametrize(
    ("change", "failure"),
    [
        ("import gc\nassert gc.isenabled()\n", ""),
        ("import os\nos.environ['CPATH'] = '/nowhere'\n", "RuntimeError: the headers are read"),
        (
            "from torch._inductor import config\nconfig.cpp.enable_unsafe_math_opt_flag = True\n",
            "the headers are read",
        ),
    ],
    ids=["nothing", "where headers are", "how they are compiled"],
)
def test_a_patch_has_the_headers_read_only_where_it_changes_what_they_are_for(
    ask, tmp_path, change, failure
):
    how = {"seeds": [0], "training": False, "small": False, "outputs": str(tmp_path / "outputs")}
    patch = tmp_path / "patch" / "patch.py"
    patch.parent.mkdir()
    patch.write_text(change + REFUSING)
    signature = ask("run", str(patch), **how).get("failure", {}).get("signature", "")
    assert failure in signature if failure else not signature


@pytest.mark.parametrize(
    ("change", "commands"),
    [
        ("", 1),
        (BUILDING, 2),
        (DEFINING.replace("DIRECTIVE", "#define NDEBUG 1"), 2),
        (DEFINING.replace("DIRECTIVE", '_Pragma("GCC diagnostic push")'), 2),
        (DEFINING.replace("DIRECTIVE", "#include <vector>"), 1),
    ],
    ids=[
        "nothing",
        "how a kernel is built",
        "directive of a kernel",
        "pragma of a kernel",
        "another header",
    ],
)
def test_kernels_of_a_module_are_compiled_at_once_but_where_a_patch_changes_how(
    ask, torch, runner, kept, tmp_path, change, commands
):
    files = {"unpatched": str(tmp_path / "unpatched"), "patched": str(tmp_path / "patched")}
    how = {"workload": ROUTING, "seeds": [0], "training": False, "small": False}
    folder = own_folder(kept, torch)
    patch = tmp_path / "patch" / "patch.py"
    patch.parent.mkdir()
    patch.write_text(NOTING + change)
    assert "failure" not in ask("run", None, outputs=files["unpatched"], **how)
    answer = ask(
        "run",
        str(patch),
        outputs=files["patched"],
        env={"TORCHINDUCTOR_CACHE_DIR": str(folder)},
        **how,
    )
    assert "failure" not in answer
    assert len((folder / "noted").read_text().splitlines()) == commands
    assert len(list(folder.rglob("*.so"))) == 2
    assert (
        runner.ask(torch, "differ", profile=load_profile("cpu"), **files)["metrics"]["differing"]
        == 0
    )


def test_a_patch_of_triton_is_seen_whatever_was_built_before(torch, runner):
    """The same source, and no cache was named: each process builds its own."""

    def facts(patch):
        answer = runner.ask(
            torch,
            "observe",
            workload=CHAIN.name,
            workload_path=CHAIN.path,
            dtype=CHAIN.dtype,
            dynamic=CHAIN.dynamic,
            resources=True,
            profile=load_profile("h200"),
            patch=patch,
        )
        return answer["facts"]

    unpatched, patched, again = (facts(patch) for patch in (None, NO_FMA, None))
    assert unpatched == again
    parted = {name for name in unpatched if unpatched[name] != patched[name]}
    assert parted >= {"resources.code"}
    assert not [name for name in parted if not name.startswith("resources.")]
