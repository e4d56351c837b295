"""PG117: an option has another default somewhere, and one that has the same everywhere."""

from __future__ import annotations

from toyindex import toy_releases
from toytorch import found, toy_sources


def test_config_defaults() -> None:
    later = {**toy_sources(), "torch._inductor.config": "threshold = 16\n"}
    torches = toy_releases({"2.10.0": toy_sources(), "2.14.0": later})
    source = "from torch._inductor import config\nx = config.threshold\n"
    assert found(source, torches) == [
        "2: PG117 note default of `torch._inductor.config.threshold` differs: `8` 2.10 and before, "
        "`16` from 2.14"
        " [every release]"
    ]
    assert found(source) == []
