"""Does the patch do the same in a new interpreter, where only `import torch` has run?"""

from __future__ import annotations

from functools import partial

from patchgate.checks.effects import effect_place
from patchgate.checks.framework import (
    SIMULATED,
    Answer,
    Case,
    Check,
    CheckContext,
    Instance,
    Kind,
    NothingToJudge,
    Patch,
    Verdicts,
    display_path,
    failure_of,
    held_against,
    read_codes,
    verdict_of,
)
from patchgate.checks.holders import assignment_place

FAMILY = "gate"
CODES = read_codes("""
PG215 the environment variable has no effect
    The patch sets or claims a variable that nothing in this torch, Triton or the patch's own
    package reads, or that was read before it was set.
    Why: Users believe that they have switched something, and have not.
    Fix: Use the variable or option that this release reads, before what reads it is imported.
PG222 does not run in a new interpreter
    In a new interpreter, where only `import torch` has run and `CI` is set as in a pipeline, the
    patch failed. Where the whole compiler is loaded and `CI` is not set, it runs.
    Why: Users who import the patch first get this failure: it depends on modules that other code
    has imported, on the order of imports, or on what torch only warns of outside of a pipeline
    (`make_fallback` of an operator that it can decompose).
    Fix: Import every module that the patch reads: `import torch._inductor.lowering`, not
    `torch._inductor.lowering` through `import torch`. `make_fallback(op, override_decomp=True)`.
PG223 replaces less in a new interpreter
    In a new interpreter, where only `import torch` has run, the patch does not replace a name that
    it replaces where the whole compiler is loaded. It is red for a claimed target of a patch
    without a scope.
    Why: Users who import the patch first have less of it than those who import it last.
    Fix: Import the module whose names the patch replaces; do not look for it in `sys.modules`.
""")
verdict = partial(verdict_of, FAMILY, item="new interpreter")


@Check(believes=SIMULATED, seconds=2)
def ask_new_interpreter(context: CheckContext, at: Instance) -> Verdicts:
    torch, patch = at.case.torch, context.patch
    applied = context.apply(torch)
    if "failure" in applied:
        raise NothingToJudge("does not run: see the result of version_gate")
    answer = context.apply_anew(torch)
    return judge_new_interpreter(at.case, patch, applied, answer)


def judge_new_interpreter(case: Case, patch: Patch, applied: Answer, answer: Answer) -> Verdicts:
    """PG222, PG223 and PG215 from a run of the patch in a new interpreter; `applied` is the answer
    to its run in a child of the server.
    """
    failure, fact = failure_of(answer), "replaces the same"
    if failure:
        code, kind, where = held_against(failure, "PG222", display_path(patch.path))
        yield verdict(code, kind, case, "", "the module runs", failure.text, where)
        return
    if "unmeasured" in answer:
        yield verdict("PG906", Kind.NOTE, case, "", "the module runs", answer["unmeasured"])
        return
    for name in answer["missing"]:
        # A caller that enters a scope has already loaded the modules that the scope changes.
        is_target = name in (patch.claims.targets or ()) and not patch.claims.scope
        kind = Kind.REGRESSED if is_target else Kind.WARNING
        place = assignment_place(patch, name)
        yield verdict("PG223", kind, case, f"of {name}", "replaced", "as it was", place)
    lines = {effect["name"]: effect_place(patch, effect) for effect in applied["effects"]}
    for effect in answer["dead"]:
        # A variable that is claimed for other releases need not be read in this one.
        kind = (
            Kind.REGRESSED if effect["name"] in lines or patch.is_claimed(case.torch) else Kind.NOTE
        )
        place = lines.get(effect["name"]) or assignment_place(patch, effect["name"])
        fact = f"environment {effect['name']}"
        yield verdict("PG215", kind, case, fact, "something reads it", effect["what"], place)
    if not answer["missing"] and not answer["dead"]:
        actual = f"{len(applied['changed'])} names, as with the compiler loaded"
        yield verdict("PG211", Kind.PASS, case, fact, "as with the compiler loaded", actual)
