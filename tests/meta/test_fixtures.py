"""The material that is judged with: every patch, workload, profile, row and golden file holds
together.
"""

import ast
import re
from pathlib import Path

import pytest

from patchgate.inputs.devices import load_profile
from patchgate.inputs.golden import accepted_path, format_golden, load_accepted, read_golden
from patchgate.inputs.matrix import load_matrix
from patchgate.inputs.models import model_names, model_workloads
from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import OPTIONS, load_workloads
from patchgate.model.facts import UNPATCHED

ROOT = Path(__file__).resolve().parents[2]
PATCHES = sorted(path for path in (ROOT / "fixtures" / "patches").iterdir() if path.is_dir())
PROFILES = sorted(path.stem for path in (ROOT / "fixtures" / "devices").glob("*.toml"))
# golden/surface is the API index; its own tests look after it.
FACTS = [*(ROOT / "golden").glob("*.txt"), *(ROOT / "golden" / "recorded").glob("*.txt")]
GOLDEN = sorted(path for path in FACTS if path != accepted_path(ROOT / "golden"))
WORKLOADS = load_workloads()
MODELS = model_workloads(model_names())
# The probe reads these fields of a profile, by its kind.
KEYS = {
    "simulated": {"name", "kind", "backend", "properties", "blocks_per_multiprocessor", "source"},
    "codegen": {"name", "kind", "backend", "isa", "threads"},
    "plugin": {"name", "kind", "backend", "plugin"},
    "real": {"name", "kind", "backend"},
}
PROPERTIES = {
    "name",
    "major",
    "minor",
    "multi_processor_count",
    "total_memory",
    "regs_per_multiprocessor",
    "max_threads_per_multi_processor",
    "warp_size",
    "shared_memory_per_block_optin",
}


@pytest.mark.parametrize("folder", PATCHES, ids=lambda folder: folder.name)
def test_a_patch_loads_and_its_symptom_can_be_measured(folder):
    patch = load_patch(folder)
    assert (patch.id, patch.manifest is not None) == (folder.name, True)
    symptom = patch.claims.symptom
    known = WORKLOADS | load_workloads(folder / "workloads")
    assert symptom is None or (symptom.workload in known and symptom.device in PROFILES)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_can_be_built_at_both_scales_and_is_checked(name):
    workload = WORKLOADS[name]
    tree = ast.parse(Path(workload.path).read_text("utf-8"))
    (build,) = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "build"
    ]
    assert [argument.arg for argument in build.args.args] == ["device", "dtype", "scale"]
    assert workload.checks
    assert ast.get_docstring(tree)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_has_the_keys_that_the_probe_needs(name):
    profile = load_profile(name)
    assert KEYS[profile["kind"]] <= profile.keys()
    assert profile["backend"] in ("cuda", "cpu")
    assert profile["kind"] != "simulated" or profile["properties"].keys() >= PROPERTIES


def test_the_probe_reads_no_other_key_of_a_profile():
    texts = [path.read_text("utf-8") for path in (ROOT / "patchgate" / "probe").rglob("*.py")]
    read = {key for text in texts for key in re.findall(r"\bprofile\"?\]?\[\"(\w+)\"\]", text)}
    assert read <= set().union(*KEYS.values())
    assert {"kind", "backend", "properties"} <= read


def test_every_profile_names_where_its_figures_come_from():
    for name in PROFILES:
        assert len(load_profile(name)["source"]) > 10, name


def test_every_simulated_profile_has_the_same_properties():
    """As `torch.cuda.get_device_properties` has them on the device that was read here."""
    simulated = [
        load_profile(name) for name in PROFILES if load_profile(name)["kind"] == "simulated"
    ]
    assert len(simulated) >= 6
    assert {frozenset(profile["properties"]) for profile in simulated} == {
        frozenset(load_profile("h200")["properties"])
    }
    assert all(profile["name"] == profile["properties"]["name"] for profile in simulated)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: str(path.relative_to(ROOT / "golden")))
def test_a_golden_file_is_canonical_and_about_what_there_is(path):
    workload, device = path.stem.split(".")
    golden = read_golden(path, workload, device)
    assert format_golden(golden) == path.read_text("utf-8")
    assert (workload in {*WORKLOADS, *MODELS, OPTIONS.name}, device in PROFILES) == (True, True)
    assert golden.sections.keys() <= {UNPATCHED, *(folder.name for folder in PATCHES)}


def test_accepted_patches_are_canonical_and_there():
    accepted = load_accepted(ROOT / "golden")
    assert format_golden(accepted) == accepted_path(ROOT / "golden").read_text("utf-8")
    assert {*accepted.sections} <= {folder.name for folder in PATCHES}


def test_the_matrix_has_rows_to_judge_before_a_merge():
    rows = load_matrix()
    assert len({row.torch for row in rows}) == len(rows)
    assert [row.torch for row in rows if "premerge" in row.tags]


def test_there_is_something_of_everything():
    assert all((PATCHES, WORKLOADS, PROFILES, GOLDEN))
