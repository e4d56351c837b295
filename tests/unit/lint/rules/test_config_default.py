"""PG117: an option has another default somewhere, and one that has the same everywhere."""

from __future__ import annotations

from toytorch import TORCHES, found, toy


def test_config_defaults() -> None:
    other = toy("2.14.0")
    other.known["torch._inductor.config"].config["threshold"] = "16"
    source = "from torch._inductor import config\nx = config.threshold\n"
    assert found(source, (TORCHES[0], other)) == [
        "2: PG117 note default of `torch._inductor.config.threshold` is `8` [2.10 and before]",
        "2: PG117 note default of `torch._inductor.config.threshold` is `16` [from 2.14]",
    ]
    assert found(source) == []
