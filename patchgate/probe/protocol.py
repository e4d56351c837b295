"""The wire protocol: the questions to the probe and its answers, one JSON object each way.

Host and probe read their types here, and the server checks each reply against them. `QUESTIONS`, at
the end, lists each question, its answer and who answers. Any answer may be a `Failed` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypedDict

# A child may run, and the host waits, up to this many times the limit, because the child's clock
# leaves out waits for a core. The number was chosen, not measured.
PATIENCE = 3.0
# The first cause of a failure if a signal from outside ended the child and memory was not short;
# the host then asks again.
KILLED = "killed"
#: The beginning of an error message if only a real device could answer.
NEEDS_DEVICE = "needs a real device"
#: Parts of the error messages of torch's C++ and Triton if they look for the device themselves.
NO_DEVICE = (
    "Found no NVIDIA driver",
    "No CUDA GPUs are available",
    "CUDA driver initialization failed",
    "from the 'CUDA' backend",
    "0 active drivers",
)
#: A device as described in `fixtures/devices`: always `name`, `kind` ("simulated", "codegen",
#: "plugin" or "real") and `backend` (torch's name for it); some kinds have `properties`,
#: `speed`, `isa`, `threads` and other keys.
Profile = dict[str, Any]
#: Any function.
Function = Callable[..., Any]
#: Any request, for functions that read keys of several questions.
Request = Mapping[str, Any]
#: Records the name of the current step; a failure carries the last recorded name.
Stage = Callable[[str], None]
#: Name of a fact -> a number, a text, a histogram as a list, or `Unmeasured`.
Facts = dict[str, Any]
#: Line of a condition of the patch, and its outcome: "true", "false", "entered" or "left".
Outcome = tuple[int, str]
#: Side ("unpatched", "patched") -> microseconds of each pair.
Round = dict[str, list[float]]


class Unmeasured(TypedDict):
    unmeasured: str  #: Why there is no value.


class Limits(TypedDict):
    seconds: float  #: Seconds of the child's own time (see `CpuWaitClock`).
    bytes: int  #: Bytes of private memory beyond the server's; 0 for no limit.


class _Question(TypedDict):
    do: str  #: One of the keys of `QUESTIONS`.
    limits: Limits


class Question(_Question, total=False):
    """The keys that every request may carry."""

    env: dict[str, str | None]  #: Environment variables of the child; None removes one.
    libraries: str  #: A folder of compiled C++; the child first copies it into its own folder.
    import_path: list[str]  #: Folders of the project to import from.
    foreign: bool  #: The workload comes with a patch or a project: trust it as little as a patch.
    confined: bool  #: Refuse to answer if a child that runs a patch cannot be confined in full.
    fresh: bool  #: Answer in a new process, because a fork cannot use a real device.


class OnDevice(Question):
    profile: Profile


class Loading(TypedDict, total=False):
    """How a patch is imported and installed."""

    scope: str | None  #: Name of the patch's context manager; entered once the patch is installed.
    #: Calls that install it after its import, in order: `function`, `module:function(arguments)`.
    install: list[str]
    stubs: list[str]  #: Modules that are replaced by stubs.
    part_of: str  #: The file that the patch is imported in place of; empty if there is none.
    environment: list[str]  #: Variables that are set for the patch, as `NAME=value`.
    paths: list[str]  #: Folders to import from, before all others.


def variables_of(how: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variables that are set for a patch, by name."""
    return {
        name: value
        for name, _, value in (each.partition("=") for each in how.get("environment", ()))
    }


class OtherPatch(Loading):
    """A patch that is installed together with the one under test."""

    patch: str  #: Its path.


class Patched(OnDevice, Loading, total=False):
    """A question that is answered with or without a patch."""

    patch: str | None  #: Path of the patch; without it the unpatched torch answers.
    after: list[OtherPatch]  #: Patches that are run before this one.
    left: bool  #: Leave the scope again before anything is compiled.
    #: Holder of an original -> the changed name whose replacement it gets, because a new
    #: interpreter loads the holder after the patch.
    later: dict[str, str]


class CallHooks(Patched, total=False):
    """A question that sets passes as a user does before the patch is run."""

    keyed: bool  #: The user's passes have a key of their own for torch's caches.
    edited: bool  #: The user has edited them: they have another text, and another key.


class _Workload(Patched):
    workload: str  #: Name, or "sentinel" for the probe's own.
    workload_path: str  #: A Python file with the function `build(device, dtype, size)`.
    dtype: str  #: Name of a torch dtype: "bfloat16".
    dynamic: bool  #: Compile with dynamic shapes.


class Compile(_Workload, total=False):
    """A question that compiles a workload; it may use only some of the keys."""

    dynamic_dim: int | None  #: The only dynamic dimension of the first input.
    training: bool  #: Compile the backward graph too.
    mode: str  #: The mode of torch.compile.
    reads: list[float]  #: The values that `.item()` returns, call by call.
    #: A public model to build, in place of what the file builds (`inputs/models.py`).
    model: dict[str, Any]
    cover: bool  #: The answer also says which lines of the patch ran.
    #: With `cover`, the answer also names the callers of these originals (`holders` of `Applied`).
    held: dict[str, list[str]]


class Observe(Compile, total=False):
    resources: bool  #: The answer also has registers, spills and machine code of each kernel.
    late: bool  #: The workload is compiled once without the patch, before the patch is run.


class FindStage(Observe):
    trace: str  #: A folder in which torch leaves its trace for tlparse.


class Sample(Patched):
    outputs: str  #: The file to write with torch.save.


class _Run(Compile):
    outputs: str  #: The file to write with torch.save.
    seeds: list[int]  #: Seeds of weights and inputs, used one after the other.
    small: bool  #: Run with inputs of one row and of no rows too.


class Run(_Run, total=False):
    own_blocks: bool  #: On a simulated GPU, use the blocks and the grid that Inductor chooses.


class RunOffers(Compile):
    #: The file to write for the first offer; for each later offer, its number is added to the name.
    outputs: str
    offers: list[str]  #: As in `Applied`.


class SampleTokens(Sample, total=False):
    tokens: int  #: Number of tokens to sample after each prompt; if absent, all.


class RunOperators(Sample, total=False):
    names: list[str]  #: Changed names, as in `Changes`, for which samples are made.
    passes: list[str]  #: The names that any graph may reach.
    joint: list[str]  #: The names that decide what a backward gets from its forward.
    compiler: list[str]  #: The names that act while code is compiled, before Inductor.
    training: list[str]  #: The names that stand around operators: optimizers, autocast.
    kernels: list[str]  #: The names that order, fuse and allocate kernels.
    keys: list[str]  #: The names that make the keys of caches.
    offers: list[str]  #: As in `Applied`: backends and passes that are run on the programs too.
    #: Functions that the text of the patch names, for programs that a pass or a backend may act on.
    mentions: list[str]
    seed: int  #: Make random programs of this seed only; 0: the samples of the names.
    random_calls: bool  #: Also make random calls, for some of which operators end the process.
    unpatched: str  #: The file that was written for these names without the patch.
    only: list[
        int
    ]  #: Without a patch: samples to compile; the first few if `only_simulated` is empty too.
    only_simulated: list[int]  #: Without a patch: the samples whose code for `simulated` is run.
    #: Also say which lines of the patch ran; of the programs, only in the first of each option.
    cover: bool
    as_patched: bool  #: Without a patch: do all that is done with one, and ignore the `only` lists.
    simulated: Profile | None  #: The GPU for which code is run too, if the patch changes any.


class CheckOperators(Patched):
    operators: list[str]  #: Operators, named as in `defined` of `Changes`.


class Compare(OnDevice):
    unpatched: str  #: A file that a question wrote without the patch.
    patched: str  #: The file that the same question wrote with the patch.


class Time(Compile):
    size: str  #: "small", or the number of tokens.
    rounds: int  #: Number of rounds; each places code and inputs in memory anew.
    for_seconds: float  #: Total seconds of all rounds.
    seed: int  #: The seed of the order within pairs.
    built: str  #: A folder that keeps the kernels of both sides.
    tuned: str | None  #: A folder that keeps what the mode has tuned.
    queue: str  #: A file that is locked while the device is timed; empty if nothing else uses it.


class _Tagged(Compile):
    tag: str  #: A text that goes into the key of the compiler's caches.


class CompileCached(_Tagged, total=False):
    options: dict[str, Any]  #: Inductor's options that are set for the compile.


class CountCalls(Compile, total=False):
    place: str  #: The interpreter, for the host's own cache of answers; the probe does not read it.


class ReadPatch(Question):
    patch: str  #: Path of the patch.


class _Import(ReadPatch, Loading):
    profile: Profile


class InspectSurface(_Import):
    targets: list[str]  #: Dotted names that the patch claims to replace.


class _Apply(InspectSurface):
    version: str  #: The version of torch that the patch reads.


class Apply(_Apply, total=False):
    #: Functions of the patch that its project names as backends of torch.compile.
    entry_points: list[str]


class ApplyEach(InspectSurface):
    versions: list[str]  #: Values of `version`, each for a process of its own.


class ReadCode(Question):
    code: list[str]  #: Generated code, one text for each graph.
    backend: str  #: Torch's name for the device that the code is for.


class RunAnew(_Import):
    version: str  #: As in `Apply`.
    names: list[str]  #: The names that the patch changes once the whole compiler is loaded.
    variables: list[str]  #: Environment variables that the patch claims to set.
    holders: list[str]  #: As in `Applied`, of all changed names.


class FindUndone(_Import):
    after: list[OtherPatch]  #: Patches that are run first.


class Failure(TypedDict):
    """The reason why there is no answer; the value of `failure`."""

    cause: str  #: A value of `patchgate.model.records.Cause`.
    stage: str  #: The step that ran.
    signature: str  #: One line, the same for the same failure.
    detail: str  #: A traceback, or the end of the output.
    where: (
        str | None
    )  #: file:line of the innermost frame in the patch; the path of the patch if there is none.
    raised_at: str | None  #: file:line where the error was raised, if it differs from `where`.
    missing: list[str]  #: Packages that are not installed, or a missing name of torch: `torch.npu`.


class Failed(TypedDict):
    failure: Failure


class Completed(TypedDict):
    #: Versions of torch, Triton and Python, the device, options that decide fusion.
    environment: dict[str, str]


class Coverage(TypedDict):
    ran: list[int]  #: Lines of the patch that ran.
    took: list[Outcome]  #: Outcomes of the conditions in these lines.
    callers: dict[str, str]  #: Name in `held` -> a line of torch that called the original.


class OptionFacts(Completed):
    facts: Facts


class ShapeFacts(OptionFacts, Coverage):
    pass


class Observed(ShapeFacts, total=False):
    #: Generated code, one text for each graph. With a patch, `ReadCode` asks for its facts.
    code: list[str]
    stubbed: list[StubUse]  #: Names of stubs that were used until the workload was compiled.


class Sentinel(Observed):
    expected: Facts  #: The facts of the sentinel if all counters work.
    #: `Sandbox.report` of what confined the child; filled in by the server.
    confinement: dict[str, Any]


class FailingStage(TypedDict):
    stage: str  #: The first stage of the compiler that fails.


class Ranks(TypedDict, total=False):
    """An answer with one of these three keys."""

    environment: dict[str, str]  #: As in `Completed`.
    unmeasured: str  #: Why there can be no ranks.
    failure: Failure  #: Of the first rank that failed.


class MemoryFault(TypedDict):
    """A misuse of memory by a generated kernel that a GPU does not report."""

    kind: str  #: "outside" of a buffer, "race" of two programs, or "unwritten" memory that is read.
    kernel: str  #: Name of the kernel, or of the operator that reads.
    line: str  #: The line of the kernel's source; empty for an operator.
    what: str


class Interpreted(Completed):
    #: Why code for a simulated device cannot be run; empty if it was run, or for other devices.
    unmeasured: str


class Ran(Interpreted):
    code: list[str]  #: Digests of the code that was generated for inputs of the first seed.


class RanWorkload(Ran):
    settings: list[str]  #: Settings, such as "process umask", that the run left changed.


class OfferRun(TypedDict):
    graphs: int  #: Number of graphs that a pass was given.
    changed: int  #: Number of graphs that the pass changed.
    faults: dict[str, str]  #: "raises", "refuses", "metadata" and others -> one text each.


class Offered(Completed):
    runs: list[OfferRun]  #: A run of each offer; an offer that raised has written no file.


class CustomOperator(TypedDict):
    calls: int  #: Number of calls that were checked.
    faults: list[str]  #: Faults of dtypes for which every call has faults.
    some: list[str]  #: Faults that only some calls of a dtype have.


class OperatorsChecked(Completed):
    operators: dict[str, CustomOperator]  #: By `namespace::name`.


class RanPlainly(TypedDict):
    code: list[str]  #: As in `Ran`.
    changed: list[str]  #: Settings that the import has changed, as a manifest claims them.


class Operators(Completed, Coverage):
    #: Changed name -> operators whose samples were run; empty if no operator is known for it.
    operators: dict[str, list[str]]
    unmeasured: str  #: Why there are no samples; empty where there are.


class Compared(TypedDict):
    #: The comparing functions of `patchgate.probe.numerics` document the metrics.
    metrics: dict[str, Any]
    unreadable: str  #: Why the patched file cannot be compared, although the unpatched file can.


class Times(Completed):
    rounds: list[Round]  #: Times of calls; on the CPU, CPU time of the process.
    elapsed: list[Round]  #: Wall times of the calls on the CPU; empty on a GPU.
    first_call: dict[str, float]  #: Side -> seconds, compile included.
    peak_memory: dict[str, int]  #: Side -> bytes; empty on the CPU.
    warm_up: str  #: How the warm-up went.
    tuned: bool  #: True if the mode tunes kernels.
    held: float  #: Seconds for which no other case could use the device.


class Cached(Coverage):
    answers: dict[str, int]  #: Hits, misses and bypasses of each cache.
    code: list[str]  #: Digests of the code that was loaded, in order.
    #: Options with other values than torch's defaults, as code was generated.
    options: dict[str, Any]


class Kernels(Completed):
    #: Digest of the source -> digest of the machine code, or why there is none.
    kernels: dict[str, str]


class Calls(Completed):
    calls: dict[str, int]  #: Module -> Python calls.
    missing: str  #: Why some calls were not counted; empty if none is missing.


class Recompiles(TypedDict):
    #: Way of calling -> step -> numbers of graphs, and of graphs with symbolic sizes.
    counts: dict[str, dict[str, dict[str, int]]]


class Hooks(TypedDict):
    called: dict[str, int]  #: The user's hook into the compiler -> number of calls.
    replaced: list[
        str
    ]  #: The hooks that hold another pass once the patch is installed and its scope entered.
    #: The hooks that hold a pass that calls the user's -> the key of that pass for torch's caches.
    keys: dict[str, str]
    #: Way to call torch.compile -> option that it asks for -> what Inductor gets.
    asked: dict[str, dict[str, str]]


class Functions(TypedDict):
    """The functions of the patch, each named `name:first line`."""

    functions: dict[str, list[int]]  #: Function -> lines of its body.
    outcomes: dict[str, list[Outcome]]  #: Function -> all possible outcomes of its conditions.


class Effect(TypedDict):
    """An effect of importing a patch other than a change of torch."""

    kind: (
        str  #: One of environment, config, state, process, python, device, compile, threads,
        #: processes, network and files.
    )
    name: str  #: The setting, call or file.
    older: list[str]  #: The other names of a config option, by which older code knows it.
    what: str  #: What happened, for a reader.
    line: int | None  #: Of the patch.
    old: str  #: repr of a setting's value before the import.


class StubUse(TypedDict):
    """A name of a stub that was used."""

    name: str  #: Dotted name, which begins with the stub's module.
    where: str  #: file:line of the first use, or of the patch's first use if there is one.
    by_patch: bool  #: True if the patch's own file used the name.


class StandIns(TypedDict):
    replaced: dict[str, str]  #: Module of the project that cannot be imported here -> why.


class Changes(TypedDict):
    #: Dotted names that lead to another object now; an entry of a registry is `name[key]`.
    changed: list[str]
    claimed: dict[str, list[str]]  #: Claimed target -> the changed names that it stands for.
    defined: list[str]  #: Operators that were not there before, as `namespace::name`.
    effects: list[Effect]
    stubbed: list[StubUse]


class ChangesByVersion(TypedDict):
    versions: dict[str, Changes | Failed]


class Applied(Changes):
    holders: dict[str, list[str]]  #: Changed name -> names that still lead to its original.
    #: Changed name -> why users meet its original, if known without calls.
    bypassed: dict[str, str]
    edited: list[str]  #: Functions of torch that the patch modified without replacing them.
    overrides: list[str]  #: Changed names that their owner did not have itself.
    unreachable: list[str]  #: Changed methods that every subclass overrides.
    replacements: dict[str, list[int]]  #: Changed name -> lines of its replacement in the patch.
    unseen: list[Effect]  #: Options for which another thread reads another value.
    leaks: list[str]  #: Names changed outside the scope.
    leaks_by: dict[str, list[str]]  #: Other way to end the scope -> names that stay changed.
    ended: list[str]  #: The scope's changes that are undone when a block inside it ends.
    uncompiled: str  #: Class of a mode that its scope enters and in which torch does not compile.
    #: Names whose objects hold the patch's code deep inside; searched if nothing else was found.
    held: list[str]
    calls: list[
        str
        #: Functions of torch that the patch calls for their effect, if nothing at all was found.
    ]
    overwritten: list[Effect]  #: Settings of the user's that an import replaced.
    nested: list[str]  #: Names whose second replacement wraps the first.
    #: The place in the project that runs the patch a second time; empty if there is none, or if no
    #: name is nested.
    runs_again: str
    added: list[str]  #: Changed names that torch does not have, inherit or look up.
    again: str  #: The error that the second run raised; empty if it raised nothing.
    recursive: list[str]  #: Names whose replacement was saved as its own original.
    #: The package around the patch, whose own changes are not listed here; empty if the patch is in
    #: no package.
    package: str
    by_package: list[str]  #: Names that the import of this package changed.
    offers: list[
        str
        #: Offered to users: `backend NAME`, `function NAME` (also a backend), `pass NAME`.
    ]
    #: Packages that the patch imports only if they are installed, and that are missing here.
    absent: list[str]


class RunAnewResult(TypedDict, total=False):
    """The changes by the patch in an interpreter that has run only `import torch`."""

    missing: list[str]  #: The requested names that the patch does not replace.
    dead: list[Effect]  #: Environment variables that it sets or claims, and that have no effect.
    #: The requested holders whose module was not loaded yet when the patch had run.
    later: list[str]
    unmeasured: str  #: In place of the other keys: why only a machine with the device can tell.
    failure: Failure  #: In place of the other keys: the failure of the new interpreter.


class Finding(TypedDict):
    code: str  #: PG101 to PG104 for a fault, PG105 for none.
    subject: str
    line: int | None  #: Of the patch.
    expected: str
    actual: str
    #: Parameters, if the fault affects only callers that pass them by name; otherwise empty.
    by_name: list[str]


class Surface(TypedDict):
    findings: list[Finding]
    changed: list[str]  #: As in `Changes`.


class Undone(TypedDict):
    undone: list[str]  #: Names that the first patches replaced and the last one took back.


#: An answering process has loaded the whole compiler, only `import torch`, or nothing of torch.
LOADED = ("compiler", "torch", "nothing")


class Exchange(NamedTuple):
    """A question: the types of its request and answer, and the function and process that answer."""

    request: Any
    answer: Any
    #: `module:function` below `patchgate.probe`. The function takes a request and a `Stage`; for a
    #: `Compare`, it takes the two files and returns the metrics.
    answered_by: str
    loaded: str = "compiler"  #: One of `LOADED`.
    is_own: bool = False  #: Answered from finished outputs and texts: nothing of a patch runs.

    @property
    def module(self) -> str:
        return f"patchgate.probe.{self.answered_by.partition(':')[0]}"


#: All questions, by their values of `do`.
QUESTIONS = {
    "sentinel": Exchange(Patched, Sentinel, "compile.observe:observe_sentinel"),
    "observe": Exchange(Observe, Observed, "compile.observe:observe"),
    "code": Exchange(ReadCode, OptionFacts, "compile.observe:read_code", is_own=True),
    "failing stage": Exchange(FindStage, FailingStage, "compile.observe:find_failing_stage"),
    "shapes": Exchange(Observe, ShapeFacts, "compile.recompiles:observe_shapes"),
    "options": Exchange(Observe, OptionFacts, "compile.options:observe_options"),
    "kernels": Exchange(Compile, Kernels, "compile.observe:build_kernels"),
    "cached": Exchange(CompileCached, Cached, "compile.caches:observe_caches"),
    "recompiles": Exchange(Compile, Recompiles, "compile.recompiles:count_recompiles"),
    "calls": Exchange(CountCalls, Calls, "compile.compile_calls:count_calls"),
    "time": Exchange(Time, Times, "timing.paired:time_workload"),
    "run": Exchange(Run, RanWorkload, "numerics.outputs:run"),
    "offers": Exchange(RunOffers, Offered, "numerics.outputs:run_offers"),
    "plain run": Exchange(Run, RanPlainly, "compile.plain_run:run_plainly", loaded="nothing"),
    "forms": Exchange(Run, Interpreted, "numerics.metamorphic:run_variants"),
    "trace": Exchange(Run, Completed, "numerics.first_divergence:trace"),
    "sample": Exchange(SampleTokens, Ran, "numerics.decoder:sample"),
    "operators": Exchange(RunOperators, Operators, "serve.answers:run_operators"),
    "custom operators": Exchange(
        CheckOperators, OperatorsChecked, "numerics.custom_operators:check_operators"
    ),
    "ranks": Exchange(Sample, Ranks, "numerics.ranks:run_ranks"),
    "differ": Exchange(Compare, Compared, "numerics.numeric_metrics:differ", is_own=True),
    "differ bits": Exchange(Compare, Compared, "numerics.numeric_metrics:differ_bits", is_own=True),
    "differ runs": Exchange(Compare, Compared, "numerics.numeric_metrics:differ_runs", is_own=True),
    "differ forms": Exchange(
        Compare, Compared, "numerics.metamorphic:differ_variants", is_own=True
    ),
    "differ traces": Exchange(
        Compare, Compared, "numerics.first_divergence:diverging_operation", is_own=True
    ),
    "differ samples": Exchange(
        Compare, Compared, "numerics.sample_differences:differ_samples", is_own=True
    ),
    "differ tokens": Exchange(Compare, Compared, "numerics.decoder:differ", is_own=True),
    "apply": Exchange(Apply, Applied, "patch.apply:apply"),
    "applies": Exchange(ApplyEach, ChangesByVersion, "patch.apply:applies"),
    "stand-ins": Exchange(Patched, StandIns, "patch.apply:find_stand_ins"),
    "new interpreter": Exchange(
        RunAnew, RunAnewResult, "patch.new_interpreter:run_in_new_interpreter", loaded="torch"
    ),
    "surface": Exchange(InspectSurface, Surface, "patch.live_api:inspect_surface"),
    "undone": Exchange(FindUndone, Undone, "patch.apply:undone"),
    "hooks": Exchange(CallHooks, Hooks, "compile.options:call_hooks"),
    "functions": Exchange(ReadPatch, Functions, "patch.coverage:read_functions", is_own=True),
}
