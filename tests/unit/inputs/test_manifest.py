"""Read manifests; every refusal is tested word for word."""

import pytest
from expecttest import assert_expected_inline
from refusals import manifest, refused

from patchgate.inputs.manifest import Symptom
from patchgate.inputs.patch import load_claims
from patchgate.model.errors import UsageError
from patchgate.model.records import Budget, Numerics

SYMPTOM = '[symptom]\nworkload = "residual_stack"\ndevice = "h200"\nfact = "loads.max"\n'


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
    assert (claims.title, claims.source, claims.applies_to, claims.fixed_in) == (
        "T",
        "S",
        ">=2.11,<2.14",
        "2.14",
    )
    assert (claims.targets, claims.numerics, claims.error_factor) == (
        ("torch.a", "torch.b"),
        Numerics.ROUNDING,
        2.0,
    )
    assert claims.largest_ulps == 4.5
    assert claims.symptom == Symptom(
        workload="residual_stack", device="h200", fact="loads.max", predicate="> 4"
    )
    assert claims.budgets == {
        "compile_calls": Budget(low=-0.002, high=0.002),
        "latency": Budget(low=-0.08, high=0.0),
    }


@pytest.mark.parametrize(
    "call", ["install", "Patches.install(True, name='cost')", "engine.late:install()"]
)
def test_what_installs_a_patch_is_a_function_with_literals(folder, call):
    assert load_claims(manifest(folder, f'apply = "{call}"\n')).apply == (call,)


def test_several_functions_may_install_a_patch_and_stubs_stand_for_modules(folder):
    claims = load_claims(
        manifest(folder, 'apply = ["first", "a.b:second(1)"]\nstubs = ["a._C", "flash_attn"]\n')
    )
    assert claims.apply == ("first", "a.b:second(1)")
    assert claims.stubs == ("a._C", "flash_attn")


def test_variables_of_the_project_s_own_are_set_before_the_patch_is_imported(folder):
    claims = load_claims(
        manifest(folder, 'environment = ["MY_PATCHES=1", "_LEVEL=a=b", "EMPTY="]\n')
    )
    assert claims.environment == ("MY_PATCHES=1", "_LEVEL=a=b", "EMPTY=")


WRONG = [
    'aplies_to = "==2.11.0"',
    "colour = 1",
    "title = 3",
    f"title = 0x{'f' * 4000}",
    'applies_to = "2.11 or so"',
    f'applies_to = "=={"9" * 5000}"',
    'fixed_in = "soon"',
    'numerics = "any"',
    'targets = "torch.a"',
    "targets = [1]",
    'targets = ["torch"]',
    'targets = [".a"]',
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
    'apply = "install(torch)"',
    'apply = "a b:install"',
    'apply = ["install", 3]',
    'environment = ["MY_PATCHES"]',
    'environment = ["LD_PRELOAD=/tmp/mine.so"]',
    'environment = ["TORCHINDUCTOR_MAX_AUTOTUNE=1"]',
    'stubs = ["a-b"]',
    'stubs = ["torch._C"]',
    'stubs = "a._C"',
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
patch.toml:2: `aplies_to`: unknown key
  got:  aplies_to = '==2.11.0'
  next: did you mean `applies_to`?
patch.toml:2: `colour`: unknown key
  got:  colour = 1
  next: known keys: applies_to, apply, budgets, effects, environment, error_factor, fixed_in, id, largest_ulps, numerics, part_of, scope, source, stubs, symptom, targets, title
patch.toml:2: `title`: not a string
  got:  title = 3
  next: title = "..."
patch.toml:2: `title`: not a string
  got:  title = a very long number
  next: title = "..."
patch.toml:2: `applies_to`: not a PEP 440 specifier
  got:  applies_to = '2.11 or so'
  next: applies_to = ">=2.11,<2.14"
patch.toml:2: `applies_to`: not a PEP 440 specifier
  got:  applies_to = [...]
  next: applies_to = ">=2.11,<2.14"
patch.toml:2: `fixed_in`: not a version
  got:  fixed_in = 'soon'
  next: fixed_in = "2.12"
patch.toml:2: `numerics`: not one of its values
  got:  numerics = 'any'
  next: one of "bit-identical", "rounding", "changes"
patch.toml:2: `targets`: not a list of strings
  got:  targets = 'torch.a'
  next: targets = ["torch._inductor..."]
patch.toml:2: `targets`: not a list of strings
  got:  targets = [1]
  next: targets = ["torch._inductor..."]
patch.toml:2: `targets`: not the dotted name of something in a module
  got:  targets = ['torch']
  next: targets = ["torch._inductor..."]
patch.toml:2: `targets`: not the dotted name of something in a module
  got:  targets = ['.a']
  next: targets = ["torch._inductor..."]
patch.toml:2: `error_factor`: not a finite number of at least 1
  got:  error_factor = 0.5
  next: error_factor = 1.1
patch.toml:2: `error_factor`: not a finite number of at least 1
  got:  error_factor = True
  next: error_factor = 1.1
patch.toml:2: `error_factor`: not a finite number of at least 1
  got:  error_factor = nan
  next: error_factor = 1.1
patch.toml:2: `error_factor`: not a finite number of at least 1
  got:  error_factor = inf
  next: error_factor = 1.1
patch.toml:2: `largest_ulps`: not a finite number of at least 1
  got:  largest_ulps = 0
  next: largest_ulps = 8.1
patch.toml:2: `symptom`: not a table
  got:  symptom = '> 4'
  next: [symptom] workload = "residual_stack", device = "h200", fact = "loads.max", predicate = "> 4"
patch.toml:2: `symptom.predicate`: missing
  got:  no such key
  next: predicate = "> 4"
patch.toml:6: `symptom.predicate`: not a string
  got:  predicate = 4
  next: predicate = "> 4"
patch.toml:6: `symptom.predicate`: not a predicate: 'at least 4'; write one of < <= > >= == != contains and a number
  got:  predicate = 'at least 4'
  next: predicate = "> 4"
patch.toml:7: `symptom.when`: unknown key
  got:  when = 'always'
  next: known keys: device, fact, predicate, workload
patch.toml:2: `apply`: neither a function of the patch nor `module:function(literals)`
  got:  apply = 'install(torch)'
  next: apply = "install"   (or ["install", "package.module:other(True)"])
patch.toml:2: `apply`: neither a function of the patch nor `module:function(literals)`
  got:  apply = 'a b:install'
  next: apply = "install"   (or ["install", "package.module:other(True)"])
patch.toml:2: `apply`: not a string
  got:  apply = ['install', 3]
  next: apply = "install"   (or ["install", "package.module:other(True)"])
patch.toml:2: `environment`: not NAME=value
  got:  environment = ['MY_PATCHES']
  next: environment = ["MY_PATCHES=1"]
patch.toml:2: `environment`: the gate, Python or torch has read it before the patch is imported
  got:  environment = ['LD_PRELOAD=/tmp/mine.so']
  next: a variable of the project's own; one of torch's counts from its start on: set it in the patch
patch.toml:2: `environment`: the gate, Python or torch has read it before the patch is imported
  got:  environment = ['TORCHINDUCTOR_MAX_AUTOTUNE=1']
  next: a variable of the project's own; one of torch's counts from its start on: set it in the patch
patch.toml:2: `stubs`: not the dotted name of a module
  got:  stubs = ['a-b']
  next: stubs = ["my_package._C"]
patch.toml:2: `stubs`: torch, triton and the standard library are installed: no stub for them
  got:  stubs = ['torch._C']
  next: a module of a dependency, or of the project
patch.toml:2: `stubs`: not a list of strings
  got:  stubs = 'a._C'
  next: stubs = ["my_package._C"]
patch.toml:2: `budgets`: not a table
  got:  budgets = 3
  next: compile_calls = "0.1 %"   (or "-2 % .. 0.1 %")
patch.toml:3: `budgets.latncy`: unknown key
  got:  latncy = '1 %'
  next: did you mean `latency`?
patch.toml:3: `budgets.latency`: not a budget: write 0.1 %, or a range as -2 % .. 0.1 %
  got:  latency = '5 ms'
  next: compile_calls = "0.1 %"   (or "-2 % .. 0.1 %")
patch.toml:3: `budgets.compile_calls`: not a budget: write 0.1 %, or a range as -2 % .. 0.1 %
  got:  compile_calls = 0.001
  next: compile_calls = "0.1 %"   (or "-2 % .. 0.1 %")""",
    )


def test_a_target_holds_on_the_releases_of_its_table(tmp_path):
    text = 'targets = ["torch.a", { names = ["torch.b"], applies_to = ">=2.12" }]\n'
    (tmp_path / "patch.toml").write_text(text)
    claims = load_claims(tmp_path / "patch.toml")
    assert claims.targets == ("torch.a", "torch.b")
    assert [claims.targets_on(torch) for torch in ("2.11.0", "2.12.1")] == [
        ["torch.a"],
        ["torch.a", "torch.b"],
    ]


@pytest.mark.parametrize(
    "entry",
    ["{ name = ['torch.a'] }", "{ names = 'torch.a' }", "{ names = ['a'], applies_to = 'x' }"],
)
def test_a_table_of_targets_that_is_none_is_refused(tmp_path, entry):
    (tmp_path / "patch.toml").write_text(f"targets = [{entry}]\n")
    with pytest.raises(UsageError):
        load_claims(tmp_path / "patch.toml")
