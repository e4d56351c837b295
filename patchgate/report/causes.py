"""Group red verdicts by the causes that they share.

A cause has one sentence on what happened, and an order of evidence. The table below decides both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from patchgate.checks.framework.find_checks import title_of
from patchgate.model.facts import COSTS, OTHER_FORM
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Verdict, record

# Fact that sums up the effect of a patch on a kernel -> its short name; the best evidence first.
HEADLINES = {"kernels.called": "kernels", "loads": "loads", "bytes.total": "bytes"}
# Fact -> noun, for costs that have one figure on both sides of each case.
_COSTS = {COSTS[name].facts[0]: COSTS[name].noun for name in ("kernels", "bytes", "peak_memory")}
_EVIDENCE = tuple(dict.fromkeys((*HEADLINES, *_COSTS)))
# At most this many facts of one case are shown.
_FACTS = 4


_DOES_NOT_RUN = "does not run"
_DOES_NOT_COMPILE = "does not compile"
_DOES_NOT_FIT = "does not fit"
_OTHER_FORM = "other form"
_CODE = "code"
_NOTHING, _LESS = "changes nothing", "less effect"
_NUMBERS, _ROUNDING = "numbers", "rounding"
# Causes that show that the patch acts.
_ACTS = frozenset({
    _DOES_NOT_COMPILE, _OTHER_FORM, "memory", "offered", "wrong numbers", _NUMBERS, _CODE,
    "side effects", "recompiles", "cache", "compile cost", "cheaper compile", "time",
    "gain on the device", "other patches",
})  # fmt: skip


@record
class Cause:
    """The common cause of red verdicts."""

    name: str  #: the same in every run: `numbers`
    sentence: str  #: the event, in one sentence
    codes: tuple[str, ...] = ()  #: the strongest evidence first
    kinds: tuple[Kind, ...] = ()  #: verdicts of these kinds have this cause, whatever their code


@record
class CauseGroup:
    """The red verdicts of one run that share a cause."""

    cause: Cause
    verdicts: tuple[Verdict, ...]  #: the strongest evidence first

    @property
    def evidence(self) -> Verdict:
        return self.verdicts[0]

    @property
    def changes(self) -> tuple[tuple[str, str], ...]:
        """(code, line) for each case. The line shows facts as `without the patch -> with it`; the
        case with the strongest evidence comes first.
        """
        cases: dict[tuple[str, str, str], list[Verdict]] = {}
        for verdict in self.verdicts:
            if is_change(verdict):
                cases.setdefault((verdict.code, verdict.item, verdict.torch), []).append(verdict)
        return tuple(
            (code, f"{item} on torch {torch}: {_changes(facts)}")
            for (code, item, torch), facts in cases.items()
        )

    @property
    def costs(self) -> tuple[str, ...]:
        """The costs of changed code, better or worse: a line for each case, or one line if no cost
        changed.
        """
        if self.cause.name != _CODE:
            return ()
        changed: dict[tuple[str, str], dict[str, tuple[int, int]]] = defaultdict(dict)
        for verdict in self.verdicts:
            before, after = verdict.before or "", verdict.after or ""
            if verdict.fact in _COSTS and before.isdecimal() and after.isdecimal():
                changed[verdict.item, verdict.torch][verdict.fact] = int(before), int(after)
        lines = [
            f"{_cost_text(costs)} ({item} on torch {torch})"
            for (item, torch), costs in sorted(changed.items())
        ]
        return tuple(lines) or (f"no change in {', '.join(_COSTS.values())}",)


def is_change(verdict: Verdict) -> bool:
    """True if the verdict is on a fact that has a value on both sides."""
    return (
        verdict.before is not None and verdict.after is not None and verdict.before != verdict.after
    )


def _changes(verdicts: Sequence[Verdict]) -> str:
    """`kernels.called 13 -> 12, loads [2 6] -> [2 4] (recorded [2 5])`: the strongest evidence
    first.
    """
    shown = ", ".join(map(change_text, verdicts[:_FACTS]))
    return shown + (
        f" and {len(verdicts) - _FACTS} more in the report" if len(verdicts) > _FACTS else ""
    )


def change_text(verdict: Verdict) -> str:
    """`bytes.total 1,000 -> 900`, and the value in golden if it differs from both values."""
    values = [_with_commas(value or "") for value in (verdict.before, verdict.after)]
    known = verdict.recorded in (None, verdict.before, verdict.after)
    return f"{verdict.fact} {' -> '.join(values)}" + (
        "" if known else f" (recorded {_with_commas(verdict.recorded or '')})"
    )


def _with_commas(value: str) -> str:
    return f"{int(value):,}" if value.isdecimal() else value


def _cost_text(costs: Mapping[str, tuple[int, int]]) -> str:
    """A text like `better: kernels called 7 -> 6 (-14.3%)`. It begins with `worse` if costs grow,
    and with `better and worse` if only some costs grow.
    """
    words = {
        after > before: "worse" if after > before else "better" for before, after in costs.values()
    }
    changes = [
        f"{_COSTS[fact]} {before:,} -> {after:,}"
        + (f" ({after / before - 1:+.1%})" if before else "")
        for fact in _COSTS
        for before, after in ([costs[fact]] if fact in costs else [])
    ]
    return f"{' and '.join(words[worse] for worse in sorted(words))}: {', '.join(changes)}"


# In reading order: a cause that makes later causes meaningless comes first. Each entry has a name;
# codes, the strongest evidence first; kinds that have this cause with any code; and a sentence.
_TABLE = """
does not run: PG210
    Importing the patch fails, so nothing else can be judged.
does not compile: PG301 PG504 PG513 PG706 PG413 PG808 PG401 PG431
    With the patch, what ran no longer compiles or runs: users of such models get this error.
other form:
    Results have another dtype, shape or layout with the patch: code that uses them is hurt.
does not fit: PG101 PG104 PG103 PG102
    The patch uses private names that this torch does not have, or that take other arguments.
changes nothing: PG221 inert
    The patch does nothing: its users still have the defect.
memory: PG516
    A kernel for the GPU misuses memory: its users get wrong numbers, or a crash somewhere else.
offered: PG531 PG532 PG533
    A backend or a pass that the patch offers fails, or differs from eager mode: its users are hurt.
wrong numbers: PG512 PG506 PG502
    Numbers are wrong or less accurate with the patch, and no error says so: its users get them.
numbers: PG510 PG505 PG501 PG507
    Outputs change more than the patch claims (by default in no bit): tests of exact text can fail.
version check too narrow: PG203
    The version check is too narrow: users of other releases still have the defect.
gate: PG202 PG201 PG220
    The patch applies on other releases than it claims.
needless: PG204 absorbed
    The patch is not needed: torch does the same without it.
no fix: PG205
    The patch does not fix the defect that its manifest names.
code: PG301 PG401 PG431
    The patch changes the graph or the generated code, and the change is not accepted.
less effect:
    Part of what the patch is meant to change is now as without it.
side effects: PG207 PG213 PG214 PG215 PG208 PG216 PG217 PG218 PG206 PG209 PG219
    Importing the patch changes more than it declares.
unreached: PG803 PG802 PG801
    Part of torch does not call the replacement: there the patch has no effect.
lost for the user: PG804
    A pass or an option that a user has set no longer applies, or edits of it do not.
recompiles: PG423 PG421 PG422 PG412 PG411
    With the patch, torch compiles more often, or stops compiling, when sizes or instances change.
cache: PG701 PG707 PG703 PG704 PG702
    With the patch, a compile cache gives the wrong code, or none.
compile cost: PG601
    With the patch, compiling costs more than its budget allows.
cheaper compile: PG602
    With the patch, compiling costs less than its budget expects, which no budget records.
time: PG611
    With the patch, the workload is slower or larger on the device than its budget allows.
gain on the device: PG612
    With the patch, the workload is faster or smaller on the device, which no budget records.
other patches: PG811 PG813 PG812
    The patch does not work together with another one.
rounding:
    Outputs differ, by rounding alone, and the patch claims that they do not (the default claim).
torch changed: drifted stale
    torch itself has changed: without the patch, its facts differ from the golden files.
notes: new first under warning
    These notes are red because of `--strict`.
"""


def _read_causes(table: str) -> Iterator[Cause]:
    lines = table.strip().splitlines()
    for heading, sentence in zip(lines[::2], lines[1::2], strict=True):
        name, _, words = heading.partition(":")
        codes = tuple(word for word in words.split() if word.startswith("PG"))
        kinds = tuple(Kind(word) for word in words.split() if not word.startswith("PG"))
        yield Cause(name=name, sentence=sentence.strip(), codes=codes, kinds=kinds)


CAUSES = tuple(_read_causes(_TABLE))
_BY_NAME = {cause.name: cause for cause in CAUSES}
_BY_KIND = {kind: cause for cause in CAUSES for kind in cause.kinds}
# Some codes have two causes; the later cause counts. `cause_of` finds failed compiles itself.
_BY_CODE = {code: cause for cause in CAUSES for code in cause.codes}


def cause_of(verdict: Verdict) -> Cause:
    """The cause of a red verdict; a code that the table does not name is a cause of its own."""
    if verdict.kind in _BY_KIND:
        return _BY_KIND[verdict.kind]
    if verdict.fact == "compiles" and verdict.kind is Kind.REGRESSED:
        return _BY_NAME[_DOES_NOT_COMPILE]
    if verdict.fact.startswith(OTHER_FORM):
        return _BY_NAME[_OTHER_FORM]
    known = _BY_CODE.get(verdict.code)
    if known:
        return known
    title = title_of(verdict.code) or verdict.code
    return Cause(
        name=verdict.code, sentence=f"{title[0].upper()}{title[1:]}.", codes=(verdict.code,)
    )


def group_by_cause(verdicts: Iterable[Verdict]) -> tuple[CauseGroup, ...]:
    """The causes of the red verdicts, in reading order."""
    groups = defaultdict(list)
    red = [verdict for verdict in verdicts if verdict.colour is Colour.RED]
    roots = {
        verdict.where
        for verdict in red
        if verdict.where and cause_of(verdict).name == _DOES_NOT_FIT
    }
    for verdict in red:
        cause = cause_of(verdict)
        # The missing name is the cause of a failure at a line that uses it.
        if cause.name in (_DOES_NOT_RUN, _DOES_NOT_COMPILE) and verdict.where in roots:
            cause = _BY_NAME[_DOES_NOT_FIT]
        groups[cause].append(verdict)
    _rename(groups)
    ranks = {cause.name: rank for rank, cause in enumerate(CAUSES)}
    return tuple(
        CauseGroup(cause=cause, verdicts=tuple(_strongest_first(cause, groups[cause])))
        for cause in sorted(groups, key=lambda cause: ranks.get(cause.name, len(ranks)))
    )


def _rename(groups: dict[Cause, list[Verdict]]) -> None:
    """Rename `changes nothing` to `less effect` if another cause shows that the patch acts, and
    `numbers` to `rounding` if all its verdicts differ by rounding alone.
    """
    nothing, numbers = _BY_NAME[_NOTHING], _BY_NAME[_NUMBERS]
    if nothing in groups and any(cause.name in _ACTS for cause in groups):
        groups[_BY_NAME[_LESS]] = groups.pop(nothing)
    if numbers in groups and all(verdict.is_rounding for verdict in groups[numbers]):
        groups[_BY_NAME[_ROUNDING]] = groups.pop(numbers)


def _strongest_first(cause: Cause, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Sort verdicts by the cause's order of codes, then by the order of `_EVIDENCE`, then by share
    (the largest first), then by subject.
    """

    def strength(verdict: Verdict) -> tuple[int, int, float, str, str]:
        rank = cause.codes.index(verdict.code) if verdict.code in cause.codes else len(cause.codes)
        headline = _EVIDENCE.index(verdict.fact) if verdict.fact in _EVIDENCE else len(_EVIDENCE)
        return rank, headline, -verdict.share, verdict.subject, verdict.torch

    return sorted(verdicts, key=strength)
