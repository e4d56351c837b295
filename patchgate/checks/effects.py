"""Does importing the patch have side effects other than replacing its targets once?"""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from dataclasses import replace
from functools import partial

from patchgate.checks.framework import (
    SIMULATED,
    Answer,
    Case,
    Check,
    CheckContext,
    Instance,
    Kind,
    Patch,
    Verdicts,
    by_package,
    display_path,
    does_not_run,
    failure_of,
    names_of,
    read_codes,
    replaced_names,
    verdict_of,
)
from patchgate.checks.framework.find_checks import catalogue
from patchgate.checks.framework.settings_left import could_be_claimed
from patchgate.checks.holders import assignment_place
from patchgate.inputs.patch_source import nodes_in

FAMILY = "gate"
CODES = read_codes("""
PG206 applied twice when run twice
    When the patch ran a second time, the replacement wrapped itself, or the function in `apply`
    raised an exception. It is red if the project runs the patch twice (by `apply`, by a reload, or
    by an import under two names), or if one run installs the same wrapper twice. Otherwise it is a
    grey note.
    Why: Users who import or reload it twice get the effect twice, or a replacement that calls
    itself endlessly.
    Fix: Mark the replacement (an attribute on the function) and return early when it is there.
PG207 touches something outside its targets
    Running the patch changed an attribute of a torch module, class or registry that `targets` does
    not name. It is a note for a new name that nothing in torch looks up, and for a new entry of a
    table, which replaces nothing.
    Why: Users get a change that no reviewer has seen. Without a manifest, the patch claims to
    change nothing else.
    Fix: Add it to `targets`, or do not change it.
PG208 has side effects
    Importing the patch initialised a device, or changed environment variables, torch's config, a
    global state of torch (the precision of float32 products, deterministic algorithms, the default
    dtype, the number of threads, the random generator, what torch's C++ uses for attention and
    products), a function or class of Python's own modules, or what a library leaves to the program:
    the working directory, the umask, limits, cores and priority of the process, handlers of the
    root logger and of signals, hooks for exceptions, the garbage collector, Python's own random
    numbers, trace functions, the direction of rounding, the locale, whether warnings are shown, the
    recursion limit, how processes start. So did a call of what the patch replaces, with an option
    or a state of torch, or compiling and running a workload. Neither `targets` nor `effects` names
    it. What a manifest could name, an option, a variable, a name of Python's modules or a state of
    torch but the random generator, is a note where there is none, a state that compiling or running
    a workload changes excepted; PG213 is red where it replaces a user's.
    Why: Users of forked workers lose CUDA, though `torch.cuda.is_initialized()` may stay False; a
    global setting or seed also changes the unrelated code of everyone in the process.
    Fix: Move it out of import time, or scope it with `config.patch` around the compile; restore
    what a compile or a run changes when it ends. A config option that must be set for the whole
    process is claimed by its name in `targets`, anything else in `effects` ("environment NAME").
PG209 claimed target was not replaced
    The patch applies on this torch but does not replace one of its `targets`.
    Why: Readers rely on the manifest, and users believe that the target is patched.
    Fix: Replace it, or remove it from `targets`.
PG224 the original was saved after it was replaced
    The function that the replacement calls as the original is the replacement itself.
    Why: Users get a RecursionError in the middle of a compile: the first call never ends.
    Fix: Save the original before the assignment that replaces it, and only once.
PG213 overwrites a setting of the user
    With the variable, option or state of torch set to another value before the import, the import
    replaced it. It is a note where there is no manifest and a line, or a text that it executes,
    sets an option to a constant: that may be what the patch is for.
    Why: A user who set it on purpose loses the setting without any message.
    Fix: `os.environ.setdefault(...)`; do not change an option or state that differs from its
    default; draw random numbers from a `torch.Generator` of the patch's own. If the user shall not
    choose, claim it: `effects = ["overwrite NAME"]`.
PG214 the setting does not reach other threads
    A config option that the patch sets at import has its old value in a new thread. It is red where
    the manifest claims the option, and a note where there is no manifest.
    Why: From torch 2.12 on, an assignment holds for the context that made it. Users who compile in
    a thread of their own (`threading.Thread`, a pool of threads) get the default. The threads of
    autograd and `asyncio.to_thread` take the setting over.
    Fix: Set it where the compile runs (`config.patch`), or by its environment variable, if it has
    one, before torch is imported. If only the importing thread is meant, claim it:
    `effects = ["thread-local NAME"]`.
PG216 import starts threads, processes or connections
    Running the module started something that continues after the import.
    Why: Every process that imports it pays for it, and a forked worker inherits locks that are
    never released.
    Fix: Start it where it is needed, once.
PG217 torch.compile is called at import
    Running the module called `torch.compile`, for instance as a decorator.
    Why: It loads the whole compiler (more than a thousand modules) into every process that imports
    the patch, and fails on a Python that Dynamo does not support.
    Fix: Compile at first use, or declare it: `effects = ["compile"]`.
PG218 import writes files
    Running the module wrote, moved or deleted files outside its temporary folder.
    Why: Users with a read-only disk cannot import it, and other processes find changed files.
    Fix: Write when the user asks for it, to a folder of the patch's own.
""")
verdict = partial(verdict_of, FAMILY, item="effects")
# Kind of effect -> code. Other kinds are settings and devices, whose code is PG208.
_EFFECTS = {
    "threads": "PG216",
    "processes": "PG216",
    "network": "PG216",
    "compile": "PG217",
    "files": "PG218",
}
# A finding about settings -> its code, the expected value, and how a manifest claims it.
_SETTINGS = {
    "overwritten": ("PG213", "the user's setting is kept", "overwrite"),
    "unseen": ("PG214", "the same in every thread", "thread-local"),
}


@Check(believes=SIMULATED, seconds=0.1)
def ask_effects(context: CheckContext, at: Instance) -> Verdicts:
    applied = context.apply(at.case.torch)
    failure = failure_of(applied)
    if failure:
        return [does_not_run(at.case, failure, context.patch, context.run.again)]
    return judge_effects(at.case, context.patch, applied, context.patch.place_of("targets"))


def judge_effects(case: Case, patch: Patch, answer: Answer, where: str) -> Verdicts:
    """One verdict for each fault of one application of the patch; PG211 if there is none."""
    faults = [
        *_second_run(case, patch, answer, where),
        *_targets(case, patch, answer, where),
        *_effects(case, patch, answer),
    ]
    faults += _leaks(case, patch, answer, where)
    yield from faults
    package = by_package(answer)
    if package:
        yield verdict("PG211", Kind.NOTE, case, "the package", "changes nothing itself", package)
    for name in answer.get("absent", ()):
        actual = f"{name} is not installed here: what the patch does with it was not judged"
        yield verdict("PG211", Kind.NOTE, case, f"with {name}", "runs with what it imports", actual)
    if not faults:
        names = replaced_names(patch, answer)
        besides = [
            f"{effect['kind']} {effect['name']}"
            for effect in answer["effects"]
            if effect["name"] not in names
        ]
        done = [*names, *answer["defined"], *answer.get("offers", ()), *besides]
        expected = "its targets, once, and nothing else"
        nothing = "nothing in addition to its package" if package else ""
        actual = ", ".join(done) or nothing or "nothing: the patch does not apply"
        ran = verdict("PG211", Kind.PASS, case, "", expected, actual)
        yield replace(ran, applies=bool(done or package))


def _leaks(case: Case, patch: Patch, answer: Answer, where: str) -> Verdicts:
    """Return PG219 for each name that is changed outside the scope, for each other end of the scope
    after which names stay changed, and for an inner block that ends the outer block.
    """
    expected = f"unchanged outside `{patch.claims.scope}`"
    for name in answer.get("leaks", ()):
        yield verdict("PG219", Kind.REGRESSED, case, "", expected, "changed", where, item=name)
    for how, names in answer.get("leaks_by", {}).items():
        actual = f"changed: {', '.join(names)}"
        yield verdict("PG219", Kind.REGRESSED, case, f"after {how}", expected, actual, where)
    if answer.get("ended"):
        fact = "within the outer block, after a block inside another"
        actual = f"as without the patch: {', '.join(answer['ended'])}"
        yield verdict("PG219", Kind.REGRESSED, case, fact, "replaced until it ends", actual, where)


def _second_run(case: Case, patch: Patch, answer: Answer, where: str) -> Verdicts:
    """PG206 if the patch wraps itself, or raises, when it is run again."""
    if answer["nested"]:
        # Python imports a module only once, so a second run needs a call that the project repeats.
        again = answer["runs_again"]
        actual = (
            f"wraps itself: {', '.join(answer['nested'])} "
            f"({f'again: {again}' if again else 'nothing runs it twice'})"
        )
        # Without a manifest, `apply` is no claim: a line that calls it again must be the evidence.
        unclaimed = patch.manifest is None and again == ", ".join(patch.claims.apply)
        kind = Kind.REGRESSED if again and not unclaimed else Kind.NOTE
        yield verdict("PG206", kind, case, "second run", "applied once", actual, where)
    if answer["again"]:
        # A second run may raise because an operator, for example, can be defined only once. A patch
        # that a call installs must allow a second call, perhaps for another model.
        kind = Kind.REGRESSED if patch.claims.apply and patch.manifest else Kind.NOTE
        yield verdict(
            "PG206", kind, case, "second run", "applied once", f"raises {answer['again']}", where
        )


def _targets(case: Case, patch: Patch, answer: Answer, where: str) -> Verdicts:
    """PG224, PG207 and PG209 from the replaced names and the claimed targets."""
    targets, changed = patch.claims.targets, replaced_names(patch, answer)
    meant = {target: names for target, names in answer["claimed"].items() if names}
    claimed = {*(targets or ()), *(name for names in meant.values() for name in names)}
    for name in answer["recursive"]:
        place = assignment_place(patch, name)
        yield verdict(
            "PG224", Kind.REGRESSED, case, f"of {name}", "calls the original", "calls itself", place
        )
    # With a scope, empty targets claim that nothing is replaced outside it, which PG219 judges.
    is_claim = targets is not None and (bool(targets) or not patch.claims.scope)
    outside = [name for name in changed if is_claim and name not in claimed]
    expected = f"only {', '.join(targets or ())}"
    touched = [name for name in outside if name not in answer["added"]]
    added = [name for name in outside if name in answer["added"]]
    entries = [name for name in added if name.endswith("]")]
    own = [name for name in added if name not in entries]
    for kind, fact, names in (
        (Kind.REGRESSED, "outside targets", touched),
        (Kind.WARNING, "entries of its own", entries),
        (Kind.NOTE, "names of its own", own),
    ):
        if names:
            yield verdict("PG207", kind, case, fact, expected, ", ".join(names), where)
    unreplaced = [
        name
        for name in patch.claims.targets_on(case.torch)
        if name not in changed and name not in meant and name not in answer.get("by_package", ())
    ]
    if changed and unreplaced and patch.is_claimed(case.torch):
        actual = f"not replaced: {', '.join(unreplaced)}"
        yield verdict(
            "PG209", Kind.REGRESSED, case, "targets", "all of them replaced", actual, where
        )


def _effects(case: Case, patch: Patch, answer: Answer) -> Verdicts:
    for effect in answer["effects"]:
        kind, name, names = effect["kind"], effect["name"], names_of(effect)
        claims = {kind, *(f"{what} {each}" for what in (kind, "overwrite") for each in names)}
        claimed = {*patch.claims.effects, *(patch.claims.targets or ())}
        if claimed.isdisjoint({*claims, *names}):
            code, fact = _EFFECTS.get(kind, "PG208"), f"import, on {kind}: {name}"
            yield verdict(
                code,
                Kind.WARNING if could_be_claimed(patch, kind, name) else Kind.REGRESSED,
                case,
                fact,
                "none",
                effect["what"],
                effect_place(patch, effect),
            )
    for about, (code, expected, claim) in _SETTINGS.items():
        for effect in answer.get(about, ()):
            fact, place = f"import, {effect['kind']} {effect['name']}", effect_place(patch, effect)
            meant = any(f"{claim} {each}" in patch.claims.effects for each in names_of(effect))
            is_purpose = code == "PG213" and _says_its_value(patch, effect)
            # Most users compile in the thread that imports the patch, as torch's own pages do.
            suspected = code == "PG214" and patch.manifest is None
            unclaimed = Kind.WARNING if suspected else Kind.REGRESSED
            yield verdict(
                code,
                Kind.NOTE if meant or is_purpose else unclaimed,
                case,
                fact,
                expected,
                effect["what"],
                place,
                advice=catalogue()[code].fix.replace("NAME", effect["name"]),
            )


def _says_its_value(patch: Patch, effect: Answer) -> bool:
    """True for an option that a patch without a manifest sets to a constant, either in its own text
    or in a text that it executes.
    """
    if patch.manifest is not None or effect["kind"] != "config":
        return False
    text = dict(enumerate(patch.source.splitlines(), 1)).get(effect["line"] or 0, "")
    if "exec(" not in text:
        return _sets_a_constant(text)
    names = [name.rpartition(".")[2] for name in names_of(effect)]
    option = re.compile(rf"[\w.]*\b(?:{'|'.join(map(re.escape, names))})\s*=")
    executed = (node.value for node in nodes_in(ast.parse(patch.source), ast.Constant))
    return any(
        isinstance(each, str) and option.match(each) and _sets_a_constant(each) for each in executed
    )


def _sets_a_constant(text: str) -> bool:
    """True for an assignment of a constant."""
    with suppress(SyntaxError, ValueError):
        (statement,) = ast.parse(text.strip()).body
        return isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
    return False


def effect_place(patch: Patch, effect: Answer) -> str:
    """The file and line of the patch that cause an effect."""
    return f"{display_path(patch.path)}:{effect['line'] or 1}"
