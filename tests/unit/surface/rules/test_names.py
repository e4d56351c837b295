"""PG110, PG111, PG112, PG116, PG117, PG121, PG126: names that are missing, and neighbours that are not."""

from __future__ import annotations

from toytorch import TORCHES, codes, found, toy


def test_missing_module() -> None:
    assert found("import torch._inductor.old\n") == ["1: PG110 red module `torch._inductor.old` missing [from 2.11]"]
    assert found("import torch._inductor.ir, torch.nn.functional, numpy.absent\n") == []


def test_moved_name() -> None:
    old = toy("2.10.0")
    new = toy("2.11.0")
    new.known["torch._inductor.ir"].functions.pop("unused")
    new.known["torch._inductor.graph"].functions["unused"] = old.known["torch._inductor.ir"].functions["unused"]
    assert found("from torch._inductor.ir import unused\n", (old, new)) == [
        "1: PG112 red `unused` moved to `torch._inductor.graph.unused` [from 2.11]"
    ]
    assert found("from torch._inductor.ir import unused\n") == []


def test_config_options() -> None:
    assert found("from torch._inductor import config\nconfig.old_option = 2\n") == [
        "2: PG116 red config option `torch._inductor.config.old_option` missing [from 2.11]"
    ]
    assert codes("from torch._inductor import config\nwith config.patch({'absent': 1, 'threshold': 2}): pass\n") == [
        "PG116"
    ]
    assert codes("from torch._inductor import config\nwith config.patch(absent=1): pass\n") == ["PG116"]
    quiet = "from torch._inductor import config\nif hasattr(config, 'old_option'):\n    config.old_option = 2\n"
    assert codes(quiet) == []
    assert codes("from torch._inductor import config\nconfig.threshold\nconfig.save_config()\n") == []


def test_config_defaults() -> None:
    other = toy("2.14.0")
    other.known["torch._inductor.config"].config["threshold"] = "16"
    source = "from torch._inductor import config\nx = config.threshold\n"
    assert found(source, (TORCHES[0], other)) == [
        "2: PG117 note default of `torch._inductor.config.threshold` is `8` [2.10 and before]",
        "2: PG117 note default of `torch._inductor.config.threshold` is `16` [from 2.14]",
    ]
    assert found(source) == []


def test_wide_gate() -> None:
    gate = "import torch\nfrom torch._inductor.virtualized import V\nif torch.__version__ >= (2, {}):\n    {}\n"
    lines = found(gate.format(10, "V.graph.sizevars.optimization_hint"))
    assert [line.split()[1] for line in lines if " red " in line] == ["PG121", "PG111"]
    assert not [line for line in found(gate.format(11, "V.graph.sizevars.optimization_hint")) if " red " in line]


def test_missing_target() -> None:
    source = "from torch._inductor.ir import Box\ndef f(self): ...\nBox.{} = {}\n"
    assert codes(source.format("should_realise", "f")) == ["PG126"]
    assert codes(source.format("_patched", "True")) == []
    assert codes(source.format("helper", "f") + "Box.should_realize = lambda self, *a, **k: self.helper()\n") == [
        "PG122"
    ]
