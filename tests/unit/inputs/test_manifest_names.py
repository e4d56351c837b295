"""Names in a manifest that nobody knows are refused when it loads, and those that may be told are
not.
"""

import pytest
from refusals import manifest

from patchgate.inputs.patch import load_claims
from patchgate.model.errors import UsageError

SYMPTOM = '[symptom]\nworkload = "residual_stack"\ndevice = "h200"\nfact = "loads.max"\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            'effects = ["confg foo"]',
            "patch.toml:1: `effects`: no kind of effect `confg`\n  got:  effects = ['confg foo']\n"
            "  next: did you mean `config`?",
        ),
        (
            'effects = [""]',
            "patch.toml:1: `effects`: no kind of effect ``\n  got:  effects = ['']\n  next: one "
            "of: compile",
        ),
        (
            SYMPTOM.replace("residual_stack", "residual_stak") + 'predicate = "> 4"',
            "patch.toml:2: no workload `residual_stak`\n"
            "  got:  workload = 'residual_stak'\n  next: did you mean `residual_stack`?",
        ),
        (
            SYMPTOM.replace("h200", "h20") + 'predicate = "> 4"',
            "patch.toml:3: no device `h20`\n  got:  device = 'h20'\n  next: did you mean `h200`?",
        ),
        (
            SYMPTOM.replace("loads.max", "load.max") + 'predicate = "> 4"',
            "patch.toml:4: no fact `load.max`\n  got:  fact = 'load.max'\n  next: did you mean "
            "`loads.max`?",
        ),
    ],
)
def test_a_name_that_nobody_knows_is_refused_with_the_nearest(folder, text, told):
    with pytest.raises(UsageError) as error:
        load_claims(manifest(folder, text))
    assert str(error.value).startswith(told)


@pytest.mark.parametrize(
    "fact", ["loads.max", "compiles", "aten.op.never.default", "resources.spilled"]
)
def test_a_fact_that_may_be_told_is_no_unknown_one(folder, fact):
    text = SYMPTOM.replace("loads.max", fact) + 'predicate = "> 4"'
    assert load_claims(manifest(folder, text)).symptom.fact == fact


def test_a_workload_beside_the_patch_brings_facts_of_its_own(folder):
    text = (
        SYMPTOM.replace("residual_stack", "own").replace("loads.max", "own.fact")
        + 'predicate = "> 4"'
    )
    with pytest.raises(UsageError, match="no workload `own`"):
        load_claims(manifest(folder, text))
    (folder / "workloads").mkdir()
    (folder / "workloads" / "own.py").write_text(
        'DTYPE = "float32"\ndef build(device, dtype, scale): ...\n'
    )
    assert load_claims(manifest(folder, text)).symptom.workload == "own"


@pytest.mark.parametrize(
    "effect", ["compile", "environment NAME", "thread-local torch._dynamo.config.x", "threads"]
)
def test_every_kind_of_effect_may_be_claimed(folder, effect):
    assert load_claims(manifest(folder, f'effects = ["{effect}"]')).effects == (effect,)
