"""Every fixture below fixtures/verdicts is named for the code that it causes, and causes no other
red one.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import Check, Instance, NothingToJudge, all_checks
from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import load_workloads
from patchgate.model.paths import ROOT
from patchgate.model.policy import Colour
from patchgate.model.records import Case, Verdict
from patchgate.model.serialization import from_dict, to_dict
from patchgate.runner.cache_keys import environment_digest
from patchgate.runner.client import Runner
from patchgate.runner.run_settings import Run

# Times are never asserted on a machine that others use: test_timing and the judge's own tests show
# PG61x.
VERDICTS = sorted(
    p for p in (ROOT / "fixtures" / "verdicts").glob("*.py") if not p.name.startswith("PG61")
)
UNTIMED = [name for name, check in all_checks().items() if check.family != "latency"]
HARMLESS = ROOT / "fixtures" / "patches" / "harmless"
WORKLOAD = "pointwise"
CHAIN = "residual_chain"
# The workloads of a check if it is not the workload above: patches of ReLU change the code of that,
# #42686 that of the chain, and the harmless patch is called in a larger model only.
WORKLOADS = {
    "calls": (WORKLOAD, "prenorm_mlp"),
    "compile_cost": (CHAIN,),
    "recompile": ("prenorm_mlp",),
    "shapes": (f"{WORKLOAD}_shapes",),
    "scope": (CHAIN,),
    "triton_cache": (CHAIN,),
}
# Passes and notes.
NOT_RED = (
    "PG105",
    "PG211",
    "PG226",
    "PG229",
    "PG232",
    "PG433",
    "PG511",
    "PG518",
    "PG803",
    "PG514",
    "PG534",
    "PG535",
    "PG542",
    "PG543",
    "PG503",
    "PG515",
    "PG517",
    "PG705",
    "PG708",
    "PG806",
)
# A fixture is seen only with these.
ON = {
    "PG701-stores-what-is-reused": CHAIN,
    "PG803-lowering-of-a-decomposed-op": WORKLOAD,
    "PG501-only-in-half": "prenorm_mlp_float16",
    "PG502-worse-gradients": "prenorm_mlp_training",
    "PG507-looks-for-attention": "opaque_attention",
    "PG301-frees-four-at-a-time": "prenorm_mlp",
    "PG516-stores-beyond-its-rows": CHAIN,
    "constant_identity": CHAIN,
}
# All checks of this family judge the effects of importing a patch, and must not contradict each
# other.
GATE, GATE_CODES = "gate", "PG2"
# Two of them start an interpreter, which takes longer than all the others together.
INTERPRETERS = ("new_interpreter", "plain_run")
OF_IMPORTS = [
    name
    for name, check in all_checks().items()
    if check.family == GATE and name not in INTERPRETERS
]
# Checks whose verdicts have the code of another's, or of none: PG210 is what the gate says of any
# failure, and PG211 is green where all that judge an import are.
ALSO = {
    "PG229": ("parity", "hooks"),
    "PG210": ("version_gate",),
    "PG211": tuple(OF_IMPORTS),
    "PG208": ("samples", "parity"),
    "PG219": ("effects",),
    "PG301": ("samples",),
    "PG411": ("samples",),
    "PG422": ("samples",),
    "PG507": ("ranks",),
    "PG531": ("samples",),
    "PG532": ("samples",),
    "PG806": ("late",),
}
# For sound patches that must be green, these are asked before a merge in other tests: of the patch
# that trains, of attention, and in test_ranks.
NIGHTLY = ("parity", "equivalence", "ranks")
# A scope is compiled on the CPU: everything else where its figures are taken.
SCOPED = "scope"


def checks_with(code: str) -> list[Check]:
    """The checks that raise a code: first those of the module that defines it, then those above."""
    every = all_checks()
    own = [check for check in every.values() if code in codes_of(check)]
    return own + [every[name] for name in ALSO.get(code, ()) if every[name] not in own]


def codes_of(check: Check) -> list[str]:
    return [code.code for code in getattr(sys.modules[check.ask.__module__], "CODES", ())]


Ask = Callable[..., list[Verdict]]


@pytest.fixture
def ask(torch: str, run: Run, runner: Runner, kept: Path) -> Ask:
    """The verdicts of some checks on a patch, or of the first ones `until` one has that code; what
    torch answers without it is kept, as it is by the next run.
    """
    run = replace(run, shared_cache=str(kept / "unpatched"))
    runner = replace(runner, identities={torch: environment_digest(run.rows[torch])})

    def verdicts(
        path: Path,
        checks: Sequence[Check],
        workload: str | None = None,
        seconds: float = 60.0,
        nightly: bool = False,
        until: str = "",
    ) -> list[Verdict]:
        patch = load_patch(path)
        # At night also inputs of one row and of none.
        limited = replace(run, limits=replace(run.limits, seconds=seconds), nightly=nightly)
        found, contexts = [], dict[tuple[tuple[str, ...], ...], CheckContext]()
        for check in checks:
            names = (workload,) if workload else WORKLOADS.get(check.name, (WORKLOAD,))
            devices = ("cpu",) if check.name == SCOPED else ("h200",)
            # A project of this device alone: where a run leaves devices out, what those may call is
            # grey.
            given = replace(
                limited,
                patch=str(path),
                devices=devices,
                project=replace(run.project, devices=devices),
            )
            if check.wanted(given, patch):
                # One context for all that are asked of the same: the patch is imported once.
                key = (names, devices)
                asking = replace(runner, run=given)
                context = contexts.setdefault(
                    key, CheckContext(given, patch, load_workloads(), asking)
                )
                # Not the run's `workloads`: what others may call is grey then.
                context.only = tuple(
                    Case(torch=torch, device=devices[0], workload=name, patch=patch.id)
                    for name in names
                )
                for at in instances(check, context, torch, names):
                    with contextlib.suppress(NothingToJudge):
                        found += check.ask(context, at)
            if until in {verdict.code for verdict in found}:
                break
        for verdict in found:  # `report`, `accept` and `comment` read what a run wrote
            from_dict(Verdict, json.loads(json.dumps(to_dict(verdict))), where="")
        return found

    return verdicts


def instances(
    check: Check, context: CheckContext, torch: str, workloads: Sequence[str]
) -> list[Instance]:
    """Return the instances of the check on these workloads, also if they do not name it."""
    cases = check.cases(context.patch, torch) if check.cases else [
        Case(torch=torch, device=device, workload=workload, patch=context.patch.id)
        for device in (check.devices(context.run) if "device" in check.axes else [""])
        for workload in (workloads if "workload" in check.axes else [check.workload])
    ]  # fmt: skip
    return [Instance(case=case) for case in cases]


# Codes that the answers to a neighbour's questions decide too, in another line of the judge, which
# has tests of its
# own: PG411, PG413 and PG414 recompile, PG422 and PG423 ask other sizes, PG505 is as inexact, PG703
# has a key.
AS_A_NEIGHBOUR = ("PG412", "PG421", "PG502", "PG704")
# Fixtures that take longer than another one of their code.
LONG = (
    "PG411-asks-for-each-small-size",
    "PG411-fills-a-table-at-the-first-call",
    "PG422-breaks-at-a-reversal",
    "PG507-changes-one-form",
    "PG512-adds-unwritten-memory",
    "PG512-antialiases-in-float32",
    "PG512-asks-its-rows-for-a-gradient",
    "PG512-counts-padding-of-oblong-images",
    "PG513-asserts-that-sizes-are-known",
    "PG513-drops-keepdim",
    "PG532-draws-once",
    "PG803-lowering-of-a-decomposed-op",
    "PG803-never-called",
)


def first_of_each_code() -> list[object]:
    """All fixtures; those that show a code in a second way, or what a neighbour shows, are left to
    the night.
    """
    shown = {
        path.name[:5]: path
        for path in reversed(VERDICTS)
        if path.name[:5] not in AS_A_NEIGHBOUR and path.stem not in LONG
    }
    return [
        pytest.param(
            path, id=path.stem, marks=[] if path in shown.values() else [pytest.mark.nightly]
        )
        for path in VERDICTS
    ]


@pytest.mark.parametrize("path", first_of_each_code())
def test_fixture_causes_the_verdict_that_it_is_named_for(ask, path):
    code = path.name[:5]
    checks, seconds = checks_with(code), 5.0 if "hangs" in path.name else 60.0
    assert checks
    # The first check that says so is enough, but for those of imports.
    until = "" if code.startswith(GATE_CODES) and code != "PG208" else code
    verdicts = ask(path, checks, ON.get(path.stem), seconds, code == "PG506", until)
    red = {verdict.code for verdict in verdicts if verdict.colour is Colour.RED}
    assert red == (set() if code in NOT_RED else {code}), [
        v for v in verdicts if v.colour is Colour.RED
    ]
    assert code in {verdict.code for verdict in verdicts}


# Sound examples of each kind of what projects offer, and bugs, after public ones ->
# the code of the check that judges it, and whether it is red.
KINDS = {
    "operator/rope_inplace": ("PG541", False),
    "operator/scan_clone": ("PG541", False),
    "operator/mm_out_dtype": ("PG541", False),
    "operator/wrong_dtype": ("PG541", True),
    "operator/hides_mutation": ("PG541", True),
    "operator/aliasing_fake": ("PG541", True),
    "pass/doubles": ("PG705", False),
    "pass/counts": ("PG705", False),
    "pass/casts": ("PG501", False),
    "pass/constant_identity": ("PG705", True),
    "pass/all_casts": ("PG512", True),
    "pass/silent_overwrite": ("PG804", True),
    "backend/no_outputs": ("PG532", False),
    "backend/boxed": ("PG532", False),
    "backend/clamps": ("PG532", False),
    "backend/first_result": ("PG532", True),
    "backend/no_constants": ("PG531", True),
    "backend/casts": ("PG532", True),
    "backend/folds": ("PG532", False),
    "backend/forgets_keywords": ("PG531", True),
    "fx_pass/clamp": ("PG532", False),
    "fx_pass/swaps": ("PG532", False),
    "fx_pass/twice_clamped": ("PG532", False),
    "fx_pass/elides": ("PG532", True),
    "fx_pass/stale": ("PG531", True),
    "fx_pass/erases": ("PG531", True),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", KINDS)
def test_operators_passes_and_backends_are_judged_by_what_they_do(ask, name):
    code, is_red = KINDS[name]
    path = ROOT / "fixtures" / "projects" / "kinds" / f"{name}.py"
    verdicts = ask(path, checks_with(code), ON.get(path.stem))
    red = {each.code for each in verdicts if each.colour is Colour.RED}
    assert bool(red) is is_red, red


@pytest.mark.nightly
@pytest.mark.parametrize(
    "path", [path for path in VERDICTS if path.name.startswith(GATE_CODES)], ids=lambda p: p.stem
)
def test_no_other_check_contradicts_a_fixture_of_an_import(ask, path):
    checks = [all_checks()[name] for name in (*OF_IMPORTS, INTERPRETERS[0])]
    verdicts = ask(path, checks, seconds=5.0 if "hangs" in path.name else 60.0)
    assert {verdict.code for verdict in verdicts if verdict.colour is Colour.RED} <= {path.name[:5]}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.nightly] * (n in NIGHTLY)) for n in UNTIMED]
)
def test_harmless_patch_is_all_green(ask, name):
    check = all_checks()[name]
    verdicts = ask(HARMLESS, [check])
    patch, run = load_patch(HARMLESS), Run(folder="", patch=str(HARMLESS), rows={})
    asked = check.wanted(run, patch) and (check.cases is None or check.cases(patch, "2.11.0"))
    # It defines no operator, everything is installed, and it offers users nothing; launches are
    # judged at night.
    asked = asked and name not in ("custom_operators", "stubs", "offers", "launches")
    assert bool(verdicts) is bool(asked)
    # On some workloads it does not act.
    assert {verdict.colour for verdict in verdicts if verdict.code != "PG518"} <= {Colour.GREEN}


@pytest.mark.parametrize(
    "workload",
    ["prenorm_mlp_float16", pytest.param("prenorm_mlp_training", marks=pytest.mark.nightly)],
)
def test_harmless_patch_keeps_all_numbers(ask, workload):
    verdicts = ask(HARMLESS, [all_checks()["parity"]], workload, nightly=True)
    assert {verdict.colour for verdict in verdicts} == {Colour.GREEN}
    assert [v for v in verdicts if "gradients" in v.subject] or "training" not in workload
    assert [v for v in verdicts if v.subject.endswith("small inputs")]


@pytest.mark.nightly
def test_harmless_patch_keeps_attention_opaque_eager_or_open_as_equal_as_it_was(ask):
    verdicts = ask(HARMLESS, [all_checks()["equivalence"]], "opaque_attention")
    assert {verdict.colour for verdict in verdicts} == {Colour.GREEN}
    facts = {verdict.fact for verdict in verdicts}
    assert {
        "opaque and eager attention",
        "opaque and open attention",
        "whole graph and pieces",
    } <= facts


def test_a_table_that_many_modules_import_holds_an_original_once(ask):
    path = ROOT / "fixtures" / "verdicts" / "PG801-registry-wraps-it.py"
    (verdict,) = [each for each in ask(path, checks_with("PG801")) if each.code == "PG801"]
    entries = [
        holder.partition("[")[2] for holder in verdict.actual.split(", ") if "lowerings[" in holder
    ]
    assert entries
    assert len(entries) == len({*entries})
