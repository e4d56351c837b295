"""Model files: each that comes with patchgate is read, and a bad one is refused with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from patchgate.inputs.models import (
    load_model,
    model_names,
    model_path,
    model_requires,
    model_workloads,
    models_of,
)
from patchgate.inputs.project import Project
from patchgate.inputs.workloads import load_workloads, workloads_with
from patchgate.model.errors import UsageError
from patchgate.model.paths import MODELS

TINY = """\
library = "tiny"
requires = ["tiny>=1,<2"]
class = "Net"
config_class = "NetConfig"
source = "https://example.org/config.json"
dtype = "bfloat16"
inputs.tokens = { shape = [2, 8], dtype = "int64" }
built.layers = 1

[[regions]]
module = "layers.0"
count = 12

[config]
layers = 12
width = 64
"""


def written(folder: Path, old: str = "", new: str = "") -> Path:
    assert old in TINY
    path = folder / "tiny.toml"
    path.write_text(TINY.replace(old, new, 1), encoding="utf-8")
    return path


def test_there_are_models_of_every_kind() -> None:
    entries = {name: load_model(model_path(name)).entry for name in model_names()}
    assert len(entries) >= 40
    assert set(entries.values()) == {"forward", "decode", "training"}


@pytest.mark.parametrize("name", model_names())
def test_a_model_that_comes_with_patchgate_holds_together(name: str) -> None:
    path = model_path(name)
    model = load_model(path)
    assert all(Requirement(each).specifier for each in model.requires), "a range"
    assert any(Requirement(each).name == model.library for each in model.requires)
    assert model.source.startswith("https://")
    assert path.read_text("utf-8").startswith("# ")  # what is compiled, and how often it counts
    assert model_workloads([name]).keys().isdisjoint(load_workloads())


def test_a_workload_of_a_model_has_all_that_the_probe_needs(folder: Path) -> None:
    path = written(folder)
    (workload,) = model_workloads([str(path)]).values()
    assert (workload.name, workload.dtype, workload.count, workload.training) == (
        "tiny",
        "bfloat16",
        12,
        False,
    )
    assert workload.model["config"] == {"layers": 12, "width": 64}
    assert workload.model["built"] == {"layers": 1}
    assert (workload.model["class_"], workload.model["region"]) == ("Net", "layers.0")
    assert workload.model["inputs"] == {"tokens": {"shape": (2, 8), "dtype": "int64", "value": 0.0}}
    assert model_requires([str(path)]) == ("tiny>=1,<2",)


def test_a_key_that_is_published_as_null_reaches_the_probe(folder: Path) -> None:
    (workload,) = model_workloads(
        [str(written(folder, "built.layers = 1", 'null = ["window"]'))]
    ).values()
    assert workload.model["null"] == ("window",)


def test_each_region_of_a_model_is_a_workload(folder: Path) -> None:
    second = '[[regions]]\nname = "last"\nmodule = "layers.1"\ncount = 3\n\n[config]'
    path = written(folder, "[config]", second)
    path.write_text(
        path.read_text().replace('module = "layers.0"', 'name = "first"\nmodule = "layers.0"')
    )
    found = model_workloads([str(path)])
    assert {name: one.count for name, one in found.items()} == {"tiny-first": 12, "tiny-last": 3}


def test_a_projects_models_are_workloads_of_its_patches(folder: Path) -> None:
    written(folder)
    project = Project(root=str(folder), models=("tiny.toml", "llama-3-8b"))
    assert {"tiny", "llama-3-8b"} <= workloads_with(folder / "patch.py", project).keys()


def test_the_model_of_a_workload_is_found() -> None:
    assert models_of(["gemma-3-27b-local", "pointwise"]) == ["gemma-3-27b"]
    assert set(models_of(["llama-3-8b-decode"])) == {"llama-3-8b", "llama-3-8b-decode"}


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ('library = "tiny"\n', "", 1, "`library`: missing"),
        ('class = "Net"', 'class = "a b"', 3, "`class`: not a dotted name"),
        ('["tiny>=1,<2"]', '["torch>=2"]', 2, "torch itself: the gate installs each release of it"),
        ('["tiny>=1,<2"]', '["tiny=1"]', 2, "not a requirement as pip takes it"),
        ("count = 12", 'count = "12"', 12, "`regions.count`: not a whole number"),
        ("count = 12", "count = 0", 12, "less than one"),
        ("built.layers", "built.layer", 8, "no key of `config`"),
        ("built.layers = 1", 'null = ["width"]', 8, "given in `config` too"),
        ('dtype = "bfloat16"', 'dtype = "bfloat16"\nentry = "generate"', 7, "no entry `generate`"),
        ('dtype = "bfloat16"', 'dtype = "bfloat16"\nentry = "decode"', 7, "`cache` is for entry"),
        ('dtype = "bfloat16"', 'dtype = "bfloat16"\nweights = "a"', 7, "`weights`: unknown key"),
        ("shape = [2, 8]", 'shape = "2"', 7, "not a list of whole numbers"),
        (
            "[config]",
            '[[regions]]\nmodule = "layers.1"\ncount = 1\n\n[config]',
            10,
            "need a name each",
        ),
    ],
)
def test_a_file_that_is_no_model_is_refused_with_its_line(
    folder: Path, old: str, new: str, line: int, what: str
) -> None:
    with pytest.raises(UsageError) as error:
        load_model(written(folder, old, new))
    assert re.search(rf"tiny\.toml:{line}\b", str(error.value)), str(error.value)
    assert what in str(error.value)
    assert error.value.got
    assert error.value.next


def test_a_model_that_there_is_not_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError) as error:
        model_path("llama-3-8")
    assert "did you mean `llama-3-8b`?" in str(error.value)
    assert not (MODELS / "llama-3-8.toml").exists()


def test_a_model_has_a_name_that_may_stand_before_a_dot(tmp_path: Path) -> None:
    (tmp_path / "tiny-1.5.toml").write_text("")
    with pytest.raises(UsageError, match=r"tiny-1\.5") as error:
        load_model(tmp_path / "tiny-1.5.toml")
    assert error.value.next == "rename the file"
