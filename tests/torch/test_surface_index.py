"""The index agrees with reality: each torch row's own classes, by `inspect`, against what the index
says.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from patchgate.lint.index.records import Class, Parameter
from patchgate.lint.index.release import load, releases
from tests.torch.conftest import ROWS

MODULES = ("ir", "scheduler", "graph", "sizevars", "codegen.wrapper")
# `inspect` shows these and no source spells them out: Python, dataclasses, ABC, Protocol and enum
# make them.
MADE = frozenset(
    [
        *(
            "__module__",
            "__doc__",
            "__dict__",
            "__weakref__",
            "__annotations__",
            "__parameters__",
            "__orig_bases__",
        ),
        *("__firstlineno__", "__static_attributes__", "__annotate_func__", "__annotations_cache__"),
        *("__dataclass_fields__", "__dataclass_params__", "__match_args__"),
        *(
            "__abstractmethods__",
            "_abc_impl",
            "__protocol_attrs__",
            "__non_callable_proto_members__",
        ),
        *("_is_protocol", "_is_runtime_protocol", "__subclasshook__"),
        *("_member_names_", "_member_map_", "_value2member_map_", "_member_type_", "_use_args_"),
        *("_unhashable_values_", "_new_member_", "_use_default_", "_value_repr_"),
    ]
)
KINDS = {
    "positional-only": "POSITIONAL_ONLY",
    "positional": "POSITIONAL_OR_KEYWORD",
    "var-positional": "VAR_POSITIONAL",
    "keyword": "KEYWORD_ONLY",
    "var-keyword": "VAR_KEYWORD",
}
FORMS = {
    "staticmethod": "static",
    "classmethod": "class",
    "property": "property",
    "cached_property": "cached-property",
}
# Differences that are known, and why. Each is (module.class.member or a part of it): reason.
EXPLAINED: dict[str, str] = {
    "CommBufferType._generate_next_value_": "made by enum for every enumeration",
    "CommBufferType.__new__": "made by enum for every enumeration",
}


def test_every_class_is_as_the_index_says(torch: str) -> None:
    if torch not in releases():
        pytest.skip(f"{torch} is not indexed")
    found = differences(torch, dump(ROWS[torch]))
    assert [each for each in found if not any(part in each for part in EXPLAINED)] == []


def test_a_wrong_index_is_noticed() -> None:
    real = {"torch._inductor.ir": {"Absent": {"members": {}, "mro": []}}}
    assert differences("2.11.0", real) == ["torch._inductor.ir.Absent: no such class"]
    member = {
        "kind": "function",
        "signature": [["self", "POSITIONAL_OR_KEYWORD", False]],
        "made": False,
        "name": "f",
    }
    real = {
        "torch._inductor.ir": {
            "StorageBox": {"members": {"realize_more": member, "num_reads": member}, "mro": []}
        }
    }
    assert [
        each
        for each in differences("2.11.0", real)
        if "realize_more" in each or "num_reads" in each
    ] == ["torch._inductor.ir.StorageBox.realize_more: not in the index"]
    member = {**member, "signature": []}
    real = {"torch._inductor.ir": {"StorageBox": {"members": {"num_reads": member}, "mro": []}}}
    assert any("num_reads: signature" in each for each in differences("2.11.0", real))


def dump(python: str) -> dict[str, dict[str, dict[str, object]]]:
    script = Path(__file__).with_name("api_dump.py")
    names = [f"torch._inductor.{name}" for name in MODULES]
    done = subprocess.run([python, str(script), *names], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def differences(torch: str, real) -> list[str]:  # type: ignore[no-untyped-def]
    release, found = load(torch), []
    for name, classes in real.items():
        module = release.module(name)
        assert module is not None
        for each in sorted(classes):
            known = module.classes.get(each.replace(".<locals>", ""))
            if known is None:
                found.append(f"{name}.{each}: no such class")
                continue
            found += [f"{name}.{each}{line}" for line in compared(classes[each]["members"], known)]
        if len(classes) > 1:
            top = {name for name in module.classes if "." not in name}
            found += [f"{name}.{each}: only in the index" for each in sorted(top - classes.keys())]
    return found


def compared(members, known: Class):  # type: ignore[no-untyped-def]
    """Yield each difference between `inspect` and the index, for one class."""
    for name, member in members.items():
        function = known.functions.get(name)
        if name in MADE:
            continue
        if function is None:
            if name not in known.attributes and not member["made"]:
                yield f".{name}: not in the index"
            elif name not in known.attributes and not name.startswith("__"):
                yield f".{name}: not in the index (made, {member['kind']})"
            continue
        form = FORMS.get(member["kind"], "method")
        if function.form != form:
            yield f".{name}: form {function.form}, is {form} ({member['kind']})"
        if member["signature"] is not None and member["signature"] != shape(function.parameters):
            yield f".{name}: signature {shape(function.parameters)}, is {member['signature']}"
    for name in sorted(known.functions.keys() - members.keys()):
        yield f".{name}: only in the index"


def shape(parameters: tuple[Parameter, ...]) -> list[list[object]]:
    return [[each.name, KINDS[each.kind], each.default is not None] for each in parameters]
