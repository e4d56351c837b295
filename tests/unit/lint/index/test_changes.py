"""Steps of drift: on toy releases, and on internals that vLLM patches, against another way to see
them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from toyindex import index_of

from patchgate.lint.index.changes import diff, drift
from patchgate.lint.index.release import load, releases

# Printed by drift_by_tokens.py from the sources of 2.8.0 to 2.15.0 (no syntax tree, no index).
BY_TOKENS: dict[str, list[tuple[str, str, str]]] = {
    "torch._inductor.ir.StorageBox.should_realize_on_reuse": [
        ("2.12.1", "2.13.0", "signature; body"),
        ("2.13.0", "2.14.0", "body"),
    ],
    "torch._inductor.lowering.constrain_to_fx_strides": [
        ("2.9.1", "2.10.0", "body"),
        ("2.11.0", "2.12.0", "body"),
        ("2.12.1", "2.13.0", "body"),
    ],
    "torch._inductor.compile_fx._recursive_pre_grad_passes": [
        ("2.9.1", "2.10.0", "body"),
        ("2.13.0", "2.14.0", "body"),
    ],
    "torch._inductor.runtime.cache_dir_utils.default_cache_dir": [
        ("2.12.1", "2.13.0", "body"),
    ],
    "torch._inductor.codegen.wrapper.PythonWrapperCodegen.memory_plan_reuse": [
        ("2.9.0", "2.9.1", "body"),
        ("2.12.1", "2.13.0", "body"),
        ("2.13.0", "2.14.0", "body"),
        ("2.14.1", "2.15.0", "body"),
    ],
    "torch._inductor.graph.GraphLowering._update_scheduler": [],
    "torch._inductor.scheduler.Scheduler.should_partition": [
        ("2.8.0", "2.9.0", "signature; body"),
        ("2.9.0", "2.9.1", "body"),
        ("2.9.1", "2.10.0", "body"),
        ("2.10.0", "2.11.0", "signature; body"),
        ("2.13.0", "2.14.0", "body"),
        ("2.14.1", "2.15.0", "body"),
    ],
    "torch._inductor.scheduler.Scheduler.get_graph_partition_signature": [
        ("2.9.0", "2.9.1", "body"),
        ("2.9.1", "2.10.0", "body"),
        ("2.13.0", "2.14.0", "body"),
    ],
    "torch._inductor.codecache.compiled_fx_graph_hash": [
        ("2.12.1", "2.13.0", "body"),
        ("2.14.1", "2.15.0", "body"),
    ],
    "torch._inductor.codecache.GuardedCache._get_shape_env": [
        ("2.8.0", "2.9.0", "body"),
    ],
    "torch._inductor.codecache.FxGraphCache._check_can_cache": [
        ("2.8.0", "2.9.0", "body"),
        ("2.11.0", "2.12.0", "body"),
        ("2.12.1", "2.13.0", "signature; body"),
    ],
    "torch._dynamo.convert_frame.GraphCaptureOutput.get_runtime_env": [
        ("2.9.1", "2.10.0", "new"),
        ("2.10.0", "2.11.0", "body"),
        ("2.11.0", "2.12.0", "body"),
        ("2.12.1", "2.13.0", "body"),
    ],
    "torch._dynamo.symbolic_convert.InliningInstructionTranslator.inline_call_": [
        ("2.8.0", "2.9.0", "body"),
        ("2.9.1", "2.10.0", "body"),
        ("2.10.0", "2.11.0", "body"),
        ("2.11.0", "2.12.0", "body"),
        ("2.12.1", "2.13.0", "body"),
        ("2.13.0", "2.14.0", "body"),
        ("2.14.1", "2.15.0", "body"),
    ],
}

OLD = (
    "class Box:\n    def f(self, a):\n        return a\n    def same(self): return 1\n"
    "    def worked(self): return 1\ndef gone(): ...\n"
)
NEW = (
    'class Box:\n    def f(self, a, *, b=1) -> int:\n        """Text."""\n        return a\n'
    "    def same(self) -> int:\n        'Text.'\n        # remark\n        return (1)\n"
    "    def worked(self): return 2\n    @classmethod\n    def made(cls): ...\ndef came(): ...\n"
)


@pytest.mark.parametrize("name", BY_TOKENS)
def test_every_step_and_nothing_else(name: str) -> None:
    indexed = tuple(version for version in releases() if version not in ("2.6.0", "2.7.0", "2.7.1"))
    found = [(old, new, _words(change)) for old, new, change in drift(name, indexed, load)]
    assert found == BY_TOKENS[name]


def _words(change: str) -> str:
    return "; ".join(part.split(" ")[0] for part in change.split("; "))


def test_layout_docstrings_and_annotations_are_no_drift(tmp_path: Path) -> None:
    index = index_of(tmp_path, {"2.6.0": {"torch.fx.a": OLD}, "2.7.0": {"torch.fx.a": NEW}})
    steps = {
        name: [
            change for *_, change in drift(f"torch.fx.a.{name}", index.sets.releases, index.release)
        ]
        for name in ("Box.f", "Box.same", "gone", "came", "never")
    }
    assert steps == {
        "Box.f": ["signature f(self, a) -> f(self, a, *, b=1)"],
        "Box.same": [],
        "gone": ["gone"],
        "came": ["new"],
        "never": [],
    }


def test_a_moved_definition_is_a_step(tmp_path: Path) -> None:
    moved = {"torch.fx.a": "from torch.fx.b import f\n", "torch.fx.b": "def f(): ...\n"}
    index = index_of(tmp_path, {"2.6.0": {"torch.fx.a": "def f(): ...\n"}, "2.7.0": moved})
    assert [change for *_, change in drift("torch.fx.a.f", index.sets.releases, index.release)] == [
        "defined in torch.fx.b.f instead of torch.fx.a.f"
    ]


def test_diff_reads_like_a_changelog(tmp_path: Path) -> None:
    index = index_of(
        tmp_path, {"2.6.0": {"torch.fx.a": OLD}, "2.7.0": {"torch.fx.a": NEW, "torch.fx.b": ""}}
    )
    old, new = (index.release(version) for version in index.sets.releases)
    assert list(diff(old, new)) == [
        "torch.fx.a",
        "  - gone()",
        "  ~ Box.f(self, a) -> f(self, a, *, b=1)",
        "  + came()",
        "  + classmethod Box.made(cls)",
        "  ~ Box.worked: body",
        "+ module torch.fx.b",
    ]
    assert list(diff(old, new, "torch.fx.a.Box.f")) == [
        "torch.fx.a",
        "  ~ Box.f(self, a) -> f(self, a, *, b=1)",
    ]
    assert list(diff(old, old)) == []
