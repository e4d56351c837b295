"""`patchgate bisect` and `patchgate ask`: answers, exit codes and refusals, on the API index.

No torch is run.
"""

import pytest
from click.testing import CliRunner

from patchgate.cli.bisect import ask, bisect
from patchgate.model.errors import UsageError

GRAPH_REUSE = "torch._inductor.ir.StorageBox.should_realize_on_reuse(graph_reuse)"


def test_the_first_release_with_a_parameter_is_found_in_the_index():
    told = CliRunner().invoke(bisect, ["--has", GRAPH_REUSE, "--torch", "2.10.0..2.15.0"])
    first = f"first release in which `{GRAPH_REUSE}` holds: 2.13.0"
    assert [line for line in told.output.splitlines() if line.startswith("first")] == [first]
    assert "  last before: 2.12.1  should_realize_on_reuse(self, users)\n" in told.output
    assert f"  patchgate ask --has '{GRAPH_REUSE}' --torch 2.12.1\n" in told.output


@pytest.mark.parametrize(("torch", "code"), [("2.12.1", 0), ("2.13.0", 1), ("9.9.9", 125)])
def test_one_question_ends_as_git_bisect_wants_it(torch, code):
    assert CliRunner().invoke(ask, ["--has", GRAPH_REUSE, "--torch", torch]).exit_code == code


@pytest.mark.parametrize(
    "options", [[], ["--fact", "nothing > 4"], ["--has", GRAPH_REUSE], ["--symptom"]]
)
def test_a_bad_question_ends_git_bisect_instead_of_telling_it_bad(options):
    assert CliRunner().invoke(ask, options).exit_code == 128


@pytest.mark.parametrize(
    "options",
    [
        ["--has", GRAPH_REUSE],
        ["--has", GRAPH_REUSE, "--torch", "2.10.0..2.15.0", "--targets"],
        ["--has", GRAPH_REUSE, "--torch", "2.10.0..2.15.0", "--votes", "1/2"],
        ["--metric", "residual_stack.differing > 0", "--torch", "2.10.0..2.15.0"],
        ["--code", "PG501", "--torch", "2.10.0..2.15.0"],
    ],
)
def test_a_search_that_cannot_be_is_refused(options):
    result = CliRunner().invoke(bisect, [*options, "--folder", "unused"])
    assert isinstance(result.exception, UsageError)


@pytest.mark.parametrize(
    ("options", "got"),
    [([], "none"), (["--code", "PG501", "--has", "a.b"], "--code 'PG501' --has 'a.b'")],
)
def test_other_than_one_question_is_refused_with_what_was_asked(options, got):
    refused = CliRunner().invoke(bisect, options).exception
    assert isinstance(refused, UsageError)
    assert (refused.what, refused.got) == ("give exactly one question", got)


BOX = "torch._inductor.ir.StorageBox"


@pytest.mark.parametrize(
    ("options", "where", "advice"),
    [
        (["--has", f"{BOX}.shuld_realize"], "--has", f"`{BOX}.should_realize_on_reuse`?"),
        (["--has", "torch._inductr.ir.StorageBox"], "--has", "did you mean `torch._inductor`?"),
        (["--has", f"{BOX}.foo"], "--has", "a full name, such as"),
        (["--has", f"{BOX}.realize(hint)"], "--has", "a parameter of realize(self)"),
        (["--has", GRAPH_REUSE, "--about", f"{BOX}x"], "--about", f"did you mean `{BOX}`?"),
        (["--fact", "residual_stak.h200.loads.max > 4"], "--fact", "`residual_stack`?"),
        (["--fact", "residual_stack.h20.loads.max > 4"], "--fact", "did you mean `h200`?"),
        (["--metric", "residual_stak.differing > 0", "mine.py"], "--metric", "`residual_stack`?"),
        (["--code", "PG501", "--workload", "residual_stak", "mine.py"], "--workload", "stack`?"),
    ],
)
def test_a_typo_is_wrong_usage_and_no_answer(folder, options, where, advice):
    (folder / "mine.py").write_text("import torch\n")
    refused = CliRunner().invoke(bisect, [*options, "--torch", "2.10.0..2.15.0"]).exception
    assert isinstance(refused, UsageError)
    assert (refused.where, advice in str(refused.next)) == (where, True), refused
    if where != "--about":
        assert CliRunner().invoke(ask, [*options, "--torch", "2.11.0"]).exit_code == 128
