"""What a patch is on disk, and what its manifest may say; every refusal word for word."""

import pytest
from expecttest import assert_expected_inline

from patchgate.inputs.manifest import load_claims
from patchgate.inputs.patch import load_patch
from patchgate.model.errors import UsageError
from patchgate.model.records import Budget, Numerics, Symptom

SYMPTOM = '[symptom]\nworkload = "residual_stack"\ndevice = "h200"\nfact = "loads.max"\n'


def manifest(folder, text):
    path = folder / "patch.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(call, *arguments):
    with pytest.raises(UsageError) as error:
        call(*arguments)
    return str(error.value)


def test_a_folder_is_a_patch_with_its_manifest(folder):
    (folder / "mine").mkdir()
    (folder / "mine" / "patch.py").write_text("x = 1\n")
    manifest(folder / "mine", 'title = "Mine"\napplies_to = ">=2.11"\n')
    patch = load_patch(folder / "mine")
    assert (patch.id, patch.source, patch.claims.title) == ("mine", "x = 1\n", "Mine")
    assert (patch.path, patch.manifest) == (str(folder / "mine" / "patch.py"), str(folder / "mine" / "patch.toml"))


def test_a_bare_file_takes_the_manifest_of_its_own_name(folder):
    (folder / "mine.py").write_text("")
    (folder / "patch.toml").write_text('title = "of another patch"')
    assert load_patch(folder / "mine.py").manifest is None
    (folder / "mine.toml").write_text('title = "Mine"')
    assert load_patch(folder / "mine.py").claims.title == "Mine"


def test_without_a_manifest_the_strict_claims_hold(folder):
    (folder / "mine.py").write_text("")
    claims = load_patch(folder / "mine.py").claims
    assert (claims.applies_to, claims.targets, claims.numerics) == (None, None, Numerics.BIT_IDENTICAL)
    assert claims.title == "mine (no manifest: strict claims)"


def test_a_folder_is_called_by_its_name_however_it_is_reached(folder, monkeypatch):
    (folder / "mine").mkdir()
    (folder / "mine" / "patch.py").write_text("")
    monkeypatch.chdir(folder / "mine")
    assert load_patch(folder / "mine" / ".." / "mine").id == "mine"


@pytest.mark.parametrize(("name", "identity"), [("my patch", "my-patch"), ("a.b", "a-b"), ("_x", "_x"), ("ä", "patch")])
def test_an_id_has_no_character_that_would_break_a_case_id(folder, name, identity):
    (folder / f"{name}.py").write_text("")
    assert load_patch(folder / f"{name}.py").id == identity


def test_a_file_that_is_not_python_is_a_patch_all_the_same(folder):
    (folder / "mine.py").write_bytes(b"def \xff")
    assert load_patch(folder / "mine.py").source == "def \ufffd"


def test_a_path_that_is_not_there_is_refused(folder):
    assert_expected_inline(
        refused(load_patch, folder / "none"),
        """\
none: no such patch
  got:  nothing at that path
  next: patchgate gate path/to/patch.py""",
    )


def test_a_folder_without_patch_py_is_refused(folder):
    (folder / "empty").mkdir()
    assert_expected_inline(
        refused(load_patch, folder / "empty"),
        """\
empty: not a patch
  got:  a folder without patch.py or patch.diff
  next: give a folder that holds patch.py or patch.diff (and patch.toml), or a .py or .diff file""",
    )


def test_a_file_that_is_no_python_file_is_refused(folder):
    (folder / "mine.txt").write_text("")
    assert_expected_inline(
        refused(load_patch, folder / "mine.txt"),
        """\
mine.txt: not a patch
  got:  a .txt file
  next: give a folder that holds patch.py or patch.diff (and patch.toml), or a .py or .diff file""",
    )


def test_every_claim_is_read(folder):
    text = """
title = "T"
source = "S"
applies_to = ">=2.11,<2.14"
fixed_in = "2.14"
targets = ["torch.a", "torch.b"]
numerics = "rounding"
error_factor = 2
largest_ulps = 4.5
"""
    budgets = '[budgets]\ncompile_calls = "0.2 %"\nlatency = "-8 % .. 0 %"\n'
    claims = load_claims(manifest(folder, text + SYMPTOM + 'predicate = "> 4"\n' + budgets))
    assert (claims.title, claims.source, claims.applies_to, claims.fixed_in) == ("T", "S", ">=2.11,<2.14", "2.14")
    assert (claims.targets, claims.numerics, claims.error_factor) == (("torch.a", "torch.b"), Numerics.ROUNDING, 2.0)
    assert claims.largest_ulps == 4.5
    assert claims.symptom == Symptom(workload="residual_stack", device="h200", fact="loads.max", predicate="> 4")
    assert claims.budgets == {"compile_calls": Budget(low=-0.002, high=0.002), "latency": Budget(low=-0.08, high=0.0)}


WRONG = [
    'aplies_to = "==2.11.0"',
    "colour = 1",
    "title = 3",
    'applies_to = "2.11 or so"',
    'fixed_in = "soon"',
    'numerics = "any"',
    'targets = "torch.a"',
    "targets = [1]",
    "error_factor = 0.5",
    "error_factor = true",
    "error_factor = nan",
    "error_factor = inf",
    "largest_ulps = 0",
    'symptom = "> 4"',
    SYMPTOM,
    SYMPTOM + "predicate = 4",
    SYMPTOM + 'predicate = "at least 4"',
    SYMPTOM + 'predicate = "> 4"\nwhen = "always"',
    "budgets = 3",
    '[budgets]\nlatncy = "1 %"',
    '[budgets]\nlatency = "5 ms"',
    "[budgets]\ncompile_calls = 0.001",
]


def test_every_wrong_claim_is_refused_with_its_line_and_a_way_out(folder):
    told = [refused(load_claims, manifest(folder, f"# claims\n{text}\n")) for text in WRONG]
    assert_expected_inline(
        "\n".join(told),
        """\
patch.toml:2: unknown key `aplies_to`
  got:  aplies_to = ...
  next: did you mean `applies_to`?
patch.toml:2: unknown key `colour`
  got:  colour = ...
  next: known keys: applies_to, budgets, effects, error_factor, fixed_in, largest_ulps, numerics, scope, source, symptom, targets, title
patch.toml:2: `title` must be a string
  got:  title = 3
  next: title = "..."
patch.toml:2: not a PEP 440 specifier
  got:  applies_to = '2.11 or so'
  next: applies_to = ">=2.11,<2.14"
patch.toml:2: not a version
  got:  fixed_in = 'soon'
  next: fixed_in = "2.12"
patch.toml:2: unknown class of numerics
  got:  numerics = 'any'
  next: one of "bit-identical", "rounding", "changes"
patch.toml:2: `targets` must be a list of dotted names
  got:  targets = 'torch.a'
  next: targets = ["torch._inductor..."]
patch.toml:2: `targets` must be a list of dotted names
  got:  targets = [1]
  next: targets = ["torch._inductor..."]
patch.toml:2: `error_factor` must be a finite number of at least 1
  got:  error_factor = 0.5
  next: error_factor = 1.1
patch.toml:2: `error_factor` must be a finite number of at least 1
  got:  error_factor = True
  next: error_factor = 1.1
patch.toml:2: `error_factor` must be a finite number of at least 1
  got:  error_factor = nan
  next: error_factor = 1.1
patch.toml:2: `error_factor` must be a finite number of at least 1
  got:  error_factor = inf
  next: error_factor = 1.1
patch.toml:2: `largest_ulps` must be a finite number of at least 1
  got:  largest_ulps = 0
  next: largest_ulps = 8.1
patch.toml:2: `symptom` must be a table
  got:  '> 4'
  next: [symptom] workload = "residual_stack", device = "h200", fact = "loads.max", predicate = "> 4"
patch.toml:2: a symptom needs four strings
  got:  missing: predicate
  next: workload = "residual_stack", device = "h200", fact = "loads.max", predicate = "> 4"
patch.toml:2: a symptom needs four strings
  got:  {'workload': 'residual_stack', 'device': 'h200', 'fact': 'loads.max', 'predicate': 4}
  next: workload = "residual_stack", device = "h200", fact = "loads.max", predicate = "> 4"
patch.toml:2: bad symptom predicate
  got:  not a predicate: 'at least 4'; write one of < <= > >= == != contains and a number
  next: predicate = "> 4"
patch.toml:7: unknown key `symptom.when`
  got:  when = ...
  next: known keys: device, fact, predicate, workload
patch.toml:2: `budgets` must be a table
  got:  3
  next: compile_calls = "0.1 %"   (or "-2 % .. 0.1 %")
patch.toml:3: unknown key `budgets.latncy`
  got:  latncy = ...
  next: did you mean `latency`?
patch.toml:3: not a budget: write 0.1 %, or a range as -2 % .. 0.1 %
  got:  latency = '5 ms'
  next: compile_calls = "0.1 %"   (or "-2 % .. 0.1 %")
patch.toml:3: not a budget: write 0.1 %, or a range as -2 % .. 0.1 %
  got:  compile_calls = 0.001
  next: compile_calls = "0.1 %"   (or "-2 % .. 0.1 %")""",  # noqa: E501
    )
