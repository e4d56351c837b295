"""Do patched and unpatched processes that share torch's cache directory each run their own code?"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent
from typing import Any

from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import (
    Check,
    Instance,
    catalogue,
    code_of_others,
    judge_failed,
    verdict_of,
)
from patchgate.checks.holders import assignment_place
from patchgate.checks.samples import changed_code, sampled_names
from patchgate.inputs.manifest import Patch
from patchgate.inputs.patch_source import nodes_in
from patchgate.model.facts import changed_facts, check_of
from patchgate.model.paths import PACKAGE
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Verdict, read_codes
from patchgate.model.serialization import Answer, failure_of
from patchgate.runner.cache_keys import files_digest
from patchgate.runner.request_costs import note_cost

FAMILY = "cache"
_REMEDY = (
    "Add a digest of the patch's text to the cache key: let a wrapper of "
    "`torch._inductor.codecache.FxGraphHashDetails.__init__` set an attribute to it, and name that "
    "in `targets`. `patchgate explain PG701` has the lines to paste. "
    "`torch.compiler.config.cache_key_tag` does this too, but from torch 2.12 on for one thread "
    "only."
)
# These lines are in a file of their own, so that a test can run them.
_KEYED = (PACKAGE / "checks" / "cache_key.txt").read_text("utf-8")
CODES = (
    *read_codes(f"""
PG701 stale cached code hides the patch
    With a cache that was warmed without the patch, the patched process ran the unpatched code; or
    the other way round.
    Why: The keys of the FX-graph and AOTAutograd caches contain graph, inputs, config and torch's
    files, but not what was replaced in memory. Measurements with such a cache are invalid, and
    every user of the shared cache gets the wrong kernels.
    Fix: {_REMEDY}
    Paste:
{indent(_KEYED, " " * 8)}
PG702 the patch switches the cache off
    With the patch, the cache refuses graphs (bypass) that it accepts without it. A note if only
    AOTAutograd's cache does, which takes no `autograd.Function`, and Inductor's accepts them.
    Why: Every process compiles everything again. A plain function as a custom pass is the usual
    cause.
    Fix: Install a `torch._inductor.custom_graph_pass.CustomGraphPass` whose `uuid` digests the
    pass's source.
PG703 the cache key does not follow the patch's text
    After an edit in its functions, or with another value of an environment variable that it reads,
    the patch gets the code that it left in the cache before. An edit is no evidence where the patch
    changes the captured graph, or where its options alone give its code: both are in torch's own
    key.
    Why: Users of the next version of the patch, or another rank, run the kernels of this one: a
    constant uuid or tag does not distinguish them.
    Fix: Make the key a digest of the source (`torch._inductor.custom_graph_pass.get_hash_for_files`
    for a uuid) and of every setting that changes the code. {_REMEDY}
PG704 the patch misses its own code in the cache
    A second process with the same patch does not hit the code that the first one left in the cache.
    Why: The key changes from process to process, so every process compiles everything again.
    Fix: Make the key a digest of the source: nothing that depends on the process, the time or a
    random number.
PG705 the cache distinguishes both sides
    Patched and unpatched processes that share a cache directory each run their own code; or the
    patch does not change the code of this workload, so that stale code would be the same.
    Why: Measurements with a warm cache are valid.
    Fix: Nothing to do.
PG706 does not compile with the caches on
    With the caches on, the workload compiles without the patch and fails with it.
    Why: Users get this failure by default: the caches are on.
    Fix: Read the failure. Everything that a patch adds to a graph or a config must be picklable.
"""),
    code_of_others(code="PG709"),
)
verdict = partial(verdict_of, FAMILY)
# Names of the processes: `patched` and `unpatched` start with a cold cache, `edited` runs the patch
# with an edit that changes nothing, and `tagged` runs the patch with a cache_key_tag of ours.
UNPATCHED, PATCHED = "unpatched", "patched"
PATCHED_WARM, UNPATCHED_WARM = "patched, warmed unpatched", "unpatched, warmed patched"
_FIRST = (UNPATCHED, PATCHED_WARM, PATCHED)
EDITED, AGAIN, TAGGED = "edited", "again", "tagged"
# The name of the process without the patch, but with the options that were in force with it.
OPTIONS = "options of the patch"
_EDIT = "edit = 0"
# Python reads this variable only when an interpreter starts.
_HASHES = "PYTHONHASHSEED"
# Modules that make the keys of torch's caches.
_KEYS = "torch._inductor.codecache.", "torch._functorch._aot_autograd.autograd_cache."
# Names of the processes with another value of a variable: one starts with a cold cache, the other
# with the directory that the patch has warmed without that value.
VARIED, VARIED_WARM = "with {}", "with {}, warmed without"
# Variables that are not tried: torch's own key contains them, or they only name paths and users.
_NOT_VARIED = re.compile(
    r"(PY)?TORCH|TRITON|CUDA|AOT|OMP_|MKL_|LD_|PYTHON|.*(PATH|HOME|DIR|USER|CACHE)"
)
# The most variables that are tried; most patches read fewer.
_VARIABLES = 2


@Check(
    axes=("torch", "device", "workload"),
    workloads="cache",
    devices=lambda run: ["cpu"],
    seconds=4,
    unchanged="none",
)
def ask_cache(context: CheckContext, at: Instance) -> Iterable[Verdict]:
    patch, case = context.patch, telling_case(context, at.case)
    answers = keep_answers(context, case, "cached", partial(_compile_with_caches, context, case))
    # A failure of any other process does not keep the rest from being judged.
    both_sides = {name: answers[name] for name in (*_FIRST, UNPATCHED_WARM) if name in answers}
    failed = judge_failure(case, both_sides)
    if failed:
        return [failed]
    # Torch's own key contains the graph that Dynamo captures, and the values of options.
    only_options = _sets_only_options(context.apply(case.torch), patch)
    in_key = EDITED in answers and (
        _changes_facts(context, case, "graph") or only_options or _acts_by_options(answers)
    )
    return judge_cache(case, patch, answers, in_key=in_key)


def _sets_only_options(applied: Answer, patch: Patch) -> bool:
    """True if the patch replaces nothing, and only sets options of torch that hold no function. A
    patch with a scope need not have set any option yet: the scope sets its options later.
    """
    names = sampled_names(applied)
    functions = (*changed_code(applied), *names["passes"], *names["joint"], *names["offers"])
    kinds = {effect["kind"] for effect in applied.get("effects", ())}
    return not functions and (bool(patch.claims.scope) or kinds == {"config"})


def _options_of_the_patch(answers: Mapping[str, Answer]) -> dict[str, Any]:
    """The options with other values while code was generated with the patch than without it."""
    unpatched, patched = (answers[side]["options"] for side in (UNPATCHED, PATCHED))
    return {name: value for name, value in patched.items() if unpatched.get(name, ...) != value}


def _acts_by_options(answers: Mapping[str, Answer]) -> bool:
    """True if the patch's options, set without the patch, give the same code as the patch."""
    alone = answers.get(OPTIONS, {})
    return "code" in alone and alone["code"] == answers[PATCHED]["code"]


def _changes_facts(context: CheckContext, case: Case, check: str) -> bool:
    """True if the patch changes a fact of `check` (`graph`, `kernels`), and both sides compile."""
    unpatched, patched = context.observations(case)
    if unpatched.failure or patched.failure:
        return False
    sides = [
        {name: value for name, value in side.facts.items() if check_of(name) == check}
        for side in (unpatched, patched)
    ]
    return bool(changed_facts(*sides))


def telling_case(context: CheckContext, case: Case) -> Case:
    """The first case whose kernels the patch changes; if there is none, the first case in which a
    replacement runs. `case` is tried first, workloads with training last.

    A cache key can only be wrong if both sides generate different code.
    """
    observed = context.observed_cases(case.torch)
    others = [other for other in observed if other.device == case.device and other != case]
    if not others:
        return case
    others.sort(key=lambda other: context.workload(other.workload).training)
    cases = [case, *others]
    changed = (each for each in cases if _changes_facts(context, each, "kernels"))
    reached = (each for each in cases if _runs_a_replacement(context, each))
    return next(chain(changed, reached), case)


def _runs_a_replacement(context: CheckContext, case: Case) -> bool:
    """True if a line of a replacement ran in this case."""
    replacements = context.apply(case.torch)["replacements"]
    ran = context.lines_run(case)
    return any(ran.intersection(lines) for lines in replacements.values())


def keep_answers(
    context: CheckContext, case: Case, question: str, measure: Callable[[Path], dict[str, Answer]]
) -> dict[str, Answer]:
    """Return the answers of `measure`, by the name of the process. They are kept together, since
    the processes share a folder, and each finds the files of earlier ones.
    """

    def ask() -> Answer:
        with TemporaryDirectory() as folder:
            answers = measure(Path(folder))
        failures = [answer["failure"] for answer in answers.values() if "failure" in answer]
        return {"answers": answers, **({"failure": failures[0]} if failures else {})}

    workload, checks = context.workload(case.workload), files_digest(Path(__file__).parent)
    kept = context.keep(
        ask,
        case.torch,
        question,
        case.device,
        workload=workload,
        patch=context.patch,
        checks=checks,
    )
    return dict(kept["answers"])


def _compile_with_caches(context: CheckContext, case: Case, folder: Path) -> dict[str, Answer]:
    """Compile with two cache directories: the unpatched side warms one, the patched side the other.

    The answers of the first processes decide which other processes run.
    """
    patch = context.patch

    def compiled(cache: str, path: str | None, tag: str = "", **more: Any) -> Answer:
        return compile_cached(context, case, path, folder / cache, tag, **more)

    processes = (("one", None), ("one", patch.path), ("other", patch.path))
    answers = {name: compiled(*process) for name, process in zip(_FIRST, processes, strict=True)}
    if judge_failure(case, answers):
        return answers
    if answers[PATCHED]["code"] != answers[UNPATCHED]["code"]:
        # If both sides generated the same code, the unpatched process could only run its own code.
        answers[UNPATCHED_WARM] = compiled("other", None)
        if judge_failure(case, answers):
            return answers
    else:
        note_cost(
            context.runner.costs,
            torch=case.torch,
            do="cached",
            unasked="both sides generate the same code",
        )
    is_other_code = answers[PATCHED]["code"] != answers[UNPATCHED]["code"]
    if is_stale(answers):
        answers[TAGGED] = compiled("one", patch.path, tag="patchgate")
    elif is_other_code:
        next_version = folder / "edited.py"
        next_version.write_text(edited(patch.source), encoding="utf-8")
        answers[EDITED] = compiled("other", str(next_version))
        options = _options_of_the_patch(answers)
        if not failure_of(answers[EDITED]) and _hits(answers[EDITED]["answers"]) and options:
            answers[OPTIONS] = compiled("options", None, options=options)
    if EDITED in answers or (not is_other_code and _is_in_key(context.apply(case.torch))):
        # A forked process has the string hashes of its server. Only a new interpreter has other
        # hashes, like the next process of a user.
        answers[AGAIN] = compiled("other", patch.path, variables={_HASHES: "1"})
    for number, (name, value) in enumerate(other_values(patch.source).items()):
        varied = answers[VARIED.format(f"{name}={value}")] = compiled(
            str(number), patch.path, variables={name: value}
        )
        if not failure_of(varied) and varied["code"] != answers[PATCHED]["code"]:
            answers[VARIED_WARM.format(f"{name}={value}")] = compiled(
                "other", patch.path, variables={name: value}
            )
    return answers


def _is_in_key(applied: Answer) -> bool:
    """True if the cache key depends on the patch although the code is the same: the patch sets a
    pass, whose identity is part of the key, or it changes how the key is made.
    """
    return bool(sampled_names(applied)["passes"]) or any(
        name.startswith(_KEYS) for name in changed_code(applied)
    )


def compile_cached(
    context: CheckContext,
    case: Case,
    path: str | None,
    cache: Path,
    tag: str = "",
    *,
    cover: bool = False,
    variables: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Answer:
    """Compile a workload on the CPU with the patch at `path` (None for no patch), with the caches
    on and in the folder `cache`. `tag` becomes part of the key.

    With `cover`, the lines of the patch that ran are recorded too, which doubles the time.
    `variables` and Inductor's `options` are set during the compile; PYTHONHASHSEED needs a new
    interpreter.
    """
    patch = None if path is None else replace(context.patch, path=path)
    return context.ask(
        case.torch,
        "cached",
        "cpu",
        workload=context.workload(case.workload),
        patch=patch,
        tag=tag,
        options=dict(options or {}),
        cover=cover,
        **({"fresh": True} if _HASHES in (variables or {}) else {}),
        env={**(variables or {}), "TORCHINDUCTOR_CACHE_DIR": str(cache)},
    )


def other_values(source: str) -> dict[str, str]:
    """Map the first environment variables that the patch reads to values other than their defaults.

    If the patch compares a variable with a text, the value is such a text.
    """
    tree = ast.parse(source)
    readers = {name for node in ast.walk(tree) if (name := _reader(node))}
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        name, default = _read_variable(node, readers)
        if name and not _NOT_VARIED.match(name):
            compared = (value for value in _compared_with(tree, name, readers) if value != default)
            found.setdefault(name, next(compared, "0" if default == "1" else "1"))
    return dict([*found.items()][:_VARIABLES])


def _compared_with(tree: ast.AST, variable: str, readers: set[str]) -> Iterator[str]:
    """Yield the texts that a module compares with a variable, or with a name that has its value."""

    def has_value(node: ast.AST) -> bool:
        return any(
            _read_variable(each, readers)[0] == variable
            or (isinstance(each, ast.Name) and each.id in names)
            for each in ast.walk(node)
        )

    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value and has_value(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(each.id for each in targets if isinstance(each, ast.Name))
    for node in nodes_in(tree, ast.Compare):
        if has_value(node):
            constants = (each.value for each in nodes_in(node, ast.Constant))
            yield from (text for text in constants if isinstance(text, str) and text != variable)


def _reader(node: ast.AST) -> str:
    """The name of a function that reads the environment variable named by its first parameter;
    empty for any other node.
    """
    if not isinstance(node, ast.FunctionDef) or not node.args.args:
        return ""
    first = node.args.args[0].arg
    given = (_read_key(each) for each in ast.walk(node))
    return node.name if any(isinstance(key, ast.Name) and key.id == first for key in given) else ""


def _read_variable(node: ast.AST, readers: set[str]) -> tuple[str, str]:
    """Name and default of the variable that an expression reads; both empty if it reads none."""
    key = _read_key(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in readers:
        key = node.args[0] if node.args else None
    if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
        return "", ""
    more = node.args[1:] if isinstance(node, ast.Call) else []
    default = more[0].value if more and isinstance(more[0], ast.Constant) else ""
    return key.value, str(default)


def _read_key(node: ast.AST) -> ast.expr | None:
    """The expression for the variable's name in `os.environ[...]`, `os.environ.get(...)`,
    `os.getenv(...)` or `... in os.environ`; None for any other node.
    """
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        reads, key = node.value, node.slice
    elif isinstance(node, ast.Call) and node.args:
        reads, key = node.func, node.args[0]
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        reads, key = node.comparators[0], node.left
    else:
        return None
    is_read = re.fullmatch(r"(os\.)?environ(\.get)?|(os\.)?getenv", ast.unparse(reads))
    return key if is_read else None


def edited(source: str) -> str:
    """The text of the patch's next version: every function gets an assignment that nothing reads.

    This changes any digest of the file, of a function's source or of its bytecode. Raises
    SyntaxError.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body.insert(1 if ast.get_docstring(node) else 0, ast.parse(_EDIT).body[0])
    return ast.unparse(tree) + "\n"


def is_stale(answers: Mapping[str, Answer]) -> bool:
    """True if a side ran other code with a warm cache than with a cold cache."""
    pairs = ((PATCHED_WARM, PATCHED), (UNPATCHED_WARM, UNPATCHED))
    return any(
        answers[warm]["code"] != answers[cold]["code"] for warm, cold in pairs if warm in answers
    )


def judge_failure(case: Case, answers: Mapping[str, Answer]) -> Verdict | None:
    """One verdict for the first process that failed; None if none failed."""
    failures = {
        name: failure for name, answer in answers.items() if (failure := failure_of(answer))
    }
    if not failures:
        return None
    name, failure = next(iter(failures.items()))
    unpatched = failures.pop(UNPATCHED, None)
    sides, actual = (unpatched, next(iter(failures.values()), None)), f"{name}: {failure.text}"
    return judge_failed(
        FAMILY, ("PG706", "PG709"), case, sides, "compiles with the caches on", actual=actual
    )


def judge_cache(
    case: Case, patch: Patch, answers: Mapping[str, Answer], *, in_key: bool = False
) -> list[Verdict]:
    """Return PG701 to PG705, judged by the code that ran and never by a counter alone. `in_key` is
    true if torch's own key contains everything that the patch changes.
    """
    where = assignment_place(patch, *(patch.claims.targets or ()))
    refused = _refused(case, where, answers, "bypass", Kind.REGRESSED)
    if refused:
        return refused
    # If AOTAutograd's cache refuses, a second process must find the code in Inductor's own cache:
    # otherwise PG704 is red.
    by_autograd = _refused(case, where, answers, "autograd_bypass", Kind.WARNING)
    stale = (
        _stale(case, where, answers, warm)
        for warm in (PATCHED_WARM, UNPATCHED_WARM)
        if warm in answers
    )
    verdicts = [*filter(None, stale)] or _varied(case, where, answers)
    if not verdicts and answers[PATCHED]["code"] == answers[UNPATCHED]["code"]:
        actual = (
            "the patch does not change the code of this workload, so its cache key cannot be "
            "judged here"
        )
        same = verdict("PG705", Kind.NOTE, case, "", "code of its own", actual)
        verdicts = [_missed(case, where, answers) or same]
    return [*by_autograd, *(verdicts or [_key(case, where, answers, in_key)])]


def _refused(
    case: Case, where: str, answers: Mapping[str, Answer], count: str, kind: Kind
) -> list[Verdict]:
    """PG702 if a cache refuses more graphs with the patch than without it."""
    before, after = (answers[name]["answers"][count] for name in (UNPATCHED, PATCHED))
    if after <= before:
        return []
    of_autograd = " by AOTAutograd's cache" if count.startswith("autograd") else ""
    expected = f"{before} graphs refused{of_autograd}, as unpatched"
    return [verdict("PG702", kind, case, "", expected, f"{after} refused{of_autograd}", where)]


def _varied(case: Case, where: str, answers: Mapping[str, Answer]) -> list[Verdict]:
    """PG703 for each variable with whose value the patch ran code made without this value."""
    found = []
    for name, answer in answers.items():
        warm = answers.get(f"{name}, warmed without")
        if warm and not failure_of(warm) and warm["code"] != answer["code"]:
            actual = f"the code without it ran ({_counts(warm['answers'])})"
            found.append(
                verdict("PG703", Kind.REGRESSED, case, name, "a key of its own", actual, where)
            )
    return found


def _stale(case: Case, where: str, answers: Mapping[str, Answer], warm: str) -> Verdict | None:
    side, other = (PATCHED, UNPATCHED) if warm == PATCHED_WARM else (UNPATCHED, PATCHED)
    ran = answers[warm]
    if ran["code"] == answers[side]["code"]:
        return None
    whose = f"the {other} code" if ran["code"] == answers[other]["code"] else "code of neither side"
    expected = f"{side} code"
    actual = f"{whose} ran", _counts(ran["answers"])
    fact, advice = f"{side} after {other}", _remedy(case.torch, answers)
    return verdict("PG701", Kind.REGRESSED, case, fact, expected, actual, where, advice=advice)


def _remedy(torch: str, answers: Mapping[str, Answer]) -> str:
    """The remedy, tried on this release, with which the patch runs its own code."""
    tagged = answers[TAGGED]
    works = not failure_of(tagged) and tagged["code"] == answers[PATCHED]["code"]
    if works and not _hits(tagged["answers"]):
        tried = (
            f"Tried on torch {torch}: with a tag of its own in the key the patch missed and "
            "ran its code."
        )
        return f"{catalogue()['PG701'].fix} {tried}"
    return (
        f"Give the patch a TORCHINDUCTOR_CACHE_DIR of its own: tried on torch {torch}, where"
        " `torch.compiler.config.cache_key_tag` did not help."
    )


def _key(case: Case, where: str, answers: Mapping[str, Answer], in_key: bool) -> Verdict:
    """The verdict on the key, which must change with the patch's text and with nothing else."""
    after_edit = answers[EDITED]
    failure = failure_of(after_edit)
    if not failure and _hits(after_edit["answers"]) and not in_key:
        actual = (
            f"an edited patch got the cached code of this one ({_counts(after_edit['answers'])})"
        )
        return verdict("PG703", Kind.REGRESSED, case, "", "a key of its own", actual, where)
    missed = _missed(case, where, answers)
    if missed:
        return missed
    actual = (
        "each side ran its own code, and the second patched process used the cached code of "
        "the first"
    )
    if failure:
        actual += f"; an edited patch could not be tried: {failure.text}"
    return verdict("PG705", Kind.PASS, case, "", "its own code on either side", actual)


def _missed(case: Case, where: str, answers: Mapping[str, Answer]) -> Verdict | None:
    """PG704 if a second process with other hashes did not find the code of the first process."""
    again = answers.get(AGAIN)
    if again is None or failure_of(again) or _hits(again["answers"]):
        return None
    actual = f"the second process with this patch compiled again ({_counts(again['answers'])})"
    return verdict("PG704", Kind.REGRESSED, case, "", "its own code, from the cache", actual, where)


def _hits(counts: Mapping[str, int]) -> int:
    return counts["hit"] + counts["autograd_hit"]


def _counts(counts: Mapping[str, int]) -> str:
    """`FX graph cache: 1 hit; AOTAutograd cache: 1 hit`, without zero counts."""
    names = ("hit", "miss", "bypass")
    fx, autograd = (
        ", ".join(f"{counts[key + name]} {name}" for name in names if counts[key + name])
        or "not asked"
        for key in ("", "autograd_")
    )
    return f"FX graph cache: {fx}; AOTAutograd cache: {autograd}"
