"""docs/latency-42686.svg draws the table of docs/latency.md."""

import importlib.util

from patchgate.model.paths import ROOT


def latency():
    spec = importlib.util.spec_from_file_location("draw_latency", ROOT / "ci" / "latency.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_drawing_is_up_to_date():
    assert latency().main(["--check"]) == 0, "python ci/latency.py"


def test_a_drawing_that_is_not_is_noticed(tmp_path):
    module = latency()
    module.DRAWING = tmp_path / "old.svg"
    module.DRAWING.write_text("old")
    assert module.main(["--check"]) == 1


def test_every_size_that_was_measured_is_drawn():
    module = latency()
    ratios = module.ratios(module.PAGE.read_text("utf-8"))
    assert list(ratios) == [1, 64, 1024, 4096, 16384]
    assert all(interval.low <= interval.ratio <= interval.high for interval in ratios.values())
