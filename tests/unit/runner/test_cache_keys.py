"""Content keys change with what a measurement depends on, and with nothing else."""

import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import replace
from pathlib import Path

import pytest

from patchgate.inputs.devices import load_profile
from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import load_workloads
from patchgate.model.errors import UsageError
from patchgate.model.paths import ROOT
from patchgate.model.records import Numerics
from patchgate.runner import cache_keys
from patchgate.runner.cache_keys import (
    answer_key,
    environment_digest,
    files_digest,
    knows_its_place,
    loaded_digest,
    machine_digest,
    patch_digest,
    read_environment,
    stands_alone,
)
from patchgate.runner.client import request_for

H200 = load_profile("h200")


def key_of(workload, identity, profile=H200):
    """The key of the facts of a workload."""
    return answer_key({"do": "observe", **request_for(workload, profile, None)}, identity)


@pytest.fixture
def patch(folder):
    (folder / "mine").mkdir()
    (folder / "mine" / "patch.py").write_text("x = 1\n")
    return load_patch(folder / "mine")


def test_a_key_is_of_the_content(patch, folder):
    workload, digest = load_workloads()["pointwise"], patch_digest(patch)
    key = key_of(workload, digest)
    assert key == key_of(workload, patch_digest(load_patch(folder / "mine")))
    others = [
        key_of(workload, digest, load_profile("cpu")),
        key_of(load_workloads()["conv_stem"], digest),
        key_of(workload, "here"),
    ]
    (folder / "mine" / "table.json").write_text("{}")  # a patch may read what lies beside it
    others.append(key_of(workload, patch_digest(patch)))
    assert len({key, *others}) == 5


def test_a_patch_is_also_what_it_may_import(folder):
    (folder / "engine" / "patches").mkdir(parents=True)
    for file in (
        "engine/__init__.py",
        "engine/version.py",
        "engine/patches/reuse.py",
        "script.py",
        "beside.py",
    ):
        (folder / file).write_text("x = 1\n")
    module = load_patch(folder / "engine/patches/reuse.py")
    (folder / "script.py").write_text("import beside\nopen('table.json')\n")
    script = load_patch(folder / "script.py")
    before = patch_digest(module), patch_digest(script)
    (folder / "another.py").write_text("x = 1\n")
    (folder / "engine/version.py").write_text("x = 2\n")
    after = patch_digest(module), patch_digest(script)
    assert (before[0] == after[0], before[1] == after[1]) == (False, True)
    (folder / "beside.py").write_text("x = 2\n")
    changed = patch_digest(script)
    (folder / "table.json").write_text("{}")
    assert len({before[1], changed, patch_digest(script)}) == 3


@pytest.mark.parametrize(
    ("source", "is_same"),
    [
        ("x = 1\n", True),
        ("import tomllib\n", False),
        ("import plain\n", True),
        ("import reader\n", False),
    ],
)
def test_a_manifest_is_no_part_of_what_is_loaded_but_for_how_and_for_what_reads_it(
    folder, source, is_same
):
    (folder / "plain.py").write_text("x = 1\n")
    (folder / "reader.py").write_text("import tomllib\n")
    (folder / "one.py").write_text(source)
    (folder / "one.toml").write_text('title = "One"\n')
    before = load_patch(folder / "one.py")
    digests = loaded_digest(before), patch_digest(before)
    (folder / "one.toml").write_text('title = "One"\nnumerics = "rounding"\n')
    after = load_patch(folder / "one.py")
    assert (after.manifest, after.claims.numerics) == (before.manifest, Numerics.ROUNDING)
    assert (loaded_digest(after) == digests[0], patch_digest(after) == digests[1]) == (
        is_same,
        False,
    )
    assert loaded_digest(
        replace(after, claims=replace(after.claims, environment=("A=1",)))
    ) != loaded_digest(after)
    (folder / "one.py").write_text(f"{source}y = 1\n")
    assert loaded_digest(load_patch(folder / "one.py")) != digests[0]


@pytest.mark.parametrize("place", ["mine", "mine.py"])
def test_a_patch_is_also_what_it_names_in_the_folders_of_its_project(folder, patch, place):
    module = folder / "src" / "costs" / "model.py"
    module.parent.mkdir(parents=True)
    module.write_text("x = 1\n")
    (folder / "src" / "other.py").write_text("x = 1\n")
    importing = replace(
        patch, path=str(folder / place / "patch.py" if place == "mine" else folder / place)
    )
    importing = replace(
        importing, source="from costs.model import x\n", paths=(str(folder / "src"),)
    )
    before = patch_digest(importing)
    (folder / "src" / "other.py").write_text("x = 2\n")
    assert patch_digest(importing) == before
    module.write_text("x = 2\n")
    assert patch_digest(importing) != before


@pytest.mark.parametrize(
    ("source", "knows"),
    [("import torch\n", False), ("print(__file__)\n", True), ("def f(:\n", True)],
)
def test_a_patch_that_may_ask_where_it_lies_knows_its_place(folder, source, knows):
    (folder / "mine.py").write_text(source)
    assert knows_its_place(folder / "mine.py") is knows


@pytest.mark.parametrize(
    ("source", "is_seen"),
    [
        ("open(f'{name}.json').read()", True),
        ("import ast\nast.walk(tree)", True),
        ("import os\nos.listdir(name)", True),  # the child says so
        ("import torch\ntorch.load(name), torch.jit.script(f)", True),
        ("import os\nos.path.exists(name)", False),
        ("from os.path import exists as there", False),
        ("from pathlib import Path\nPath(name).is_file()", False),
        ("import os\nos.stat(name)", False),
        ("from importlib.util import find_spec\nfind_spec('x')", False),
        ("import sqlite3", False),
        ("from multiprocessing import get_context", False),
        ("from torch.utils.cpp_extension import load_inline", False),
        ("import torch.utils.cpp_extension as cpp", False),
        ("from torch.utils import cpp_extension", False),
        ("import torch\ntorch.jit.load(name)", False),
        ("import torch\ntorch.from_file(name)", False),
    ],
)
def test_what_is_read_where_nobody_sees_it_does_not_stand_alone(folder, source, is_seen):
    (folder / "mine.py").write_text(source)
    assert stands_alone(folder / "mine.py", "files") is is_seen


def test_a_real_device_has_no_key(patch):
    assert key_of(load_workloads()["pointwise"], "here", load_profile("cuda")) is None


@pytest.mark.parametrize(
    ("imports", "has_key"),
    [
        ("import math, torch.nn as nn", True),
        ("def build():\n    from engine import Block", False),
        ("from . import x", False),
    ],
)
def test_a_workload_that_imports_code_of_its_project_has_no_key(folder, imports, has_key):
    (folder / "own.py").write_text(f"{imports}\n")
    workload = replace(load_workloads()["pointwise"], path=str(folder / "own.py"))
    assert (key_of(workload, "here") is not None) is has_key
    assert (
        answer_key({"do": "run", "workload_path": workload.path}, "here") is not None
    ) is has_key


def test_the_file_that_makes_a_device_known_is_part_of_the_keys(folder):
    plugin, workload = folder / "device.py", load_workloads()["pointwise"]
    profile = {"name": "npu", "kind": "plugin", "backend": "npu", "plugin": str(plugin)}

    def keys():
        asked = {"do": "sentinel", "profile": profile}
        return key_of(workload, "here", profile), answer_key(asked, "here")

    plugin.write_text("import torch\n\n\ndef register(): ...\n")
    first = keys()
    plugin.write_text("import torch\n\n\ndef register():\n    torch.utils\n")
    assert not {None, *first} & {*keys()}
    plugin.write_text("from npu_backend import register\n")  # its code is not read here
    assert keys() == (None, None)


def test_numbers_are_those_of_the_same_question_on_the_same_torch(tmp_path):
    path = tmp_path / "stack.py"
    path.write_text("a")
    asked = {
        "do": "run",
        "workload_path": str(path),
        "seeds": [0, 1],
        "env": {"TORCHINDUCTOR_CACHE_DIR": "here"},
        "outputs": "here",
    }
    key = answer_key(asked, "torch")
    assert key == answer_key(asked | {"env": {}, "outputs": "there"}, "torch")
    others = {answer_key(asked | {"seeds": [0]}, "torch"), answer_key(asked, "another")}
    others.add(answer_key(asked | {"env": {"PYTHONHASHSEED": "1"}}, "torch"))
    path.write_text("b")
    others.add(answer_key(asked, "torch"))
    assert len(others | {key}) == 5


def test_a_second_patch_has_no_key():
    """Its content is not named."""
    assert answer_key({"do": "apply", "after": [{"patch": "other.py"}]}, "torch") is None


@pytest.fixture
def python(folder):
    """An interpreter whose torch is below `site`, which nobody who reads its files imports."""
    venv.create(folder / "environment", symlinks=True)
    (packages,) = (folder / "environment").glob("lib/python3*/site-packages")
    (folder / "site").symlink_to(packages)
    modules = ("torch", "torch/nn/functional", "triton", "sympy", "sympy/core", "started")
    for name in (f"{each}.py" if "/" in each else f"{each}/__init__.py" for each in modules):
        (folder / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        text = "" if name.startswith("started") else "raise SystemExit('imported')\n"
        (folder / "site" / name).write_text(text)
    (folder / "site" / "sitecustomize.py").write_text("import started\n")
    (folder / "site" / "torch" / "half.h").write_text("#define WIDTH 4\n")
    (folder / "site" / "torch" / "large.so").write_bytes(b"digest of a build: 1".ljust(2 << 20))
    (folder / "site" / "torch" / "lib.so").write_bytes(b"12")
    (folder / "site" / "loose").mkdir()
    (folder / "site" / "loose" / "tables.py").touch()
    (folder / "site" / "named-1.dist-info").mkdir()
    (folder / "site" / "named-1.dist-info" / "METADATA").write_text("Name: named\nVersion: 1\n")
    return str(folder / "environment" / "bin" / "python")


def _digest_now(python):
    """As a later command gets it."""
    cache_keys.read_environment.cache_clear()
    cache_keys._compiler.cache_clear()
    return environment_digest(python)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("site/torch/nn/functional.py", "x = 2\n"),  # also of what is no part of the compiler
        ("site/torch/lib.so", "123"),
        ("site/torch/new.py", ""),
        ("site/triton/__init__.py", "x = 2\n"),
        ("site/sitecustomize.py", "import os\n"),
        ("site/started/__init__.py", "x = 2\n"),  # which that one imports
        ("site/sympy/core.py", "x = 2\n"),  # Inductor computes with it
        ("site/torch/half.h", "#define WIDTH 8\n"),  # of the same size; kernels include it
        ("site/torch/large.so", "digest of a build: 2".ljust(2 << 20)),
        ("site/loose/tables.py", "x = 2\n"),  # of no distribution
        ("site/named-1.dist-info/entry_points.txt", "[group]\nname = os:path\n"),
    ],
)
def test_an_environment_is_every_file_of_torch_and_what_python_starts_with(
    folder, python, file, content
):
    before = _digest_now(python)
    compiled = folder / "site/torch/__pycache__/nn.cpython-311.pyc"
    compiled.parent.mkdir()
    compiled.touch()
    compiled.with_suffix(".pyc.140234567").touch()  # as Python writes it
    assert _digest_now(python) == before
    (folder / file).write_text(content)
    assert _digest_now(python) != before


@pytest.mark.parametrize(
    ("name", "value", "is_same"),
    [
        ("LD_LIBRARY_PATH", "/opt/other/lib", False),
        ("CUDA_HOME", "/opt/cuda", False),
        ("LANG", "de_DE.UTF-8", True),
        ("LC_ALL", "C", True),
        ("OMP_NUM_THREADS", "3", True),
        ("TORCHINDUCTOR_MAX_AUTOTUNE", "1", True),
        ("HOME", "/tmp", True),
    ],
)
def test_an_environment_names_the_variables_that_a_server_has_and_no_others(
    python, monkeypatch, name, value, is_same
):
    for variable in ("LD_LIBRARY_PATH", "CUDA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    before = _digest_now(python)
    monkeypatch.setenv(name, value)
    assert (_digest_now(python) == before) is is_same


def test_another_compiler_on_the_path_is_another_environment(folder, python, monkeypatch):
    before = _digest_now(python)
    compiler = folder / "bin" / "g++"
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\necho g++ 99.1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{compiler.parent}:{os.environ['PATH']}")
    assert _digest_now(python) != before


@pytest.mark.parametrize("program", ["g++", "cc1plus"])
def test_a_compiler_that_reports_the_same_may_be_another_one(folder, python, monkeypatch, program):
    parts = folder / "parts"
    parts.mkdir()
    texts = {
        "g++": f"#!/bin/sh\ncase $1 in *=cc1plus) echo {parts}/cc1plus;; *) echo 12.2;; esac\n",
        "cc1plus": "#!/bin/sh\n",
    }
    for name, text in texts.items():
        (parts / name).write_text(text)
        (parts / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{parts}:{os.environ['PATH']}")
    before = _digest_now(python)
    assert _digest_now(python) == before
    (parts / program).write_text(f"{texts[program]}# -ffast-math\n")
    assert _digest_now(python) != before


def test_an_environment_is_the_modules_of_python_itself(folder, python):
    """The environment is moved to an interpreter whose modules are links to the real ones."""
    real = Path(sysconfig.get_path("stdlib"))
    modules = folder / "base" / "lib" / real.name
    modules.mkdir(parents=True)
    for path in real.iterdir():
        (modules / path.name).symlink_to(path)
    config = folder / "environment" / "pyvenv.cfg"
    lines = [line for line in config.read_text().splitlines() if not line.startswith("home")]
    config.write_text("\n".join([f"home = {folder}/base/bin", *lines]))
    before = _digest_now(python)
    (modules / "heapq.py").unlink()
    (modules / "heapq.py").write_bytes((real / "heapq.py").read_bytes())
    assert _digest_now(python) == before
    with open(modules / "heapq.py", "a", encoding="utf-8") as file:
        file.write("x = 2\n")
    assert _digest_now(python) != before


def test_the_torch_that_is_read_is_the_one_that_a_server_imports(folder, python, monkeypatch):
    """A server has none of the caller's folders to import from."""
    other = folder / "other" / "torch" / "__init__.py"
    other.parent.mkdir(parents=True)
    other.touch()
    monkeypatch.setenv("PYTHONPATH", str(folder / "other"))
    (folder / "site" / "torch").rename(folder / "gone")
    with pytest.raises(UsageError, match="no torch in this environment"):
        _digest_now(python)


def test_what_is_measured_with_a_patch_is_of_one_machine_and_user(monkeypatch):
    before = machine_digest()
    assert machine_digest() == before
    for name, value in (("cpu_count", 99), ("getpriority", 7)):
        with monkeypatch.context() as changed:
            changed.setattr(os, name, lambda *_, value=value: value)
            assert machine_digest() != before
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/opt/other/bin")
    assert machine_digest() != before


@pytest.mark.parametrize("change", ["os.umask(0o077)", "setrlimit(RLIMIT_NOFILE, (99, 99))"])
def test_what_is_measured_with_a_patch_is_of_what_its_process_inherits(change):
    """In another process, because they cannot be undone."""
    source = f"""
import os
from resource import *
from patchgate.runner.cache_keys import machine_digest
before = machine_digest()
assert before == machine_digest()
{change}
assert before != machine_digest()
"""
    assert subprocess.run([sys.executable, "-c", source], cwd=ROOT).returncode == 0


def test_an_environment_without_torch_is_refused():
    with pytest.raises(UsageError, match="no torch in this environment"):
        read_environment(sys.executable)


def test_no_module_of_a_package_is_read_through_a_link_out_of_the_repository(
    folder, tmp_path_factory
):
    outside = tmp_path_factory.mktemp("outside") / "data"
    outside.write_text("x = 1\n")
    (folder / ".git").mkdir()
    (folder / "engine").mkdir()
    for name in ("__init__", "fast"):
        (folder / "engine" / f"{name}.py").touch()
    (folder / "engine" / "link.py").symlink_to(outside)
    before = patch_digest(load_patch(folder / "engine" / "fast.py"))
    outside.write_text("x = 2\n")
    assert patch_digest(load_patch(folder / "engine" / "fast.py")) == before


def test_nothing_is_read_through_a_link_out_of_the_repository(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "data"
    outside.write_text("1")
    (folder / "mine").mkdir()
    (folder / "mine" / "patch.py").write_text("x = 1\n")
    before = files_digest(folder / "mine")
    (folder / "mine" / "data").symlink_to(outside)  # /proc/kmsg would never end
    assert files_digest(folder / "mine") == before
    (folder / "mine" / "inner").symlink_to("patch.py")
    assert files_digest(folder / "mine") != before
