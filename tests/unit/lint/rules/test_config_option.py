"""PG116: an option is not there, and neighbours that are, or are asked for first."""

from __future__ import annotations

from toytorch import codes, found


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
