"""docs/what-inductor-changed.md says what golden says."""

import importlib.util

from patchgate.model.paths import ROOT


def changes():
    spec = importlib.util.spec_from_file_location(
        "changes", ROOT / "docs" / "what_inductor_changed.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date():
    assert changes().main(["--check"]) == 0, "python docs/what_inductor_changed.py"


def test_a_page_that_is_not_is_noticed(tmp_path):
    module = changes()
    module.PAGE = tmp_path / "page.md"
    module.PAGE.write_text("old")
    assert module.main(["--check"]) == 1


def test_the_release_that_cured_the_residual_stack_is_named():
    text = changes().page().split("## residual_stack\n")[1].split("\n## ")[0]
    assert "| loads of each kernel | 2 1 3 4 5 6 4 | = | = | = | 2 1 2 | = |" in text
