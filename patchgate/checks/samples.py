"""Do torch's own samples of the replaced operators give what they give without the patch? Compiled
and in eager mode, on the CPU.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from patchgate.checks.framework.context import SIMULATED, CheckContext
from patchgate.checks.framework.find_checks import (
    Check,
    Instance,
    NothingToJudge,
    judge_failed,
    verdict_of,
)
from patchgate.checks.framework.settings_left import settings_left
from patchgate.checks.holders import assignment_place
from patchgate.checks.offers import offer_place
from patchgate.checks.parity import comparison_failure
from patchgate.inputs.manifest import Patch
from patchgate.inputs.patch_source import Unreadable, mentioned_operators, parse
from patchgate.model.facts import OTHER_FORM
from patchgate.model.files import write_atomically
from patchgate.model.paths import display_path
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Cause, Numerics, Verdict, read_codes
from patchgate.model.serialization import Answer, failure_of

FAMILY = "parity"
CODES = read_codes("""
PG512 other results for samples of what the patch replaces
    torch's own samples of an operator that the patch replaces were run with it, compiled and in
    eager mode: arguments, dtypes, strides, NaN and gradients that no workload has; second
    derivatives, a loss of one of several results, modules with hooks, copies of modules, training
    under autocast, masks that are written between two calls, dropout with one seed, random numbers
    that are drawn again, tensors that are sent to another process, also from each of two equal
    GPUs, which are simulated; a batch under `torch.vmap`, more positions than half precision
    counts, results that the caller allocates, and bfloat16 as the default dtype. What draws random
    numbers must draw them from the generator that it is given, and must have the gradient that its
    own results have with the same seed; so must small programs with dropout, where a patch acts on
    the graphs of forward and backward. A pass meets small programs, also random ones, with
    integers, booleans and NaN, and formulas with other numbers than its own. A patch of how kernels
    are ordered or fused meets programs that read an input before they write it, constants, computed
    indices, and five options. With a patch of the keys of caches, functions that differ in one
    thing, or in one option, are compiled with one cache, into which threads write. What acts before
    Inductor meets programs that compile Python: lists, classes, generators, hooks, changes of
    state, views, checkpoints, tools of `torch.fx`; and calls of a function for which a patch gives
    Dynamo another form (`substitute_in_graph`), with iterators that are read on afterwards.
    Programs call what is replaced in distributions, initial weights, copies of parameters, loaders
    of data and optimizers. Of a patch that changes how code is made the code for a simulated GPU is
    run too, and long loops in C++ must still be shared between threads (PG301). On some, outputs,
    gradients or changed inputs are neither what torch computes without the patch nor what eager
    mode computes, by more than rounding explains (of small numbers two digits must agree); nor are
    they nearer to the exact ones in half precision. Without a manifest, eager calls within the
    patch's scope that differ are a note, because other numbers may be what the scope is for. A
    patch that claims `numerics = "changes"` may change them, but neither a pass nor the order of
    kernels may move a result of a small program by more than half of its size. Or an output shares
    memory with an input, or with an output that is its copy, as neither without the patch nor in
    eager mode.
    Why: Users whose model calls the operator like this get wrong numbers, with no error message.
    Fix: Call the operator with the arguments that are shown. An argument that the replacement does
    not use or pass on is the most frequent reason. Of a pass, compile the small program that is
    shown.
PG513 another outcome for samples of what the patch replaces: an error, or another form of results
    Samples of an operator that the patch replaces, or small programs that meet its pass, raise, or
    give another shape or dtype, with the patch, and compile and run without it; also with other
    sizes and numbers than those of a first compile, with tensors of several dtypes, after a call
    in inference mode, in a backward outside of the autocast of its forward, or as a copy; or they
    mix tensors of the CPU with those of a GPU, which are run without numbers. A refused second
    derivative is not judged, nor `torch.vmap` or `out=` that is refused. Another dtype is allowed
    to a patch that claims `numerics = "changes"`. Or images in eager mode are stored in rows that
    are stored with channels last without the patch.
    Why: Users whose model calls the operator like this get an error where it worked. If images lose
    their layout, the next convolution copies them, and views that fit before raise.
    Fix: Accept every argument that the replaced function accepts, and pass on to the original what
    is not handled.
PG514 samples of what the patch replaces as without it
    Every sample of the replaced operators, and every small program for a pass, gives what it gives
    without the patch, but for rounding.
    Why: Samples reach arguments, dtypes and strides that workloads do not.
    Fix: Nothing to do.
PG515 samples of what the patch replaces were not judged
    torch's samples could not be made or compiled here, or did not end in time with the patch nor
    without it, or no sample and no program calls what is replaced.
    Why: Only the workloads have judged the replacement, with few arguments.
    Fix: Read the reason. Samples need numpy (`pip install numpy`) and a C++ compiler.
""")
#: The probe's names for the samples of a pass, and for the samples of code that orders kernels.
PROGRAMS, KERNEL_PROGRAMS = "small programs", "small programs of kernels"
_FORM = "Give results the dtype, shape and layout that they have without the patch."
_PROGRAM = (
    "Compile the small program that is shown, with the pass: it matches more than it may, or what "
    "it puts in place is not the same for these arguments."
)
_ORDER = (
    "Compile the small program that is shown: a kernel writes what another has still to read, or "
    "two of them share memory."
)
_COMPILES_ITSELF = (
    "Run the program that is shown without the patch and with it: what it compiles must return the "
    "same results, and leave the same in the objects that it changes."
)
_NEAR = (
    "The results are near: look for a constant with too few digits, an intermediate in a narrower"
    " dtype than the arguments, or an approximation."
)
_KEY = (
    "Two different functions, or one with other options, got the same cached code: put into the key"
    " everything that the original puts there."
)
# Pattern in the text of a sample -> the next step to advise.
_OF_SAMPLES = {
    "slope of its results": (
        "In the backward, use the random numbers of the forward: save them, or the seed."
    ),
    "generator of one seed": (
        "Draw all random numbers from the `generator` that is given: two calls with one seed must "
        "agree, and leave the generator of the process as it was."
    ),
    "fresh_cache": _KEY,
}
_SHARE = (
    "Compile a loop that is shown with `torch.compile`: a thread is started for as much work as all"
    " iterations have together, also those of the loops inside."
)
# Name of a group of programs -> the next step to advise.
_OF_PROGRAMS = {
    PROGRAMS: _PROGRAM,
    KERNEL_PROGRAMS: _ORDER,
    "small programs that compile": _COMPILES_ITSELF,
}
# Pattern in the text of a difference -> the next step, if that of the verdict's code does not fit.
_NEXT = {
    "two different devices": (
        "Make every tensor on the device of the arguments: `torch.arange(n, device=x.device)`."
    ),
    "autograd formula|derivative .*not implemented|not require grad": (
        "Give the operator that the replacement calls a gradient with "
        "`torch.library.register_autograd`."
    ),
    "fake impl|fake tensors|unsupported operator|register_fake": (
        "Say what the operator that the replacement calls returns with "
        "`torch.library.register_fake`."
    ),
    "^gradient": (
        "Correct the backward of the replacement, and leave in it every argument that needs a "
        "gradient."
    ),
    "shares its memory": (
        "Return a copy where the original does: a caller may write to what is returned."
    ),
    "^(input|state)": "Leave the arguments and the module's state as the original leaves them.",
    r"\bnan\b": (
        "Look for a comparison that NaN fails, as `x > 0` does, or for an operation that makes NaN "
        "of an infinity: the result must be NaN where the original's is."
    ),
    r"\binf\b": (
        "Look for an intermediate that overflows, or a division by zero, that the original has not."
    ),
}
# The end of a sample's name, which says how the sample was run.
_RUN = re.compile(", (in eager mode|on the simulated GPU)$")
verdict = partial(verdict_of, FAMILY, item="samples")
# Names of operators of torch, or of functions of Inductor that handle them.
_OPERATOR = re.compile(
    r"\[['\"]?(?:aten|prims)[./]\w"
    r"|^torch\.(?:nn\.functional\.|special\.|linalg\.|fft\.|Tensor\.|_tensor\.Tensor\.|_refs\.|_decomp\.)?[a-z_]\w*$"
    r"|^torch\.nn\.modules\.\w+\.\w+\.(?:\w*forward|__init__|_[a-z]\w*)$"
    r"|^torch\._inductor\.(?:lowering|decomposition|kernel\.\w+)\.[a-z_]\w*$"
    r"|^torch\._inductor\.codegen\.\w+\.\w+Overrides\.[a-z_]\w*$"
    r"|^torch\.(?:_refs|_decomp)\.[\w.]+\.[a-z_]\w*$"
)
# Passes, their tables of patterns, and options that hold a pass. All may act on any graph.
_PASS = re.compile(
    r"^torch\._inductor\.(?:fx_passes\.|pattern_matcher\.|config\.\w+_custom_\w*pass|config\.\w+_passes)"
)
# Functions and options that decide which values a backward gets from its forward, and how random
# numbers are drawn in the backward.
_JOINT = re.compile(
    r"^torch\.(?:_functorch\.(?:partitioners|config|_aot_autograd|_activation_checkpointing)\."
    r"|_inductor\.(?:inductor_prims\.|config\.fallback_random|compile_fx\.\w*(?:joint|partition))"
    r"|_prims\.rng_prims\.)"
)
# Functions that order, fuse and allocate kernels, or write the code that calls kernels: all
# functions that generate code and have no other samples.
_KERNELS = re.compile(
    r"^torch\.(?:utils\._sympy\.[^\[]+|_inductor\.(?!(?:config|custom_graph_pass|codecache|fx_passes"
    r"|decomposition|lowering|kernel|pattern_matcher)\b)(?:codegen\..*|\w+\.[^\[]+))$"
)
# Functions that make cache keys, and the option that excludes other options from the keys.
_KEYS = re.compile(
    r"^torch\.(?:_inductor\.codecache\.|_functorch\._aot_autograd\.autograd_cache\."
    r"|_inductor\.config\._cache_config_ignore_prefix$)"
)
# Functions around operators: optimizers, autocast, state of modules, initial weights.
_TRAINING = re.compile(
    r"^torch\.(?:nn\.utils|optim|amp|autograd|func|utils\.(?:checkpoint|data)|nn\.Module"
    r"|distributions|nn\.init|nn\.(?:parameter\.)?Parameter|random|serialization"
    r"|nn\.modules\.module\.Module|distributed\.algorithms\._checkpoint|multiprocessing\.reductions"
    r"|_dynamo\.eval_frame\.OptimizedModule)\."
)
# Functions that act during a compile before Inductor, and the entries for torch's operators in
# their tables. Entries of registries to which a project adds its own are left out.
_COMPILER = re.compile(
    r"^torch\.(?:_dynamo(?!\.config$)|_functorch|_guards|_subclasses|_higher_order_ops|_export"
    r"|export|_library|_ops|_prims_common|_meta_registrations|fx"
    r"|utils\._(?:sympy|pytree|python_dispatch))\.[^\[]+(?:\[['\"]?(?:aten|prims)[./].*)?$"
    r"|^torch\._dynamo\.polyfills\["
)
# Functions of torch that are not operators.
_NO_OPERATOR = re.compile(
    r"^torch\.(?:compile|load|save|set_\w+|get_\w+|manual_seed|no_grad|is_\w+|_\w+|library|ops)$"
)
# The time limit, as a multiple of the limit of one case: groups of samples are compiled forward and
# backward, and a group is halved if one of its samples raises.
_COMPILES = 12
_SHOWN = 3


@Check(believes=SIMULATED, seconds=10, unchanged="none")
def ask_samples(context: CheckContext, at: Instance) -> Iterable[Verdict]:
    torch = at.case.torch
    if not any(sampled_names(context.apply(torch)).values()):
        raise NothingToJudge("the patch replaces no operator, and offers no backend and no pass")
    answers = sampled(context, torch)
    unpatched = answers["unpatched"]
    broken, changed = failure_of(unpatched), failure_of(answers["patched"])
    reason = _not_judged(unpatched)
    if broken and broken.cause is Cause.CRASHED:
        # The samples crash torch itself here, on every run.
        reason = f"unpatched: {broken.text}"
    elif changed and changed.cause is Cause.RAISED and context.patch.claims.scope:
        # A scope may change how any tensor is made, so that the code around the samples fails.
        reason = f"within the scope: {changed.text}"
    elif changed and changed.cause is Cause.HUNG and broken and broken.cause is Cause.HUNG:
        reason = f"unpatched, in half of that time: {broken.text}; patched: {changed.text}"
    if reason:
        expected = "samples of what the patch replaces"
        return [verdict("PG515", Kind.ASSUMED, at.case, "", expected, reason)]
    failures = broken, changed or comparison_failure(answers["compared"])
    failed = judge_failed(
        FAMILY, ("PG513", "PG515"), at.case, failures, "runs as it does unpatched", item="samples"
    )
    if failed:
        return [failed]
    metrics = answers["compared"]["metrics"]
    program = _write_program(context, torch, metrics["differing"])
    return judge_samples(at.case, context.patch, unpatched["operators"], metrics, program)


def sampled(context: CheckContext, torch: str) -> Answer:
    """Return the answers `unpatched`, `patched` and `compared` for the samples of the replaced
    operators. The questions are asked once a run.
    """
    return context.once_a_run(f"samples {torch}", partial(_run_samples, context, torch))


def _run_samples(context: CheckContext, torch: str) -> Answer:
    """Return the answers of `sampled`. An answer is empty if an earlier one makes it needless."""
    names = sampled_names(context.apply(torch))
    answers: Answer = {"unpatched": {}, "patched": {}, "compared": {}}
    with TemporaryDirectory() as folder:
        made, ours, theirs = (Path(folder, name) for name in ("made", "unpatched", "patched"))
        ask = partial(context.ask_building, torch, "operators", "cpu", compiles=_COMPILES)
        simulated = _simulated(context)
        compare = partial(context.differences, torch, "differ samples")
        acts_on_graphs = names["passes"] or names["offers"] or names["joint"]
        seed = context.run.seed
        mentions = _mentions(context.patch) if acts_on_graphs or seed else []
        making = {**names, "mentions": mentions, "seed": seed}
        answers["unpatched"] = known = _made(partial(ask, patch=None, outputs=str(made), **making))
        if "failure" in known or _not_judged(known):
            return answers
        again = partial(
            ask, patch=None, unpatched=str(made), outputs=str(ours), simulated=simulated
        )
        answers["patched"] = ask(
            patch=context.patch,
            cover=_is_coverage_asked(context, torch),
            unpatched=str(made),
            offers=names["offers"],
            simulated=simulated,
            outputs=str(theirs),
        )
        failed = failure_of(answers["patched"])
        if failed:
            # If the patched run exceeds the time limit, the patch is at fault only if the same work
            # finishes in half of that time without the patch.
            is_late = failed.cause is Cause.HUNG
            most = {"as_patched": True, "offers": [], "compiles": _COMPILES // 2}
            first = again(**(most if is_late else {"only": [], "only_simulated": []}))
            answers["unpatched"] |= {k: v for k, v in first.items() if k == "failure"}
            return answers
        answers["compared"] = compare(made, theirs)
        differing = answers["compared"].get("metrics", {}).get("differing", ())
        only, only_simulated = (
            [each["at"] for each in differing if each.get("way") == way]
            for way in ("compiled", "simulated")
        )
        # Samples that differ are compiled without the patch too: results that torch itself gets
        # wrong are not judged.
        if only or only_simulated:
            asked = again(only=only, only_simulated=only_simulated)
            answers["unpatched"] |= {k: v for k, v in asked.items() if k == "failure"}
            answers["compared"] = asked if "failure" in asked else compare(ours, theirs)
    return answers


def _made(ask: Callable[..., Answer]) -> Answer:
    """The answer with random calls; without them if an operator ends the process for one."""
    answer = ask(random_calls=True)
    failed = failure_of(answer)
    return ask(random_calls=False) if failed and failed.cause is Cause.CRASHED else answer


def _is_coverage_asked(context: CheckContext, torch: str) -> bool:
    """True if the check of calls asks which lines run. Recording them can double the time."""
    return (
        context.run.asks("calls", "reach")
        and bool(context.apply(torch)["replacements"])
        and context.leaves_functions_unreached(torch)
    )


def _simulated(context: CheckContext) -> dict[str, Any] | None:
    """The profile of the first simulated GPU that is judged; None if none is judged."""
    profiles = map(context.run.profile, context.run.devices)
    gpus = (each for each in profiles if each["kind"] == "simulated" and each["backend"] == "cuda")
    return next((dict(each) for each in gpus), None)


def _mentions(patch: Patch) -> list[str]:
    """The functions that the patch's source mentions; none if the source is not Python."""
    try:
        return mentioned_operators(parse(patch.source))
    except Unreadable:
        return []


def _write_program(
    context: CheckContext, torch: str, differing: Sequence[Mapping[str, Any]]
) -> str:
    """Write to a file one program whose results differ, and return the file's path; empty if there
    is no such program. The program needs only torch and the patch.
    """
    body = next((each["program"] for each in differing if each.get("program")), "")
    if not body:
        return ""
    patch = context.patch
    installs = "".join(
        f"; patch.{call}{'' if '(' in call else '()'}"
        for call in patch.claims.apply
        if ":" not in call
    )
    path = Path(context.run.folder, "samples", f"{patch.id.replace('/', '-')}-{torch}.py")
    path.parent.mkdir(parents=True, exist_ok=True)
    load = f"importlib.util.spec_from_file_location('patch', {os.path.abspath(patch.path)!r})"
    python = shlex.quote(context.run.rows[torch])
    program = f"""# Run it with {python} (torch {torch}): eager mode, then compiled with the patch.
import importlib.util, operator, torch
{body}print(call(given()))
patch = importlib.util.module_from_spec({load})
patch.__spec__.loader.exec_module(patch){installs}
print(torch.compile(call)(given()))
"""
    write_atomically(path, program)
    return display_path(path)


def changed_code(applied: Answer) -> tuple[str, ...]:
    """The names in torch whose objects the patch replaces, or whose code it edits in place."""
    return *applied.get("changed", ()), *applied.get("edited", ())


def sampled_names(applied: Answer) -> dict[str, list[str]]:
    """Return lists of the names for which samples are made. `names` has all changed names that have
    samples, such as operators, functions that handle operators, and options that hold a pass.
    `offers` has the backends and passes that the patch offers but that are not called by default.
    Each other list is a part of `names`.
    """
    options = (
        effect["name"] for effect in applied.get("effects", ()) if effect["kind"] == "config"
    )
    held = (name for name in options if any(p.match(name) for p in (_PASS, _JOINT, _KEYS)))
    changed = dict.fromkeys((*changed_code(applied), *held))
    passes = [*filter(_PASS.match, changed)]
    joint = [name for name in changed if _JOINT.match(name) and name not in passes]
    training = [*filter(_TRAINING.match, changed)]
    kernels = [name for name in changed if _KERNELS.match(name) and not _is_operator(name)]
    keys = [*filter(_KEYS.match, changed)]
    compiler = [*filter(_COMPILER.match, changed)]
    own = (passes, joint, training, compiler, kernels, keys, filter(_is_operator, changed))
    known = {name for names in own for name in names}
    return {
        "names": [name for name in changed if name in known],
        "passes": passes,
        "joint": joint,
        "compiler": compiler,
        "training": training,
        "kernels": kernels,
        "keys": keys,
        "offers": [*applied.get("offers", ())],
    }


def _is_operator(name: str) -> bool:
    return bool(_OPERATOR.search(name)) and not _NO_OPERATOR.match(name)


def _not_judged(unpatched: Answer) -> str:
    """The reason why there are no samples; empty if there are some, or if making them failed."""
    if "failure" in unpatched:
        return ""
    if unpatched["unmeasured"]:
        return f"{unpatched['unmeasured']}: `pip install numpy` in the environment of this torch"
    if not any(unpatched["operators"].values()):
        return f"no sample and no program calls {', '.join(unpatched['operators'])}"
    return ""


def judge_samples(
    case: Case,
    patch: Patch,
    operators: Mapping[str, list[str]],
    metrics: Mapping[str, Any],
    program: str = "",
) -> list[Verdict]:
    """Return PG512 and PG513 for samples that differ, else PG514. Numbers may differ if the patch
    claims to change them. Samples of what the patch offers get PG532 and PG531 instead. It is a
    note if eager calls differ within a scope that no manifest describes.
    """
    ran = ", ".join(sorted({operator for known in operators.values() for operator in known}))
    place = assignment_place(patch, next(name for name, known in operators.items() if known))
    verdicts: list[Verdict] = []
    for offer in sorted({each["offer"] for each in metrics["differing"]}):
        found = [each for each in metrics["differing"] if each["offer"] == offer]
        say = partial(
            _red,
            case=case,
            judged=metrics["judged"],
            advice=_OF_PROGRAMS.get(ran),
            place=offer_place(patch, offer) if offer else place,
            program="" if offer else program,
        )
        of_graphs = any(_PASS.match(name) or _KERNELS.match(name) for name in operators)
        fact = f"{offer}, {ran}" if offer else f"of {ran}"
        verdicts += _judge_differing(patch, offer, found, say, fact, of_graphs=of_graphs)
    verdicts += _judge_compiles(case, ran, metrics["grown"], place)
    verdicts += _judge_kept(case, ran, metrics["kept"], place)
    verdicts += _judge_loops(case, ran, metrics["serial"], place)
    verdicts += settings_left(case, patch, f"calls of {ran}", metrics["settings"], place)
    if verdicts:
        return verdicts
    actual = f"as unpatched or eager in {metrics['judged']} of {metrics['samples']} samples"
    if metrics["unjudged"]:
        actual += f"; others were not judged: {'; '.join(metrics['unjudged'][:_SHOWN])}"
    kind = Kind.PASS if metrics["judged"] else Kind.ASSUMED
    return [
        verdict(
            "PG514" if metrics["judged"] else "PG515",
            kind,
            case,
            f"of {ran}",
            "as without the patch",
            actual,
        )
    ]


def _judge_differing(
    patch: Patch,
    offer: str,
    found: list[Mapping[str, Any]],
    say: Callable[..., Iterator[Verdict]],
    fact: str,
    *,
    of_graphs: bool,
) -> Iterator[Verdict]:
    """One verdict for each kind of difference, of what is replaced or of one offer."""
    meant = [each for each in found if _is_meant(patch, each)]
    laid_out = [each for each in found if each.get("is_layout") and each not in meant]
    found = [each for each in found if each not in meant and each not in laid_out]
    failing = [each for each in found if each["raises"]]
    wrong = [each for each in found if not each["raises"]]
    if patch.claims.numerics is Numerics.CHANGES:
        wrong = [each for each in wrong if _is_no_approximation(each, bool(offer) or of_graphs)]
        failing = [each for each in failing if not each.get("is_cast")]
    formed = [each for each in failing if each.get("is_form") and not offer]
    failing = [each for each in failing if each not in formed]
    formed += laid_out
    yield from say("PG512", meant, fact=f"within the scope {fact}", kind=Kind.WARNING)
    yield from say("PG532" if offer else "PG512", wrong, fact=fact)
    yield from say("PG531" if offer else "PG513", failing, fact=fact)
    yield from say("PG513", formed, fact=f"{OTHER_FORM} {fact}")


def _is_meant(patch: Patch, sample: Mapping[str, Any]) -> bool:
    """True if the numbers of an eager call differ within a scope that no manifest describes: code
    that enters the scope may want just that. No code wants an error.
    """
    is_undescribed = patch.claims.scope and patch.manifest is None
    return bool(sample.get("is_called") and not sample["raises"] and is_undescribed)


def _is_no_approximation(sample: Mapping[str, Any], is_pass: bool) -> bool:
    """True if a claim to change numbers does not explain the difference: a gradient is missing,
    memory is shared, or a small program has grossly different results with a pass.
    """
    is_gross = is_pass and sample.get("is_gross") and sample.get("is_graph")
    return bool(sample.get("is_missing") or sample.get("is_shared") or is_gross)


# Count that grew -> the code for the same growth in workloads, and the noun of the count.
_GROWN = {
    "graphs": ("PG411", " graphs compiled"),
    "breaks": ("PG422", " graph breaks"),
    "raises": ("PG513", ""),
}


def _judge_compiles(
    case: Case, ran: str, grown: Sequence[Mapping[str, Any]], place: str
) -> Iterator[Verdict]:
    """One verdict for samples that are compiled more often, one for those with more graph breaks,
    and one for those that raise with other sizes or numbers.
    """
    for kind, (code, what) in _GROWN.items():
        found = [each for each in grown if each["of"] == kind]
        if found:
            first = found[0]
            actual = (
                f"{first['actual']} {first['step']} of {first['sample']}",
                *(
                    f"{each['sample']}, {each['step']}: {each['actual']}"
                    for each in found[1:_SHOWN]
                ),
            )
            expected = f"{first['expected']}{what}, as unpatched"
            yield verdict(code, Kind.REGRESSED, case, f"of {ran}", expected, actual, place)


# The factor by which the memory that small programs keep for their backwards may grow. Peak memory
# has the same limit.
_KEPT = 1.02


def _judge_kept(case: Case, ran: str, kept: Mapping[str, Any], place: str) -> Iterator[Verdict]:
    """PG301 if all small programs together keep more memory for their backwards."""
    if kept["actual"] > _KEPT * kept["expected"]:
        what = f"bytes kept for the backwards of {kept['programs']} programs"
        actual = f"{kept['actual']}; of one: {kept['sample']}"
        expected = f"{kept['expected']} {what}, as unpatched"
        yield verdict("PG301", Kind.REGRESSED, case, f"of {ran}", expected, actual, place)


def _judge_loops(case: Case, ran: str, serial: Sequence[str], place: str) -> Iterator[Verdict]:
    """PG301 if loops in C++ are no longer shared between threads."""
    if serial:
        expected = "loops in C++ that are shared between four threads, as unpatched"
        actual = f"in one thread: {'; '.join(serial)}"
        fact = f"threads of {ran}"
        yield verdict("PG301", Kind.REGRESSED, case, fact, expected, actual, place, advice=_SHARE)


def _red(
    code: str,
    found: list[Mapping[str, Any]],
    *,
    case: Case,
    fact: str,
    judged: int,
    advice: str | None,
    place: str,
    program: str,
    kind: Kind = Kind.REGRESSED,
) -> Iterator[Verdict]:
    if found:
        # A sample that differs both when compiled and on the simulated GPU counts once.
        own: dict[Any, Mapping[str, Any]] = {}
        for each in found:
            own.setdefault(each.get("at", each["sample"]), each)
        # Several of the replaced names may have the same samples.
        shown: dict[str, str] = {}
        for each in own.values():
            shown.setdefault(_RUN.sub("", each["sample"]), f"{each['sample']} -> {each['what']}")
        first, *others = [*shown.values()][:_SHOWN]
        is_written = program and any(each.get("program") for each in found)
        as_program = [f"one of them as a program: {program}"] if is_written else []
        actual = f"{len(own)} of {judged} samples differ: {first}", *others, *as_program
        expected, advice = "as without the patch or in eager mode", _advice(found[0], advice)
        yield verdict(code, kind, case, fact, expected, actual, place, advice=advice)


def _advice(sample: Mapping[str, Any], of_programs: str | None) -> str | None:
    """The next step for a sample that differs; None if that of the verdict's code fits."""
    if sample["offer"]:
        return None
    if sample.get("is_form") or sample.get("is_layout"):
        return _FORM
    if sample.get("is_near"):
        return _NEAR
    fits = (
        step
        for part, steps in (("sample", _OF_SAMPLES), ("what", _NEXT))
        for told, step in steps.items()
        if re.search(told, sample[part])
    )
    return next(fits, of_programs)
