"""Workload files, read without torch, and what each variant of one is called, checked for, and
changes.
"""

import pytest
from expecttest import assert_expected_inline
from refusals import refused, write

from patchgate.inputs.project import Project
from patchgate.inputs.workloads import (
    VARIANTS,
    checks_of_variant,
    load_workloads,
    name_of_variant,
    workloads_with,
)
from patchgate.model.records import Workload

BUILD = "def build(device, dtype, scale): ...\n"
ALL = ("kernels", "parity", "compile_cost", "cache")


def test_a_workload_is_read_from_its_constants(folder):
    path = write(
        folder, "stack.py", f'import torch\nDTYPE = "bfloat16"\nCHECKS = ("kernels",)\n{BUILD}'
    )
    (workload,) = load_workloads(folder).values()
    assert (workload.name, workload.dtype, workload.checks) == ("stack", "bfloat16", ("kernels",))
    assert (workload.path, workload.dynamic) == (str(path), False)


def test_each_variant_of_a_workload_is_one(folder):
    constants = (
        'DTYPE = "float32"\nCHECKS = ("kernels", "parity")\nPREMERGE = ("dynamic",)\nREADS '
        "= (2.0,)\n"
    )
    write(
        folder,
        "stack.py",
        f'{constants}VARIANTS = ("static", "dynamic", "training", "float16")\n{BUILD}',
    )
    found = load_workloads(folder)
    assert {name: one.dynamic for name, one in found.items()} == {
        "stack": False,
        "stack_dynamic": True,
        "stack_training": False,
        "stack_float16": False,
    }
    assert [name for name, one in found.items() if one.premerge] == ["stack_dynamic"]
    assert [name for name, one in found.items() if one.training] == ["stack_training"]
    assert {one.dtype for one in found.values()} == {"float32", "float16"}
    assert found["stack_training"].checks == ("kernels", "parity")
    assert all(one.reads == (2.0,) for one in found.values())


def test_a_patch_may_bring_workloads_of_its_own(folder):
    (folder / "workloads").mkdir()
    (folder / "workloads" / "own.py").write_text(
        'DTYPE = "float32"\nCHECKS = ("kernels",)\ndef build(*_): ...\n'
    )
    (folder / "mine.diff").touch()
    for patch in (folder, folder / "mine.diff"):
        assert workloads_with(patch, Project()).keys() - load_workloads().keys() == {"own"}


@pytest.mark.parametrize(
    ("constants", "judged"),
    [("", ["own"]), ('PREMERGE = ("training",)\n', ["own_training"])],
)
def test_a_workload_next_to_a_patch_is_judged_before_a_merge(folder, constants, judged):
    (folder / "workloads").mkdir()
    text = (
        'DTYPE = "float32"\nCHECKS = ("kernels",)\nVARIANTS = ("static", '
        f'"training")\n{constants}{BUILD}'
    )
    (folder / "workloads" / "own.py").write_text(text)
    found = workloads_with(folder, Project())
    assert [
        name for name, one in found.items() if one.premerge and name.startswith("own")
    ] == judged


def test_own_workload_without_checks_gets_facts_and_numbers(folder):
    (folder / "workloads").mkdir()
    (folder / "workloads" / "own.py").write_text(
        f'DTYPE = "float32"\nVARIANTS = ("training", "dynamic")\n{BUILD}'
    )
    found = workloads_with(folder, Project())
    assert (found["own_training"].checks, found["own_training"].premerge) == (
        ("kernels", "parity"),
        True,
    )
    assert (found["own_dynamic"].checks, found["own_dynamic"].premerge) == (
        ("kernels", "parity"),
        False,
    )


def test_a_module_that_is_no_workload_is_refused(folder):
    write(folder, "stack.py", 'DTYPE = "float32"\nCHECKS = ("kernals",)\n')
    assert_expected_inline(
        refused(load_workloads, folder),
        """\
stack.py:2: not a workload: `CHECKS`: no check `kernals`
  got:  CHECKS = ('kernals',)
  next: did you mean `kernels`?""",
    )


@pytest.mark.parametrize(
    "text",
    [
        'DTYPE = "float32"\n',
        BUILD,
        f'DTYPE = "float32"\nVARIANTS = ("ragged",)\n{BUILD}',
        f'DTYPE = "float32"\nPREMERGE = ("dynamic",)\n{BUILD}',
        f'DTYPE = "float32"\nCHECKS = ("speed",)\n{BUILD}',
    ],
)
def test_a_workload_wants_a_dtype_a_build_and_known_words(folder, text):
    write(folder, "stack.py", text)
    assert "not a workload" in refused(load_workloads, folder)


def test_a_constant_that_only_running_could_tell_is_refused(folder):
    write(folder, "stack.py", f"import torch\nDTYPE = torch.bfloat16\n{BUILD}")
    assert_expected_inline(
        refused(load_workloads, folder),
        """\
stack.py:2: not a workload: `DTYPE` must be a literal
  got:  DTYPE = torch.bfloat16
  next: DTYPE = "bfloat16\"""",
    )


def test_a_workload_that_is_not_python_is_refused(folder):
    write(folder, "stack.py", "x = 1\ndef build(:\n")
    assert_expected_inline(
        refused(load_workloads, folder),
        """\
stack.py:2: not readable as Python
  got:  invalid syntax
  next: correct the file first""",
    )


@pytest.mark.parametrize(
    ("variant", "checks"),
    [
        ("static", ALL),
        ("dynamic", ALL),
        ("float16", ("kernels", "parity")),
        ("training", ("kernels", "parity")),
        ("max-autotune", ("kernels",)),
        ("shapes", ("shapes",)),
    ],
)
def test_a_variant_is_checked_for_what_it_has(variant, checks):
    assert checks_of_variant(variant, ALL) == checks


@pytest.mark.parametrize(
    "variant", ["reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]
)
def test_a_mode_of_a_file_that_is_timed_is_timed(variant):
    assert checks_of_variant(variant, (*ALL, "latency")) == ("latency",)


def test_the_plain_variant_has_the_name_of_the_file():
    assert [name_of_variant("mlp", variant) for variant in ("static", "dynamic-batch")] == [
        "mlp",
        "mlp_dynamic_batch",
    ]


def test_a_variant_changes_fields_that_there_are():
    for changed in VARIANTS.values():
        made = Workload(**({"name": "n", "path": "p", "dtype": "float32"} | changed))
        assert {name: getattr(made, name) for name in changed} == changed


def test_only_what_is_tuned_on_the_device_needs_one():
    needing = {variant for variant, changed in VARIANTS.items() if changed.get("needs_device")}
    assert needing == {"max-autotune", "max-autotune-no-cudagraphs"}


@pytest.mark.parametrize(
    ("name", "ours"),
    [("CHECK", "CHECKS"), ("VARIANT", "VARIANTS"), ("PREMERGES", "PREMERGE"), ("FORM", "FORMS")],
)
def test_a_misspelt_constant_is_refused_with_its_line_and_the_name_that_is_meant(
    folder, name, ours
):
    constants = 'DTYPE = "float32"\n' + ('CHECKS = ("kernels",)\n' if ours != "CHECKS" else "")
    write(folder, "stack.py", f"{constants}{name} = ()\n{BUILD}")
    told = refused(load_workloads, folder)
    line = constants.count("\n") + 1
    assert told.splitlines()[0].endswith(f"stack.py:{line}: no constant `{name}`")
    assert f"next: `{ours}`" in told


@pytest.mark.parametrize("name", ["CHUNKS", "ROWS", "SHAPES", "RANKS", "HIDDEN", "check"])
def test_a_constant_of_the_workloads_own_is_nobodys_business(folder, name):
    write(folder, "stack.py", f'DTYPE = "float32"\nCHECKS = ("kernels",)\n{name} = 2\n{BUILD}')
    assert list(load_workloads(folder)) == ["stack"]
