"""A case of the corpus is a folder: what its corpus.toml may say, and how it is refused."""

from dataclasses import replace

import pytest

from benchmarks.corpus.cases import load_case, load_cases, with_gpu, with_sandbox
from patchgate.model.errors import UsageError
from patchgate.model.paths import CORPUS


@pytest.fixture
def folder(tmp_path):
    def make(text, name="mine"):
        made = tmp_path / name
        made.mkdir()
        (made / "patch.py").write_text("import torch\n\ntorch.a.b = None\n")
        (made / "corpus.toml").write_text(text)
        return made

    return make


def test_a_folder_with_a_corpus_toml_is_a_case_and_needs_no_code(folder, tmp_path):
    folder(
        'class = "signature"\n[[expect]]\ncode = "PG113"\ntorch = "2.13.0..2.15.0"\nat = '
        '"torch.a.b ="\n'
    )
    (tmp_path / "none").mkdir()
    (case,) = load_cases([tmp_path])
    (expected,) = case.expected
    assert (case.id, case.kind, case.sound) == ("mine", "signature", False)
    assert expected.place.endswith("mine/patch.py:3")
    assert [torch for torch in ("2.12.1", "2.13.0", "2.15.0") if expected.covers(torch)] == [
        "2.13.0",
        "2.15.0",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('class = "signatur"', "no class `signatur`"),
        ('class = "gate"\ncolour = 1', "`colour`: unknown key"),
        ('class = "gate"\ncells = ["lynt"]', "no cell `lynt`"),
        ('class = "gate"\n[[expect]]\ncode = "PG999"', "no such code"),
        ('class = "gate"\n[[expect]]\ncode = "PG113"\ntorch = "new"', "not a range"),
        ('class = "gate"\n[[expect]]\ncode = "PG113"\nat = "nowhere"', "exactly one line"),
        ('class = "gate"\ncells = ["kernels"]', "without a workload"),
        ('class = "gate"', "any other something"),
        ('class = "sound"\n[[expect]]\ncode = "PG113"', "a sound case expects nothing"),
    ],
)
def test_a_case_that_does_not_hold_together_is_refused_with_its_place(folder, text, told):
    with pytest.raises(UsageError, match=told) as error:
        load_case(folder(text))
    assert "corpus.toml" in str(error.value)


def test_a_folder_of_a_case_is_given_like_one_that_holds_cases(folder, tmp_path):
    alone = folder('class = "sound"')
    assert load_cases([alone]) == load_cases([tmp_path])


def test_a_folder_without_a_case_says_what_one_is(tmp_path):
    with pytest.raises(UsageError, match="no case") as error:
        load_cases([tmp_path])
    assert "class = " in str(error.value)


def test_a_patch_that_cannot_be_read_is_refused_before_anything_runs(folder, tmp_path):
    made = folder('class = "gate"\n[[expect]]\ncode = "PG208"\nat = "nowhere"')
    (made / "patch.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="exactly one line"):
        load_case(made)
    (made / "patch.py").unlink()
    (made / "corpus.toml").write_text('class = "sound"')
    with pytest.raises(UsageError, match="not a patch"):
        load_case(made)


def test_another_patch_that_is_not_there_is_refused(folder):
    with pytest.raises(UsageError, match="no such patch"):
        load_case(folder('class = "sound"\nwith = ["../none"]'))


def test_a_case_that_needs_a_gpu_may_expect_nothing_here(folder):
    assert load_case(folder('class = "latency"\nneeds = "a GPU"')).needs == "a GPU"


def test_a_machine_with_a_gpu_judges_what_needs_nothing_else(folder):
    case = load_case(folder('class = "latency"\nneeds = "a GPU"'))
    other = load_case(folder('class = "latency"\nneeds = "a GPU: two of them"', "other"))
    assert (with_gpu(case).needs, with_gpu(other).needs) == ("", "a GPU: two of them")


def test_every_case_of_the_checkout_holds_together():
    assert load_cases(list(CORPUS))


def test_an_attack_that_this_sandbox_does_not_stop_is_not_judged():
    (case,) = (case for case in load_cases(list(CORPUS)) if case.id == "reads-other-memory")
    assert (with_sandbox(case, {"pid"}).needs, with_sandbox(case, {"landlock", "reads"}).needs) == (
        "",
        "",
    )
    assert with_sandbox(case, {"ipc"}).needs == "a sandbox with pid or landlock"
    assert with_sandbox(replace(case, stopped_by=()), set()).needs == ""
