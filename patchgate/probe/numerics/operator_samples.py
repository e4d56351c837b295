"""Runs torch's own samples of the operators that a patch replaces, compiled and in eager mode, and
writes the results.

Without the patch, the samples are made, and written to a file with their results. With the patch,
they are read from that file, so that both runs use the same samples. Each function is looked up
after the patch is installed, because `OpInfo` holds the original function.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import torch
from torch._dynamo import config as dynamo_config
from torch.fx.experimental import _config as shape_config
from torch.utils import _pytree as pytree

from patchgate.probe.numerics.backends_without_code import without_code
from patchgate.probe.numerics.decomposition_samples import decomposition, decomposition_samples
from patchgate.probe.numerics.derived_samples import resized
from patchgate.probe.numerics.eager_samples import (
    AFTER_INFERENCE,
    LONG,
    MAY_REFUSE,
    ON_A_GPU,
    VMAPPED,
    around_calls,
    around_module,
    eager_calls,
    with_slope,
    without_repeats,
)
from patchgate.probe.numerics.gpu_calls import TWO_DEVICES
from patchgate.probe.numerics.mentioned_programs import by_mention, mentioned_programs
from patchgate.probe.numerics.middle_values import with_readers
from patchgate.probe.numerics.model_fragments import (
    FIRST,
    KERNELS,
    OF_A_THREAD,
    OF_CALLS,
    OF_OPTIONS,
    written_programs,
)
from patchgate.probe.numerics.operators import (
    module_in,
    modules_that_call,
    operators_of,
    overload_in,
    recorded_calls,
)
from patchgate.probe.numerics.outputs import backend_of, reproducible, save_outputs
from patchgate.probe.numerics.own_calls import own_calls
from patchgate.probe.numerics.pass_programs import (
    as_it_is,
    function_of,
    programs,
    resized_programs,
)
from patchgate.probe.numerics.polyfill_programs import is_polyfill
from patchgate.probe.numerics.random_programs import random_programs
from patchgate.probe.numerics.sample_calls import (
    AGAIN,
    AUTOCAST,
    CROSSED,
    DRAWN,
    EXPANDED_GRADIENT,
    HALVES,
    INFINITE,
    OPTIONS,
    OWN_GENERATOR,
    REDRAWN,
    SEED,
    SLOPE,
    TRAINED_REDRAWN,
    AsWritten,
    Sample,
    flat,
    made_tensors,
    module_db,
    named,
    op_db,
    samples_of,
    samples_of_making,
    samples_of_module,
    samples_of_overload,
    tensors_in,
)
from patchgate.probe.numerics.sample_compiles import (
    calls_that_change,
    compiles_so_far,
    count_compiles,
    counted_samples,
    counting_backend,
    error_text,
    kept_bytes,
    loops_of_one_thread,
    up_to_the_first_error,
    without_errors,
)
from patchgate.probe.numerics.sample_differences import (
    COMPILING,
    SMALL,
    STEPS,
    Counts,
    Results,
    Spread,
    departure,
    is_repeated,
    layouts,
    moved,
    shared_memory,
)
from patchgate.probe.numerics.training_programs import (
    cache_key_programs,
    compiler_programs,
    drawing_programs,
    trained_programs,
    training_programs,
)
from patchgate.probe.numerics.weight_programs import weight_programs
from patchgate.probe.patch.coverage import untraced
from patchgate.probe.patch.effects import settings_after
from patchgate.probe.patch.load import module_of
from patchgate.probe.patch.offers import compiler_of, compiles_anything, failure_of_offer
from patchgate.probe.protocol import OfferRun, RunOperators
from patchgate.probe.simulate.needs_device import NeedsDevice, missing_answer
from patchgate.probe.simulate.sent_tensors import OF_SENDING

# The most operators whose samples are run for one replaced name.
_OPERATORS = 4
# Samples in one compiled graph. If the graph raises, halving the group finds the sample at fault.
_TOGETHER = 20
# The most samples to trace (without programs), to trace alone after their group raised, to compile
# (half of these if traced; all programs if not), and to compile as traces differ or raise. Tracing
# a sample took 10 to 20 ms of CPU, and compiling 20 samples took 2 to 4 s.
_TRACED, _ALONE, _COMPILED, _TELLING, _RAISING = 160, 60, 40, 18, 3
# The most samples that run in eager mode only, and how often the inputs of a sample are moved.
_EAGER, _MOVED = 1600, 2
# The most compiles of few groups, not counting those that search for the first sample that raises.
# This is a count and not a time limit, so that every machine compiles the same samples.
_COMPILES = 12
# Samples whose code for a simulated GPU is run.
_SIMULATED = 40
# The most samples of a source that are run to see if they draw random numbers, that are kept
# because they do, and that are kept to compare their gradients with slopes.
_TRIED, _DRAWN, _SLOPES = 24, 6, 3
# The runs that show if random numbers matter for the results of a call that draws some.
_REDRAWN = 12
# The most samples of a module if only a part of it is replaced, and the most modules that are run
# because they call a function for which torch has no samples.
_PARTS, _CALLERS = 36, 3
# A module with more than `_SMALL` parts is large. The number of its samples that are traced is
# `_TRACED_PARTS` divided by its number of parts, but at least `_AT_LEAST`. Tracing a decoder of 26
# parts took 3 to 7 s of CPU, and compiling it took 20 s.
_SMALL, _TRACED_PARTS, _AT_LEAST = 4, 64, 4
# Programs in addition to the programs of the operators that a patch mentions.
_PROGRAMS = 110
# Programs of kernels whose sizes change.
_RESIZED = 13
# Programs that are also run in a form that returns their middle values.
_READ = 10
# Programs with graphs of forward and backward that are compiled if all traces are unchanged.
_TRAINED = 6
# The title of the source of all programs of a seed, and the random programs of a kind in a source.
_RANDOM = "random programs"
_DRAWN_PROGRAMS = 30
# Programs that are run with each backend or pass that a patch offers.
_OFFERED = 80
# The most elements of the results of a long call.
_RESULTS = 100_000
# The most elements of the tensors of a program that a report writes out.
_WRITTEN_OUT = 200
# Names that act only while code is made from a graph.
_OF_CODE = re.compile(r"^torch\._inductor\.(?:lowering|kernel|ir|codegen|scheduler)\b")
# Names that act on loops in generated C++.
_OF_LOOPS = re.compile(r"^torch\._inductor\.codegen\.cpp\.")
# Names that act only in code for a GPU.
_OF_TRITON = re.compile(r"^torch\._inductor\.codegen\.triton\b")
# Names that act only in a compile.
_OF_COMPILES = re.compile(r"^torch\._(?:inductor|dynamo|functorch|decomp|subclasses)\b")


def write_samples(request: RunOperators, path: str) -> dict[str, list[str]]:
    """Make samples for the replaced names, run them in eager mode and traced, and write them with
    their results. Return the source of each name's samples.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        titles, by_source = _sources(request)
    given, names, stages = flat(by_source), request["names"], _stages(request)
    with reproducible(request["profile"], training=True):
        some = [sample for sample in given if sample.traced]
        samples, eager, _ = steady(some, _TRACED + sum(sample.is_program for sample in given))
        # Count before anything is traced, as with the patch: Dynamo skips code whose graph broke.
        wanted = counted_samples(samples, counting_backend(names))
        steps = without_errors(_counts(samples, {key: len(STEPS[key[1]]) for key in wanted}, names))
        kept = _kept(samples) if request["joint"] else {}
        serial = loops_of_one_thread() if any(map(_OF_LOOPS.match, names)) else None
        # Torch traces few programs wrongly, so eager results stand in for their traces. Programs
        # that differ are compiled without the patch too.
        traced = dict(enumerate(eager)) if _acts_on_graphs(request) else _traced(samples)
        # Samples that torch itself does not trace are not judged.
        failed = {i: result for i, result in traced.items() if isinstance(result, str)}
        sound = [i for i in traced if i not in failed]
        unjudged = [f"{samples[i].text}: raises {failed[i]} unpatched" for i in failed]
        further = _in_eager_mode(samples, given, request)
        (alone, results, compiles), changed = settings_after(lambda: steady(further, _EAGER))
        samples = [*(samples[i] for i in sound), *alone]
        results = [*(eager[i] for i in sound), *results]
        spread = [_spread(*each) for each in zip(samples, results, strict=True)]
        exact = {i: found for i, each in enumerate(samples) if (found := _exact(each))}
    written = {
        **stages,
        "names": names,
        **_described(samples),
        "eager": results,
        "spread": spread,
        "exact": exact,
        "traced": [traced[i] for i in sound],
        "counts": {(sound.index(i), what): steps[i, what] for i, what in steps if i in sound}
        | {(len(sound) + i, "programs"): [each] for i, each in compiles.items()},
        "kept": {at: kept[i] for at, i in enumerate(sound) if i in kept},
        "serial": serial,
        "compiled": {},
        "simulated": {},
        "unjudged": [*_without_random_calls(request, by_source, alone), *unjudged],
        "settings": changed,
    }
    save_outputs(written, path)
    return titles


def _without_random_calls(
    request: RunOperators, by_source: Sequence[Sequence[Sample]], called: Sequence[Sample]
) -> list[str]:
    """A text for each function of which no random call is among those that were called."""
    if not _stages(request)["acts_eagerly"]:
        return []
    names = {
        sample.function
        for samples in by_source
        for sample in samples[:1]
        if callable(named(sample.function))
    }
    names -= {sample.function for sample in called if sample.how == CROSSED}
    reason = "none was valid" if request["random_calls"] else "one ended the process"
    return [f"{name}: no random calls, {reason}" for name in sorted(names)]


def _described(samples: Sequence[Sample]) -> dict[str, Any]:
    """The samples, and texts that describe them."""
    return {
        "samples": [vars(sample) for sample in samples],
        "texts": [sample.text for sample in samples],
        "how": [sample.how for sample in samples],
        "programs": [program_of(sample) for sample in samples],
        "drawn": [program_of(sample, is_drawn=True) for sample in samples],
        "is_graph": [sample.is_program for sample in samples],
    }


def _in_eager_mode(
    samples: Sequence[Sample], given: Sequence[Sample], request: RunOperators
) -> list[Sample]:
    """The samples that are run in eager mode alone."""
    if _stages(request)["acts_eagerly"]:
        found = eager_calls(samples, given)
    else:
        found = [*filter(_is_eager_alone, given)]
    if not request["random_calls"]:
        found = [each for each in found if each.how != CROSSED]
    return [each for each in (*found, *_weights(request["offers"])) if _can_be_judged(each)]


def _acts_on_graphs(request: RunOperators) -> bool:
    """True if no changed name stands for an operator."""
    of_graphs = [*request["passes"], *request["joint"], *request["kernels"], *request["keys"]]
    return {*request["names"]} <= {*of_graphs, *_compiler_functions(request)}


def _compiler_functions(request: RunOperators) -> list[str]:
    """The names that act while code is compiled. Entries of tables of operators are left out,
    because each acts for one operator only.
    """
    return [name for name in request["compiler"] if "[" not in name or is_polyfill(name)]


def _stages(request: RunOperators) -> dict[str, bool]:
    """The stages in which the replaced names can act: in eager mode, before code is made, while
    code is made, in code for the CPU, and in the compiler at all.
    """
    alone = {*request["keys"], *_compiler_functions(request)}
    alone -= {*request["joint"], *request["kernels"]}
    names = [name for name in request["names"] if name not in alone]
    of_code = [bool(_OF_CODE.match(name)) or name in request["kernels"] for name in names]
    return {
        "acts_eagerly": any(n in request["training"] or not _OF_COMPILES.match(n) for n in names),
        "acts_before_code": not all(of_code),
        "makes_code": any(of_code),
        "compiles": not all(map(_OF_TRITON.match, names)),
        "changes_compiler": any(map(_OF_COMPILES.match, request["names"])),
    }


def steady(
    samples: Sequence[Sample], most: int
) -> tuple[list[Sample], list[Any], dict[int, tuple[int, int]]]:
    """Return at most `most` samples that run in eager mode, their results, and the numbers of
    graphs and graph breaks of the samples that compile by themselves.

    Samples whose results vary are left out: they draw random numbers or read uninitialised memory.
    Calls in which torch makes NaN from infinities are left out too, because equivalent formulas
    may differ in such calls.
    """
    kept, eager = list[Sample](), list[Any]()
    compiles = dict[int, tuple[int, int]]()
    for sample in samples:
        before = torch.get_rng_state()
        result = _outcome([sample], _call_all)
        if isinstance(result, str) or _makes_nan(sample, result):
            continue
        is_drawn = not torch.equal(before, torch.get_rng_state())
        if is_drawn and not _is_drawn_alike(sample, result):
            continue
        again, counts = _outcome_and_compiles(sample)
        if is_repeated(result, again):
            if sample.how == COMPILING:
                compiles[len(kept)] = counts
            kept.append(sample)
            eager.append(result)
        if len(kept) == most:
            break
    return [*map(_with_its_writes, kept, eager)], eager, compiles


def _is_drawn_alike(sample: Sample, result: Results) -> bool:
    """True if the results are the same from several states of torch's generator. Two states are too
    few: a mask of one element is often drawn twice.
    """
    for seed in range(_REDRAWN):
        torch.default_generator.manual_seed(seed)
        if not is_repeated(result, _outcome([sample], _call_all)):
            return False
    return True


def _outcome_and_compiles(sample: Sample) -> tuple[Any, tuple[int, int]]:
    """Call a sample with uninitialised memory filled. Return its results, and the graphs and breaks
    that it caused. Dynamo must not know sizes of earlier programs, which have the same file name.
    """
    if sample.how == COMPILING:
        torch._dynamo.reset()
    before = compiles_so_far()
    result = _outcome([sample], _filled)
    graphs, breaks = map(operator.sub, compiles_so_far(), before)
    return result, (graphs, breaks)


def _can_be_judged(sample: Sample) -> bool:
    """False for a long call that has large results or fails with meta tensors, for a call on a GPU
    whose results have other shapes there than on the CPU, for a call under vmap if torch's own
    batching rule and single calls give different results, and for a decomposition that differs from
    its operator.
    """
    if sample.how == VMAPPED:
        return _says(all, sample)
    if sample.is_decomposition:
        overload = replace(sample, function=overload_in(sample.function))
        decomposed, called = (_outcome([each], _call_all) for each in (sample, overload))
        return is_repeated(decomposed, called)
    if sample.how == ON_A_GPU:
        here, there = (_outcome([replace(sample, how=how)], _call_all) for how in ("", ON_A_GPU))
        return isinstance(there, str) or departure(here, there).get("is_form") is not True
    if sample.how != LONG:
        return True
    args, kwargs = pytree.tree_map_only(
        torch.Tensor, lambda tensor: tensor.to("meta"), (sample.args, sample.kwargs)
    )
    try:
        results = tensors_in(_call(sample, None)(*args, **kwargs))
    except Exception:
        return False
    elements: int = sum(map(torch.numel, results))
    return elements <= _RESULTS


def _is_eager_alone(sample: Sample) -> bool:
    """True for a decomposition, and for a program that runs in eager mode alone, although names act
    in the compiler only. The program may call `torch.compile` itself.
    """
    is_known = sample.is_program or sample.is_decomposition
    return is_known and not sample.traced and sample.how != SLOPE


def _makes_nan(sample: Sample, result: Results) -> bool:
    """True if a call with infinities has more NaN in its results than in its arguments."""
    if sample.how != INFINITE:
        return False
    before, after = (
        sum(int(each.isnan().sum()) for each in tensors if each.is_floating_point())
        for tensors in (tensors_in((sample.args, sample.kwargs)), result["output"])
    )
    return after > before


def _with_its_writes(sample: Sample, result: Results) -> Sample:
    given = map(_plain, tensors_in((sample.args, sample.kwargs)))
    is_written = not all(map(torch.equal, given, result["input"]))
    return replace(sample, writes=sample.is_program and is_written)


def _spread(sample: Sample, eager: Results) -> Spread:
    """Return the largest changes of the results when inputs change by about their last digit
    (under autocast, by the last digit of bfloat16). Inputs of a program that compiles by itself are
    left unchanged, because no code is made from it.
    """
    spread = {
        part: [moved(part, each, each) for each in tensors] for part, tensors in eager.items()
    }
    for seed in range(0 if sample.how == COMPILING else _MOVED):
        generator = torch.Generator().manual_seed(seed)
        args, kwargs = pytree.tree_map(
            functools.partial(_with_noise, generator, sample.how), (sample.args, sample.kwargs)
        )
        result = _outcome([replace(sample, args=args, kwargs=kwargs)], _call_all)
        if isinstance(result, str):
            break
        for part, known in spread.items():
            moves = (moved(part, *each) for each in zip(result[part], eager[part], strict=True))
            spread[part] = [torch.maximum(*each) for each in zip(known, moves, strict=True)]
    return spread


def _with_noise(generator: torch.Generator, how: str, value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or not value.numel():
        return value
    noise = torch.rand(value.shape, generator=generator) - 0.5
    # Autocast leaves float64 as it is.
    is_cast = how == AUTOCAST and value.dtype != torch.float64
    dtype = torch.bfloat16 if is_cast else value.dtype
    moves = 1 + 2 * torch.finfo(dtype).eps * noise.double()
    copy: torch.Tensor = _leaf_copy(value) if _is_dense(value) else value.detach().clone()
    with torch.no_grad():
        copy.copy_(copy.double() * moves)
    return copy.requires_grad_(value.requires_grad)


def _exact(sample: Sample) -> Results | None:
    """The results computed in float64 and rounded to half precision; None for a program, for a call
    without tensors in half precision, and for a call that refuses float64.
    """
    halves = [
        each.dtype for each in tensors_in((sample.args, sample.kwargs)) if each.dtype in HALVES
    ]
    if not halves or sample.is_program:
        return None
    result = _outcome([sample], functools.partial(_call_wide, halves[0]))
    return (
        None if isinstance(result, str) else {part: result[part] for part in ("output", "gradient")}
    )


def _call_wide(
    half: torch.dtype, functions: Sequence[Callable[..., Any]], calls: Sequence[tuple[Any, Any]]
) -> list[Any]:
    wide = functools.partial(_cast, {half: torch.float64})
    back = functools.partial(_cast, {torch.float64: half})
    wide_calls = pytree.tree_map(wide, calls)
    results: list[Any] = pytree.tree_map(back, _call_all(functions, wide_calls))
    return results


def _cast(dtypes: Mapping[torch.dtype, torch.dtype], value: Any) -> Any:
    return value.to(dtypes.get(value.dtype, value.dtype)) if torch.is_tensor(value) else value


def _sources(request: RunOperators) -> tuple[dict[str, list[str]], list[list[Sample]]]:
    """Return name -> titles of its sources of samples, and each source's samples, closest first."""
    training, compiler = request["training"], request["compiler"]
    passes = [*request["passes"], *request["offers"]]
    names = [*request["names"], *request["offers"]]
    joint, kernels = [*request["joint"], *request["passes"]], request["kernels"]
    keys = request["keys"]
    apart = {*training, *_compiler_functions(request), *passes, *joint, *kernels, *keys}
    operators = [name for name in names if name not in apart and module_in(name) is None]
    found = operators_of(operators, op_db())
    # Programs of kernels judge names that act on code and belong to no operator.
    unnamed = [name for name in operators if _OF_CODE.match(name) and not found[name]]
    kernels = [*kernels, *unnamed]
    around = {"functions around operators": _training(training)} if training else {}
    compiling = {"small programs that compile": _compiling(compiler)} if compiler else {}
    drawing = {"small programs with dropout": _drawing()} if joint else {}
    mentions, seed = request["mentions"], request["seed"]
    if seed:
        return {name: [_RANDOM] for name in names}, [_of_seed(mentions, seed)]
    trained = {"small programs that are trained": _trained(mentions)} if request["joint"] else {}
    programs = {"small programs": _programs(mentions)} if passes else {}
    ordered = {"small programs of kernels": _kernels(mentions)} if kernels else {}
    cached = {"functions that share a cache": _cached(keys)} if keys else {}
    groups = (
        (training, around),
        (compiler, compiling),
        (passes, programs | drawing),
        (request["joint"], trained | drawing),
        (kernels, ordered),
        (keys, cached),
    )
    titles: dict[str, list[str]] = {}
    samples: dict[str, list[Sample]] = {}
    for name in names:
        if name in found:
            entries = _sampled_entries(name, found[name])
            of_name = _of_operator(name, entries, random_calls=request["random_calls"])
        elif name not in apart:
            of_name = {name.split(".")[-2]: _of_module(name)}
        else:
            of_name = {}
        for known, group in groups:
            of_name |= group if name in known else {}
        titles[name] = [title for title, made in of_name.items() if made]
        samples |= of_name
    # At least the first sample of each source is compiled.
    judged = dict(itertools.islice(samples.items(), _COMPILED))
    return {
        name: [title for title in known if title in judged] for name, known in titles.items()
    }, list(judged.values())


def _sampled_entries(name: str, ops: Sequence[Any]) -> Sequence[Any]:
    """The first OpInfos of a replaced name, or all of a function that has more: each mode of
    `interpolate` has one.
    """
    own = [op for op in ops if op.name == name.removeprefix("torch.")]
    return own if len(own) > _OPERATORS else ops[:_OPERATORS]


def _of_operator(name: str, ops: Sequence[Any], *, random_calls: bool) -> dict[str, list[Sample]]:
    """Return operator -> its samples. If an overload is replaced, its samples come first."""
    overload = overload_in(name)
    called = "" if overload else name.removeprefix("torch.")
    if not ops and called.startswith("nn.functional._"):
        owners = dict.fromkeys(modules_that_call(called, module_db()))
        return {each.__name__: _parts(each) for each in [*owners][:_CALLERS]}
    # Operators of the same family may take other arguments.
    is_known = called.rpartition(".")[2] in {op.name.rpartition(".")[2] for op in ops}
    own = [] if is_known else own_calls(overload or called, SEED)
    calls = (recorded_calls(overload, ops) if overload else []) or own
    of_calls = overload or called
    first = {of_calls: samples_of_overload(of_calls, calls)} if calls else {}
    found = first | {_title(op): samples_of(op, called) for op in ops}
    if callable(named(of_calls)):
        for title, samples in found.items():
            plain = [replace(s, function=of_calls, how=REDRAWN) for s in samples if not s.how]
            found[title] = [*_that_draw(plain), *samples]
    if random_calls and (samples := decomposition_samples(name, ops)):
        found[f"decomposition of {overload}"] = samples
    return found


def _of_module(name: str) -> list[Sample]:
    """Samples of a replaced constructor, of a forward, or of a method that a forward may call."""
    owner, method = module_in(name), name.rpartition(".")[2]
    if method == "__init__":
        return samples_of_making(owner, module_db())
    if not method.endswith("forward"):
        return _parts(owner)
    made = samples_of_module(owner, module_db())
    trained = [replace(s, how=TRAINED_REDRAWN) for s in made if s.how == "training"]
    drawn, most = _that_draw(trained), _most_traced(made)
    few = most // 4
    return [
        *drawn[:few],
        *_untraced(drawn[few:]),
        *made[: most - few],
        *_untraced(made[most - few :]),
    ]


def _most_traced(samples: Sequence[Sample]) -> int:
    """The number of samples of a module that are traced: few if the module is large."""
    module = samples[0].module() if samples else None
    parts = sum(not [*each.children()] for each in module.modules()) if module else 0
    return max(_AT_LEAST, _TRACED_PARTS // parts) if parts > _SMALL else 2 * _TRACED


def _untraced(samples: Sequence[Sample]) -> list[Sample]:
    """The same samples, marked to run in eager mode only."""
    return [replace(sample, traced=False) for sample in samples]


def _parts(owner: Any) -> list[Sample]:
    """A few samples of a module of which only a part is replaced, with and without each optional
    tensor and with each setting. Eager mode only, because compiling whole modules takes long.
    """
    by_form: dict[str, list[Sample]] = {}
    for sample in samples_of_module(owner, module_db()):
        given = tuple(map(torch.is_tensor, pytree.tree_leaves((sample.args, sample.kwargs))))
        form = f"{given} {sample.made[1]}"
        by_form.setdefault(form, []).append(replace(sample, traced=False))
    return flat([*by_form.values()])[:_PARTS]


def _that_draw(samples: Sequence[Sample]) -> list[Sample]:
    """The first samples that draw random numbers, also with a generator of their own, and some that
    compare gradients with slopes.
    """
    found = (sample for sample in samples[:_TRIED] if _says(any, sample))
    drawn = list(itertools.islice(found, _DRAWN))
    distinct = {sample.text: sample for sample in map(with_slope, drawn)}.values()
    slopes = filter(functools.partial(_says, all), distinct)
    given = [replace(sample, how=OWN_GENERATOR, traced=False) for sample in drawn]
    return [*drawn, *given, *itertools.islice(slopes, _SLOPES)]


def _says(of: Callable[[list[torch.Tensor]], bool], sample: Sample) -> bool:
    """True if the sample does not raise, and `of` (`any` or `all`) is true of its results."""
    result = _outcome([sample], _filled)
    return not isinstance(result, str) and bool(result["output"]) and of(result["output"])


def _training(names: Sequence[str]) -> list[Sample]:
    """Programs that each call one of the named functions of training."""
    generator = torch.Generator().manual_seed(SEED)
    return [
        Sample(text, args, {}, traced=is_compiled)
        for (text, args), is_compiled in training_programs(names, generator)
    ]


def _compiling(names: Sequence[str]) -> list[Sample]:
    """Programs that compile what they call."""
    found = compiler_programs(names, torch.Generator().manual_seed(SEED))
    return [Sample(text, args, {}, how=COMPILING, traced=False) for text, args in found]


def _cached(names: Sequence[str]) -> list[Sample]:
    """Programs that each call one of the named functions that make cache keys."""
    found = cache_key_programs(names, torch.Generator().manual_seed(SEED))
    return [Sample(text, args, {}, how=COMPILING, traced=False) for text, args in found]


def _drawing() -> list[Sample]:
    """Programs that draw random numbers; their gradients must be the slopes of their results."""
    generator = torch.Generator().manual_seed(SEED)
    return [Sample(text, args, {}, how=SLOPE) for text, args in drawing_programs(generator)]


def _trained(mentions: Sequence[str]) -> list[Sample]:
    """Programs of models, and random programs. The tensors of both have a gradient."""
    found = trained_programs(torch.Generator().manual_seed(SEED))
    return [*(Sample(*program, {}) for program in found), *_at_random(mentions, trained=True)]


def _at_random(mentions: Sequence[str], seed: int = SEED, *, trained: bool = False) -> list[Sample]:
    """The first random programs of a seed, for inference or for training."""
    found = itertools.islice(random_programs(seed, mentions, trained=trained), _DRAWN_PROGRAMS)
    return [Sample(*program, {}) for program in found]


def _of_seed(mentions: Sequence[str], seed: int) -> list[Sample]:
    """Random programs of a seed, in inference and in training; some of them with sizes that
    change.
    """
    plain = _at_random(mentions, seed)
    sized = [replace(each, first=resized((each.args, {}), 0, None)) for each in plain[:_RESIZED]]
    return [*plain, *_at_random(mentions, seed, trained=True), *sized]


def _programs(mentions: Sequence[str]) -> list[Sample]:
    """Return alternately a fixed first program and a program of the mentioned operators, then other
    programs, then random ones. If operators are mentioned, other programs that call a rare one of
    them come earlier. Variants that return middle values follow the first `_READ` other programs.
    """
    kinds = {"": programs(SEED), **resized_programs(SEED)}
    others = [(program, how) for how, known in kinds.items() for program in known]
    mentioned = [(program, "") for program in mentioned_programs(mentions, SEED)]
    generator = torch.Generator().manual_seed(SEED)
    first = [(program, "") for program in written_programs(FIRST, generator, trained=False)]
    if mentioned:
        order = by_mention([program for program, _ in others], mentions)
        others = [others[at] for at in order[:_PROGRAMS]]
    once = (program for program, how in others if not how)
    read = [(program, "") for program in itertools.islice(with_readers(once), _READ)]
    others = [*others[:_READ], *read, *others[_READ:]]
    turns = itertools.zip_longest(first, mentioned)
    found = (*(each for turn in turns for each in turn if each), *others)
    return [
        *(Sample(text, args, {}, how=how) for (text, args), how in found),
        *_at_random(mentions),
    ]


def _kernels(mentions: Sequence[str]) -> list[Sample]:
    """Programs of several kernels, whose order and memory matter. Some are compiled with options,
    with sizes that change, or in another thread.
    """
    generator = torch.Generator().manual_seed(SEED)
    fragments = [*written_programs(KERNELS, generator, trained=False)]
    of_options = [
        Sample(text, args, {}, how=how)
        for text, args in written_programs(OF_OPTIONS, generator, trained=False)
        for how in OPTIONS
    ]
    sized = [
        Sample(text, args, {}, first=resized((args, {}), 0, None))
        for text, args in fragments[:_RESIZED]
    ]
    of_a_thread = [
        Sample(text, args, {}, how=COMPILING, traced=False)
        for programs_of in (OF_A_THREAD, OF_CALLS)
        for text, args in written_programs(programs_of, generator, trained=False)
    ]
    plain = (Sample(*program, {}) for program in fragments)
    return [*of_options, *plain, *_at_random(mentions), *sized, *of_a_thread]


def _weights(offers: Sequence[str]) -> list[Sample]:
    """Programs that a backend runs again with other weights; none if the patch offers no
    backend.
    """
    if all(offer.startswith("pass ") for offer in offers):
        return []
    generator = torch.Generator().manual_seed(SEED)
    return [
        Sample(text, args, {}, how=AGAIN, traced=False) for text, args in weight_programs(generator)
    ]


def read_samples(path: str) -> dict[str, Any]:
    """Return the contents of a file that this module has written without a patch."""
    written: dict[str, Any] = torch.load(path, weights_only=False)
    return written | {"samples": [Sample(**each) for each in written["samples"]]}


def run_samples(written: Mapping[str, Any], request: RunOperators, path: str) -> None:
    """Run the samples in eager mode and traced, compile the most telling ones, run the programs
    with the patch's backends and passes, and write the results.
    """
    eager, spread = written["eager"], written["spread"]
    samples = written["samples"][: len(written["traced"])]
    with reproducible(request["profile"], training=True):
        # Graphs are counted first, since only this shows what a process does at its first call.
        before_steps = written["counts"].items()
        known = {key: len(each) for key, each in before_steps if key[1] != "programs"}
        counts = _counts(samples, known, written["names"])
        kept = _kept(samples) if written["kept"] else {}
        serial = loops_of_one_thread() if written["serial"] is not None else None
        now = _traced(samples) if written["acts_before_code"] else {}
        groups, chosen = _compiled_groups(samples, now, written)
        # No line of the patch runs while torch makes code, unless it changes the compiler.
        with contextlib.nullcontext() if written["changes_compiler"] else untraced():
            compiled = _compiled(samples, groups) if written["compiles"] else {}
        left = [i for i in chosen if i not in compiled] if written["compiles"] else []
        simulated = _simulated(
            samples, chosen[:_SIMULATED] if written["makes_code"] else [], request
        )
        offered = {
            offer: found
            for offer in request["offers"]
            if (found := _offered(offer, written["samples"], request["patch"]))
        }
        every = written["samples"]
        eagerly = [
            i for i, each in enumerate(every) if written["acts_eagerly"] or _is_eager_alone(each)
        ]
        (called, compiles), changed = settings_after(lambda: _called(every, eagerly, eager, spread))
    results = {
        "compiled": compiled,
        "left": left,
        "simulated": simulated,
        "called": called,
        "calls": eagerly,
        "settings": changed,
        "counts": counts | {(i, "programs"): [each] for i, each in compiles.items()},
        "kept": kept,
        "serial": serial,
        "offered": offered,
    }
    save_outputs(results, path)


def _compiled_groups(
    samples: Sequence[Sample], now: Mapping[int, Any], written: Mapping[str, Any]
) -> tuple[list[Sequence[int]], list[int]]:
    """Groups of samples that are compiled together, and the samples in them whose traces did not
    raise. Traces show where to look, but compiled code is judged.
    """
    sides, spread = (written["eager"], written["traced"]), written["spread"]
    excess = {
        i: min(_excess(samples[i], now[i], each[i], spread[i]) for each in sides) for i in now
    }
    telling = sorted((i for i in excess if excess[i] > 1), key=lambda i: -excess[i])
    raising = [i for i in telling if isinstance(now[i], str)]
    differing = _with_others_of_sizes(samples, [i for i in telling if i not in raising])
    # If all traces are unchanged, only code can be wrong; without traces any program can be wrong.
    few = _COMPILED // 2 if now else max(_COMPILED, sum(each.is_program for each in samples))
    if written["kept"] and not written["makes_code"]:
        few = _TRAINED  # graphs of forward and backward, which take long
    others = [i for i in range(len(samples)) if i not in telling]
    # Each slope needs a compile of its own. If only slopes are left, one of them is compiled.
    others = [i for i in others if samples[i].how != SLOPE] or others[:1]
    chosen = [*differing, *others[: max(few - len(differing), 0)]]
    return [*([i] for i in raising[:_RAISING]), *_groups(samples, chosen)], chosen


def _offered(offer: str, samples: Sequence[Sample], patch: str | None) -> dict[int, Any]:
    """Run the first programs with a backend or pass that the patch offers. Return the results or
    the error of each program that the offer does not refuse; {} if the offer compiles nothing.

    A backend also runs programs that change weights.
    """
    run: OfferRun = {"graphs": 0, "changed": 0, "faults": {}}
    compiler = compiler_of(offer, module_of(patch), run, dynamic=None)
    if not compiles_anything(compiler):
        return {}
    found = (i for i, each in enumerate(samples) if each.is_program and not each.how)
    chosen = [i for i in found if samples[i].traced][:_OFFERED]
    outcomes: dict[int, Any] = {}
    groups, alone = _groups(samples, chosen), 0
    while groups and alone < _TOGETHER // 2:
        group = groups.pop(0)
        alone += len(group) == 1
        torch._dynamo.reset()
        try:
            compiled = compiler(_in_line(len(group)))
            results: list[Any] = _results([samples[i] for i in group], compiled)
        except Exception as error:
            if len(group) > 1:
                groups += [[i] for i in group]
                continue
            kind, text = failure_of_offer(error, patch)
            if kind != "raises":
                continue
            results = [text]
        outcomes |= zip(group, results, strict=True)
    if not offer.startswith("pass "):
        outcomes |= _run_again(samples, compiler)
    return outcomes


def _run_again(samples: Sequence[Sample], compiler: Callable[[Any], Any]) -> dict[int, Any]:
    """Run the programs that call a compiled module again with other weights. A program that raises
    is left out, since a backend may be for inference only.
    """
    found: dict[int, Any] = {}
    for at, sample in enumerate(samples):
        if sample.how == AGAIN:
            torch._dynamo.reset()
            with contextlib.suppress(Exception):
                found[at] = _results([sample], _call_all, compiler)[0]
    return found


def _with_others_of_sizes(samples: Sequence[Sample], differing: Sequence[int]) -> list[int]:
    """The first samples that differ. If one of them is a program of several sizes, all programs of
    that kind are included in their order, because the program alone would give another graph.
    """
    first = [*differing[:_TELLING]]
    apart = {"", SLOPE, *OPTIONS}
    sized = [i for i, each in enumerate(samples) if each.is_program and each.how not in apart]
    return first if {*sized}.isdisjoint(first) else [*({*first} - {*sized}), *sized]


def _counts(
    samples: Sequence[Sample],
    steps: Mapping[tuple[int, str], int],
    names: Sequence[str],
    *,
    is_first: bool = False,
) -> dict[tuple[int, str], Counts]:
    """Count the graphs and breaks of each sample while a part of its call changes, in at most the
    given number of steps. Samples without counts are left out. With `is_first`, a sample's counts
    end at the first call that eager mode refuses.
    """
    found = {}
    copied = functools.partial(pytree.tree_map, _leaf_copy)
    backend = counting_backend(names)
    for (at, what), most in steps.items():
        assert backend is not None
        function = _call(samples[at], samples[at].module())
        calls = calls_that_change(samples[at], what)
        if is_first:
            calls = up_to_the_first_error(function, calls, copied)
        found[at, what] = count_compiles(function, map(copied, calls), backend, most)
    return {key: counts for key, counts in found.items() if counts}


def _kept(samples: Sequence[Sample]) -> dict[int, int]:
    """The bytes that programs keep for their backward after all passes."""
    found = {}
    for at, sample in enumerate(samples):
        if not sample.is_program or not any(tensor.requires_grad for tensor in sample.args):
            continue
        torch._dynamo.reset()
        compiled = torch.compile(function_of(sample.function), backend=without_code)
        with torch.random.fork_rng(devices=[]), contextlib.suppress(Exception):
            found[at] = kept_bytes(compiled, [*map(_leaf_copy, sample.args)])
    return found


def _called(
    samples: Sequence[Sample], chosen: Sequence[int], eager: Sequence[Any], spread: Sequence[Spread]
) -> tuple[dict[int, Any], dict[int, tuple[int, int]]]:
    """Run the chosen samples in eager mode. Return the results that differ from those without the
    patch, and the graphs and breaks of samples that compile by themselves. Uninitialised memory is
    filled, as it may be in a user's process.
    """
    # A process may validate a model before training, so calls after inference come first. Calls on
    # a GPU have tensors without values and come last: if a patch keeps such a tensor, no other call
    # may get it.
    turns = {AFTER_INFERENCE: -1, ON_A_GPU: 1}
    order = sorted(chosen, key=lambda i: turns.get(samples[i].how, 0))
    outcomes = {i: _outcome_and_compiles(samples[i]) for i in order}
    results = {
        i: result
        for i, (result, _) in outcomes.items()
        if _excess(samples[i], result, eager[i], spread[i], of_layout=True) > 1
        and _is_judged(samples[i], result, eager[i])
    }
    compiled = {i: counts for i, (_, counts) in outcomes.items() if samples[i].how == COMPILING}
    return results, compiled


def _excess(
    sample: Sample, after: Any, before: Any, spread: Spread, *, of_layout: bool = False
) -> float:
    """The largest difference of a sample's results in multiples of the rounding."""
    found = departure(after, before, spread, is_small=sample.how == SMALL, of_layout=of_layout)
    return float(found["excess"])


def _is_judged(sample: Sample, result: Any, eager: Results) -> bool:
    """False for a seeded call that drew other random numbers, and for the error of a call that a
    kernel may refuse, such as a second derivative.
    """
    if isinstance(result, str):
        return sample.how not in MAY_REFUSE or TWO_DEVICES in result
    outputs = ({"output": each["output"]} for each in (result, eager))
    return sample.how != DRAWN or departure(*outputs)["excess"] <= 1


def rerun_samples(written: dict[str, Any], request: RunOperators, path: str) -> None:
    """Compile the requested samples, or the first ones if none are requested, and write the record
    again with their results.
    """
    samples, only, on_device = written["samples"], request["only"], request["only_simulated"]
    with reproducible(request["profile"], training=True):
        if not only and not on_device:
            only = [*range(min(len(written["traced"]), _COMPILED))]
        compiled = _compiled(samples, _groups(samples, only))
        simulated = _simulated(samples, on_device, request)
    results = {"samples": [], "compiled": compiled, "simulated": simulated}
    save_outputs(written | results, path)


def _simulated(
    samples: Sequence[Sample], chosen: Sequence[int], request: RunOperators
) -> dict[int, Any]:
    """Run the samples' code for the simulated GPU. Return the results or the error of each sample.
    Samples that only a real GPU can run are left out, and so are samples of several sizes, because
    sizes are constants in this code.
    """
    profile = request["simulated"]
    chosen = [at for at in chosen if not samples[at].first and samples[at].how not in OPTIONS]
    if not profile or not chosen:
        return {}
    try:
        backend = backend_of(profile, {})
    except NeedsDevice:
        return {}
    return _compiled(samples, _groups(samples, chosen), backend)


def _title(op: Any) -> str:
    return f"{op.name} {op.variant_test_name}".rstrip()


def _call(
    sample: Sample, module: Any, compiler: Callable[[Any], Any] = as_it_is
) -> Callable[..., Any]:
    """Look up the function of a sample, which a patch may have replaced since the sample was made.
    Surround it by other operators if the sample asks for it. A program may call `compiler`.
    """
    function: Callable[..., Any]
    if sample.is_program:
        function = function_of(sample.function, compiler)
        # Its slope is measured by many calls of the compiled function.
        return around_calls(compiler(function), SLOPE) if sample.how == SLOPE else function
    if sample.is_making:
        return made_tensors(sample)
    if sample.is_decomposition:
        return decomposition(sample.function)
    if sample.function.startswith("op_db:"):
        name, _, variant = sample.function.removeprefix("op_db:").partition("/")
        function = next(
            op.op for op in op_db() if (op.name, op.variant_test_name) == (name, variant)
        )
    else:
        function = module or named(sample.function)
    if sample.how.startswith("around"):
        return _surrounded(function, int(sample.how.split()[1]))
    return around_calls(function, sample.how)


def _surrounded(function: Callable[..., Any], seed: int) -> Callable[..., Any]:
    """Return a function that runs a pointwise operation, the given function and further operations,
    which use its result twice.
    """

    def neighbours(*args: Any, **kwargs: Any) -> Any:
        first, *rest = args
        before = (
            first * 0.5 + first if torch.is_tensor(first) and first.is_floating_point() else first
        )
        result = function(before, *rest, **kwargs)
        if not torch.is_tensor(result) or not result.is_floating_point() or result.dim() == 0:
            return result, before
        after: tuple[Callable[[], Any], ...] = (
            lambda: (torch.tanh(result) + result, result),
            lambda: (result - result.mean(-1, keepdim=True), result.sum()),
            lambda: (result.transpose(0, -1).contiguous() * 2, result.flatten()),
            lambda: (torch.cat([result, result * 3], -1), before),
        )
        return after[seed % len(after)]()

    return neighbours


def _leaf_copy(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    given = value.detach()
    if _is_dense(value):
        copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(given)
    else:  # some rows share their memory
        copy = without_repeats(given).clone().expand_as(given)
    return copy.requires_grad_(value.requires_grad)


def _is_dense(value: torch.Tensor) -> bool:
    """True if no two elements share memory, so that a tensor of the same strides can be filled."""
    return 0 not in value.stride() or value.numel() == 0


def program_of(sample: Sample, *, is_drawn: bool = False) -> str:
    """A few lines that call the function with these values, as `call(given())`; empty if the lines
    would be long, or would need more than torch.

    `is_drawn`: floats are drawn from a seed, because only a dtype or a shape matters.
    """
    is_sent = any(f"{function.__name__}(" in sample.function for function in OF_SENDING)
    if is_sent or sample.how in (SLOPE, *OPTIONS):
        return ""
    literal = _drawn if is_drawn else _literal
    seeded = "    torch.manual_seed(0)\n" if is_drawn else ""
    if sample.is_program:
        given = ", ".join(repr(literal(value)) for value in sample.args)
        return (
            f"def given():\n{seeded}    return {given}\n{sample.function}def call(given):\n    "
            "return program(*given)\n"
        )
    name = sample.function.removeprefix("op_db:").partition("/")[0]
    owner = "torch" if callable(named(name)) else "torch.Tensor"
    tensors = tensors_in((sample.args, sample.kwargs))
    is_known = owner == "torch" or hasattr(torch.Tensor, name)
    if (
        sample.how
        or sample.is_module
        or not is_known
        or sum(tensor.numel() for tensor in tensors) > _WRITTEN_OUT
    ):
        return ""
    args, kwargs = (repr(pytree.tree_map(literal, value)) for value in (sample.args, sample.kwargs))
    return f"""def given():
{seeded}    return {args}, {kwargs}
def call(given):
    result = {owner}.{name}(*given[0], **given[1])
    wanted = [x for x in (*given[0], *given[1].values()) if torch.is_tensor(x) and x.requires_grad]
    return result, torch.autograd.grad(result.sum(), wanted) if wanted else ()
"""


def _literal(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    shape = list(value.shape)
    made = f"torch.tensor({value.tolist()}, dtype={value.dtype}).reshape({shape})"
    if not value.is_contiguous() and _is_dense(value):
        empty = f"torch.empty_strided({shape}, {list(value.stride())}, dtype={value.dtype})"
        made = f"{empty}.copy_({made})"
    return AsWritten(f"{made}.requires_grad_()" if value.requires_grad else made)


def _drawn(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return _literal(value)  # values of integers may decide the shapes of results
    made = f"torch.randn({list(value.shape)}, dtype={value.dtype})"
    return AsWritten(f"{made}.requires_grad_()" if value.requires_grad else made)


def _call_all(
    functions: Sequence[Callable[..., Any]], calls: Sequence[tuple[Any, Any]]
) -> list[Any]:
    return [
        function(*args, **kwargs) for function, (args, kwargs) in zip(functions, calls, strict=True)
    ]


def _in_line(count: int) -> Callable[..., list[Any]]:
    """A function that does the same as `_call_all` without a loop. If one call breaks the graph,
    Dynamo runs a whole loop in eager mode; without a loop it compiles the calls before and after
    the break.
    """
    calls = ", ".join(f"functions[{i}](*calls[{i}][0], **calls[{i}][1])" for i in range(count))
    defined: dict[str, Any] = {}
    exec(f"def in_line(functions, calls):\n    return [{calls}]", defined)
    call_all: Callable[..., list[Any]] = defined["in_line"]
    return call_all


def _filled(functions: Sequence[Callable[..., Any]], calls: Sequence[tuple[Any, Any]]) -> list[Any]:
    """Call the functions with uninitialised memory filled, and with each seed raised by one."""
    seed = torch.manual_seed
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with (
            warnings.catch_warnings(),
            mock.patch.object(torch, "manual_seed", lambda given: seed(given + 1)),
        ):
            warnings.simplefilter("ignore")
            return _call_all(functions, calls)
    finally:
        torch.use_deterministic_algorithms(False)


def _outcome(samples: Sequence[Sample], run: Callable[..., list[Any]]) -> Any:
    """Run one sample. Return its results, gradients and inputs after the call, or its error."""
    drawing = REDRAWN, TRAINED_REDRAWN, OWN_GENERATOR, SLOPE, COMPILING
    draws = any(sample.how in drawing for sample in samples)
    # These samples draw from the process's generators; other samples must not get other numbers.
    with _own_generators() if draws else contextlib.nullcontext():
        try:
            results = _results(samples, run)[0]
        except Exception as error:
            return error_text(error)
    return _rounded(results) if samples[0].how == AUTOCAST else results


@contextlib.contextmanager
def _own_generators() -> Iterator[None]:
    """Restore the states of all generators when the context ends. The generators of Python and
    numpy get a fixed seed, because results are kept and compared with results of another process.
    """
    numpy = sys.modules.get("numpy")
    before, of_numpy = random.getstate(), numpy and numpy.random.get_state()
    random.seed(SEED)
    if numpy:
        numpy.random.seed(SEED)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(before)
        if numpy:
            numpy.random.set_state(of_numpy)


def _rounded(results: Results) -> Results:
    """Round the results of a call under autocast to bfloat16, because autocast decides in which
    dtype each part is computed.
    """
    cast = dict.fromkeys((torch.float32, torch.float64), torch.bfloat16)
    return {part: [_cast(cast, each) for each in tensors] for part, tensors in results.items()}


def _results(
    samples: Sequence[Sample],
    run: Callable[..., list[Any]],
    compiler: Callable[[Any], Any] = as_it_is,
) -> list[Results]:
    """Run samples. Return for each its outputs, gradients along one direction, the tensors that
    were passed, the state of its module, and which of these tensors share memory.
    """
    modules = [around_module(sample.module(), sample.how) for sample in samples]
    functions = [_call(*each, compiler) for each in zip(samples, modules, strict=True)]
    firsts = [sample.first for sample in samples if sample.first]
    if len(firsts) == len(samples):
        run(functions, pytree.tree_map(_leaf_copy, firsts))
    calls = [pytree.tree_map(_leaf_copy, (sample.args, sample.kwargs)) for sample in samples]
    given = [pytree.tree_map(lambda x: x, call) for call in calls]
    results = run(functions, calls)
    outputs = [
        [leaf for leaf in pytree.tree_leaves(result) if leaf is not None] for result in results
    ]
    trained = [
        [*tensors_in(call), *(module.parameters() if module else ())]
        if not sample.how.startswith(("no_grad", "inference"))
        else []
        for sample, call, module in zip(samples, given, modules, strict=True)
    ]
    expanded = [sample.how == EXPANDED_GRADIENT for sample in samples]
    gradients = _gradients(trained, outputs, expanded)
    return [
        {
            "output": [*map(_plain, out)],
            "gradient": [*map(_plain, grads)],
            "input": [*map(_plain, tensors_in(call))],
            "state": [*map(_plain, module.buffers() if module else [])],
            "shared": [_shared(sample, out, [*tensors_in(call), *_tensors_of(module)])],
            "layout": [layouts(out)],
        }
        for sample, out, grads, call, module in zip(
            samples, outputs, gradients, given, modules, strict=True
        )
    ]


def _shared(sample: Sample, outputs: Sequence[Any], others: Sequence[torch.Tensor]) -> torch.Tensor:
    """The memory that outputs share. A pass may merge two equal calls into one, so memory that
    outputs of a program share with each other counts only if the program copies.
    """
    found = shared_memory(outputs, others)
    if sample.is_program and ".clone()" not in sample.function:
        found[:, : len(outputs)] = False
    return found


def _tensors_of(module: Any) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()] if module else []


def _plain(value: Any) -> torch.Tensor:
    """The value as a tensor that can be compared: a number becomes a tensor, and complex numbers
    become pairs.
    """
    if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
        raise TypeError("a sparse tensor is not compared")
    tensor = (
        value.detach().resolve_conj().resolve_neg()
        if isinstance(value, torch.Tensor)
        else _number(value)
    )
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).clone()


def _number(value: Any) -> torch.Tensor:
    try:
        return torch.tensor(value)
    except (TypeError, RuntimeError, ValueError):
        return torch.zeros(0)


def _gradients(
    given: Sequence[Sequence[torch.Tensor]],
    outputs: Sequence[Sequence[Any]],
    expanded: Sequence[bool],
) -> list[list[torch.Tensor]]:
    """The gradients of all samples' inputs and weights, computed at once. The gradient of a tensor
    on which no output depends has no elements.
    """
    wanted = [[t for t in tensors if t.requires_grad and t.is_leaf] for tensors in given]
    results, along = [], []
    for out, is_one in zip(outputs, expanded, strict=True):
        noise = torch.Generator().manual_seed(0)
        for tensor in out:
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                results.append(tensor)
                shape = () if is_one else tensor.shape
                direction = torch.randn(shape, generator=noise).to(tensor.dtype)
                along.append(direction.expand_as(tensor))
    leaves = [tensor for tensors in wanted for tensor in tensors]
    if not leaves or not results:
        return [[torch.zeros(0) for _ in tensors] for tensors in wanted]
    taken = iter(torch.autograd.grad(results, leaves, along, allow_unused=True))
    return [
        [torch.zeros(0) if (g := next(taken)) is None else g for _ in tensors] for tensors in wanted
    ]


def _groups(samples: Sequence[Sample], chosen: Iterable[int]) -> list[Sequence[int]]:
    """Group the samples that are compiled together. Samples of several sizes have groups of their
    own, because their sizes are symbols or they make a second graph of the same text. Programs that
    write to their inputs have groups of their own, because a pass may skip graphs with writes. If
    such programs have a gradient, they form further groups: AOTAutograd then writes outside of the
    graph, where passes do not act.
    """
    kinds: dict[tuple[bool, str, bool, bool], list[int]] = {}
    for i in chosen:
        sizes, writes = samples[i].how if samples[i].is_program else "", samples[i].writes
        is_trained = writes and any(each.requires_grad for each in tensors_in(samples[i].args))
        kinds.setdefault((bool(samples[i].first), sizes, writes, is_trained), []).append(i)
    return [
        of_kind[at : at + _TOGETHER]
        for _, of_kind in sorted(kinds.items())
        for at in range(0, len(of_kind), _TOGETHER)
    ]


def run_compiled(samples: Sequence[Sample], backend: Any = "inductor") -> list[Results]:
    from torch._inductor import config as inductor_config

    torch._dynamo.reset()
    if any(sample.is_program and sample.how == SLOPE for sample in samples):
        with torch.random.fork_rng(devices=[]):
            compiler = functools.partial(torch.compile, backend=backend, dynamic=False)
            return _results(samples, _call_all, compiler)
    dynamic = any(sample.first for sample in samples)
    compiled = torch.compile(_in_line(len(samples)), backend=backend, dynamic=dynamic)
    with (
        torch.enable_grad(),  # as in `count_compiles`
        inductor_config.patch(OPTIONS.get(samples[0].how, {})),
        shape_config.patch(use_duck_shape=False),  # equal sizes may change independently
        # A function that breaks the graph is compiled on its own, anew for each sample.
        dynamo_config.patch(recompile_limit=2 * _TOGETHER),
    ):
        return _results(samples, compiled)


def _traced(samples: Sequence[Sample]) -> dict[int, Any]:
    """Run the samples' graphs after all passes, without code. Return the results or the error of
    each sample. If a group raises, its samples are run one by one, up to a limit.
    """
    outcomes: dict[int, Any] = {}
    groups, alone = _groups(samples, range(len(samples))), 0
    while groups and alone < _ALONE:
        group = groups.pop(0)
        alone += len(group) == 1
        try:
            results: list[Any] = run_compiled([samples[i] for i in group], without_code)
        except Exception as error:
            if len(group) > 1:
                groups += [[i] for i in group]
                continue
            results = [error_text(error)]
        outcomes |= zip(group, results, strict=True)
    return outcomes


def _compiled(
    samples: Sequence[Sample], groups: list[Sequence[int]], backend: Any = "inductor"
) -> dict[int, Any]:
    """Compile many samples together and run them. Return the results of each sample, or its error
    if it raises alone. Samples that were not run, or that need a device, are left out.
    """
    outcomes: dict[int, Any] = {}
    traced = set[str]()
    compiles, failed, found = 0, False, False
    most = max(_COMPILES, 2 * len(groups))
    while groups and (compiles < most or (failed and not found)):
        compiles += 1
        group = groups.pop(0)
        first = samples[group[0]]
        way = first.how if first.is_program else ""
        # Further programs seldom reach new lines, and tracing lines doubles a program's time.
        is_traced = way not in traced or (backend == "inductor" and not first.is_program)
        try:
            with contextlib.nullcontext() if is_traced else untraced():
                results: list[Any] = run_compiled([samples[i] for i in group], backend)
            traced.add(way)
        except Exception as error:
            needs_device = backend != "inductor" and missing_answer(error)
            failed = failed or not needs_device
            if len(group) > 1:
                middle = len(group) // 2
                groups = [group[:middle], group[middle:], *groups]
                continue
            if needs_device:
                continue
            found = True
            results = [error_text(error)]
            # Calls of the same form most likely raise too, and would use up the compiles; programs
            # have nothing in common.
            if not first.is_program:
                others = ([i for i in each if samples[i].form != first.form] for each in groups)
                groups = [*filter(None, others)]
        outcomes |= zip(group, results, strict=True)
    return outcomes
