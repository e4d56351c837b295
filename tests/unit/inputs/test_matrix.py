"""Rows, workloads and device profiles, read without torch."""

import pytest
from expecttest import assert_expected_inline

from patchgate.inputs.matrix import load_matrix, load_profile, load_workloads, profile_of, workloads_with
from patchgate.model.errors import UsageError

ROW = '[[row]]\ntorch = "2.12.1"\npython = ">=3.10"\ntags = ["nightly"]\n'
BUILD = "def build(device, dtype, scale): ...\n"


def write(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refused(call, *arguments):
    with pytest.raises(UsageError) as error:
        call(*arguments)
    return str(error.value)


def test_rows_come_in_release_order(folder):
    path = write(folder, "matrix.toml", ROW + ROW.replace("2.12.1", "2.9.1") + ROW.replace("2.12.1", "2.10.0"))
    assert [row.torch for row in load_matrix(path)] == ["2.9.1", "2.10.0", "2.12.1"]


def test_a_row_has_its_pythons_and_tags(folder):
    (row,) = load_matrix(write(folder, "matrix.toml", ROW))
    assert (row.python, row.tags) == (">=3.10", ("nightly",))


def test_a_row_without_a_version_is_refused(folder):
    path = write(folder, "matrix.toml", ROW.replace("2.12.1", "newest"))
    assert_expected_inline(
        refused(load_matrix, path),
        """\
matrix.toml: a row needs a torch version, pythons and tags
  got:  {'torch': 'newest', 'python': '>=3.10', 'tags': ['nightly']}
  next: torch = "2.12.1", python = ">=3.10,<3.14", tags = ["nightly"]""",
    )


@pytest.mark.parametrize("key", ["torch", "python", "tags"])
def test_a_row_wants_every_key(folder, key):
    text = "\n".join(line for line in ROW.splitlines() if not line.startswith(key))
    assert "a row needs" in refused(load_matrix, write(folder, "matrix.toml", text))


def test_a_version_that_is_a_number_is_refused(folder):
    assert "a row needs" in refused(load_matrix, write(folder, "matrix.toml", ROW.replace('"2.12.1"', "2.12")))


def test_an_unknown_key_of_a_row_is_refused(folder):
    path = write(folder, "matrix.toml", ROW + "tag = 1\n")
    assert_expected_inline(
        refused(load_matrix, path),
        """\
matrix.toml:5: unknown key `row.tag`
  got:  tag = ...
  next: did you mean `tags`?""",
    )


def test_a_workload_is_read_from_its_constants(folder):
    path = write(folder, "stack.py", f'import torch\nDTYPE = "bfloat16"\nCHECKS = ("kernels",)\n{BUILD}')
    (workload,) = load_workloads(folder).values()
    assert (workload.name, workload.dtype, workload.checks) == ("stack", "bfloat16", ("kernels",))
    assert (workload.path, workload.dynamic) == (str(path), False)


def test_each_variant_of_a_workload_is_one(folder):
    constants = 'DTYPE = "float32"\nCHECKS = ("kernels", "parity")\nPREMERGE = ("dynamic",)\nREADS = (2.0,)\n'
    write(folder, "stack.py", f'{constants}VARIANTS = ("static", "dynamic", "training", "float16")\n{BUILD}')
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
    (folder / "workloads" / "own.py").write_text('DTYPE = "float32"\nCHECKS = ("kernels",)\ndef build(*_): ...\n')
    (folder / "mine.diff").touch()
    for patch in (folder, folder / "mine.diff"):
        assert workloads_with(patch).keys() - load_workloads().keys() == {"own"}


def test_a_module_that_is_no_workload_is_refused(folder):
    write(folder, "stack.py", 'DTYPE = "float32"\nCHECKS = ("kernals",)\n')
    assert_expected_inline(
        refused(load_workloads, folder),
        """\
stack.py: not a workload
  got:  constants {'DTYPE': 'float32', 'CHECKS': ('kernals',)}, build: no
  next: define DTYPE = "bfloat16", CHECKS = ("kernels", "parity") and build(device, dtype, scale)""",
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
stack.py:2: a constant of a workload must be a literal
  got:  DTYPE = torch.bfloat16
  next: DTYPE = "bfloat16\"""",
    )


def test_a_workload_that_is_not_python_is_refused(folder):
    write(folder, "stack.py", "x = 1\ndef build(:\n")
    assert_expected_inline(
        refused(load_workloads, folder),
        """\
stack.py:2: not Python
  got:  invalid syntax""",
    )


def test_a_profile_is_read_by_its_name(folder):
    write(folder, "tiny.toml", 'name = "Tiny"\n')
    assert load_profile("tiny", folder) == {"name": "Tiny"}


def test_an_unknown_profile_is_refused_with_those_that_there_are(folder):
    write(folder, "tiny.toml", 'name = "Tiny"\n')
    write(folder, "huge.toml", 'name = "Huge"\n')
    assert_expected_inline(
        refused(load_profile, "h200", folder),
        """\
.: no device profile `h200`
  got:  h200
  next: one of: huge, tiny""",
    )


@pytest.mark.parametrize(("device", "profile"), [("NVIDIA H200", "h200"), ("NVIDIA A2", "cuda"), ("", "cuda")])
def test_a_real_device_is_described_by_the_profile_of_its_name(folder, device, profile):
    write(folder, "h200.toml", 'name = "NVIDIA H200"\n')
    assert profile_of(device, otherwise="cuda", folder=folder) == profile
