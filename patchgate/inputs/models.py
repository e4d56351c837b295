"""Whole public models as workloads, from TOML files: a published configuration, without weights
(docs/models.md).

The probe builds them (`probe/compile/public_model.py`) with the library that the file names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from patchgate.inputs.toml import load_toml_record
from patchgate.model.errors import UsageError
from patchgate.model.paths import MODELS
from patchgate.model.records import Workload, record
from patchgate.model.serialization import (
    Invalid,
    key,
    list_of,
    one_of,
    read_requirement,
    read_string,
)
from patchgate.model.text import did_you_mean

ENTRIES = ("forward", "decode", "training")
_CHECKS = ("kernels",)
# The probe does not get these fields of a file.
_OF_THE_HOST = ("requires", "source", "dtype", "reads", "regions")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


def _read_name(value: Any) -> str:
    if not re.fullmatch(r"[A-Za-z_][\w.]*", read_string(value)):
        raise Invalid("not a dotted name")
    return str(value)


@record
class Input:
    """A tensor that the model is called with."""

    shape: tuple[int, ...]
    #: the dtype as torch names it; if empty, the model's own dtype
    dtype: str = key("", example='dtype = "int64"')
    value: float = 0.0  #: of every element


@record
class Region:
    """A layer that is compiled by itself, in place of the whole network."""

    #: where it is in the network, "model.layers.0"
    module: str = key(example='module = "model.layers.0"')
    #: how many layers of the published network are equal to it
    count: int = key(example="count = 32")
    #: the end of its workload's name, after the model's name; empty for the only region
    name: str = ""


@record
class Model:
    """The content of a file in fixtures/models."""

    #: the module that has the classes
    library: str = key(read=_read_name, example='library = "transformers"')
    #: packages that are installed in addition to torch, in pip's syntax
    requires: tuple[str, ...] = key(
        read=list_of(read_requirement), example='requires = ["transformers>=5.17,<5.18"]'
    )
    #: the class of the network; dotted if it lies deeper in the library
    class_: str = key(name="class", read=_read_name, example='class = "LlamaForCausalLM"')
    #: where the configuration is published
    source: str = key(example='source = "https://huggingface.co/meta-llama/Meta-Llama-3-8B"')
    dtype: str = key(example='dtype = "bfloat16"')  #: of weights and inputs, as torch names it
    #: the published configuration, as its class takes it
    config: dict[str, Any] = key(example="[config]")
    #: the tensors that the network is called with, by parameter
    inputs: dict[str, Input] = key(
        example='inputs.input_ids = { shape = [1, 2048], dtype = "int64" }'
    )
    #: the class of the configuration; if empty, the network's class takes the keys
    config_class: str = key("", example='config_class = "LlamaConfig"')
    built: dict[str, Any] = field(
        default_factory=dict
    )  #: keys of the configuration that are built smaller
    #: keys of the configuration that are published as null, which TOML cannot say
    null: tuple[str, ...] = ()
    arguments: dict[str, Any] = field(default_factory=dict)  #: further arguments of the network
    #: "decode": with a static cache; "training": with the backward graph
    entry: str = key("forward", read=one_of(ENTRIES, "entry"), example='entry = "forward"')
    cache: int = 0  #: tokens that the static cache of "decode" holds
    reads: tuple[float, ...] = ()  #: the values that `.item()` returns, call by call
    regions: tuple[Region, ...] = ()  #: the layers that are compiled; the whole network when empty


def model_names() -> list[str]:
    """The models that come with patchgate, sorted."""
    return sorted(path.stem for path in MODELS.glob("*.toml"))


def models_of(workloads: Iterable[str]) -> list[str]:
    """The models of patchgate to which these workloads may belong, judged by their names."""
    workloads = tuple(workloads)
    return [
        model
        for model in model_names()
        if any(f"{name}-".startswith(f"{model}-") for name in workloads)
    ]


def model_path(entry: str, root: Path = Path(), where: str = "--model") -> Path:
    """The file of a model: a model that comes with patchgate, by its name, or a project's own file
    below `root`.

    Raises UsageError if there is no such model; `where` is the place that names it.
    """
    path = root / entry if entry.endswith(".toml") else MODELS / f"{entry}.toml"
    if not path.is_file():
        known = model_names()
        raise UsageError(
            f"no model `{entry}`",
            where=where,
            got=entry,
            next=did_you_mean(entry, known)
            or f"one of: {', '.join(known)}; or the path of a .toml file",
        )
    return path


def load_model(path: Path) -> Model:
    """The model of a file. Raises UsageError with file:line for the first error."""
    if not _NAME.fullmatch(path.stem):
        # With a dot in the name, `workload.device.fact` would have more than three parts.
        raise UsageError(
            "a model's name has small letters, digits, `-` and `_`",
            where=str(path),
            got=path.stem,
            next="rename the file",
        )
    return load_toml_record(Model, path, check=_check)


def _check(model: Model) -> None:
    """Raise Invalid for keys that contradict each other."""
    names = [region.name for region in model.regions]
    if len(names) > 1 and (len({*names}) < len(names) or not all(map(_NAME.fullmatch, names))):
        raise Invalid(
            "`regions`: several need a name each, of small letters",
            path=("regions",),
            next='name = "local"',
        )
    for index, region in enumerate(model.regions):
        if region.count < 1:
            raise Invalid(
                "`regions.count`: less than one",
                path=("regions", index, "count"),
                next="count = 32",
            )
    unknown = model.built.keys() - model.config.keys()
    if unknown:
        raise Invalid(
            f"`built.{min(unknown)}`: no key of `config`",
            path=("built", min(unknown)),
            next=f"one of: {', '.join(model.config)}",
        )
    if twice := model.config.keys() & {*model.null}:
        raise Invalid(
            f"`null`: `{min(twice)}` is given in `config` too",
            path=("null",),
            next="take one of them out",
        )
    if (model.entry == "decode") != (model.cache > 0):
        raise Invalid(
            '`cache` is for entry = "decode", which needs it',
            path=("cache" if model.cache else "entry",),
            next='entry = "decode" and cache = 4096',
        )


def model_workloads(entries: Iterable[str], root: Path = Path()) -> dict[str, Workload]:
    """The workloads of these models, by name. A model has one workload, or one for each region."""
    return {w.name: w for entry in entries for w in _workloads(model_path(entry, root))}


def model_requires(entries: Iterable[str], root: Path = Path()) -> tuple[str, ...]:
    """The packages that these models need in addition to torch, each once, sorted."""
    return tuple(
        sorted({each for entry in entries for each in load_model(model_path(entry, root)).requires})
    )


def _workloads(path: Path) -> Iterable[Workload]:
    model = load_model(path)
    said = {name: value for name, value in asdict(model).items() if name not in _OF_THE_HOST}
    for region in model.regions or (None,):
        yield Workload(
            name="-".join(filter(None, (path.stem, region.name if region else ""))),
            path=str(path.resolve()),
            dtype=model.dtype,
            training=model.entry == "training",
            reads=model.reads,
            checks=_CHECKS,
            model={**said, "region": region.module if region else ""},
            count=region.count if region else 1,
        )
