"""Does the patch apply on exactly the torch versions that it claims? Versions are faked around each
release.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from packaging.version import Version

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
    does_not_run,
    failure_of,
    read_codes,
    replaced_names,
    verdict_of,
)
from patchgate.inputs.matrix import load_matrix
from patchgate.inputs.patch_source import nodes_in, parse
from patchgate.inputs.torch_range import torch_range
from patchgate.lint.index.release import releases
from patchgate.model.paths import display_path
from patchgate.model.records import Command, Failure
from patchgate.model.versions import in_order, range_text

FAMILY = "gate"
CODES = read_codes("""
PG201 applies where it is not claimed
    With `torch.__version__` set to a version outside `applies_to`, running the patch still replaced
    a name of torch, or, if it replaces none, changed a setting.
    Why: Users of that release get a changed compiler on which the patch was never tested.
    Fix: Tighten the version check in the patch, or widen `applies_to`, so that the gate judges the
    patch there.
PG202 does not apply where it is claimed
    With `torch.__version__` set to a version inside `applies_to`, running the patch replaced no
    name of torch, and, if it replaces none on any version, changed no setting.
    Why: Users of that release believe that they have the fix. Usual causes are the local (+cu130),
    dev, rc and post parts of a version.
    Fix: Compare releases, not strings: `Version(torch.__version__).release`, or a SpecifierSet with
    `prereleases=True`.
PG211 claims hold
    The patch applies exactly where it claims to, applies once, changes only its targets, and is
    needed.
    Why: These are the claims of the manifest.
    Fix: Nothing to do.
PG220 applies on no supported release
    `applies_to` holds no release of torch that the project supports: those of `torch_range` in its
    table or of its own requirements; where it states neither, those of ci/matrix.toml.
    Why: No user ever runs the code, so that nobody notices a defect in it.
    Fix: Drop the patch. If the project still supports such a release, say so:
    `torch_range = ">=2.6"` in `[tool.patchgate]`, and judge the patch there: `--torch RELEASE`.
""")
verdict = partial(verdict_of, FAMILY)
# Exceptions of code that parses a version and finds `0a0` or `dev20260101` in place of a number.
_MISREAD = ("ValueError", "TypeError", "IndexError", "InvalidVersion")
# Kinds of effects that the probe looks for under every version.
_SETTINGS = ("environment", "config", "state", "process")
Answers = Mapping[str, Answer]


@Check(believes=SIMULATED, seconds=3)
def ask_versions(context: CheckContext, at: Instance) -> Verdicts:
    """Apply the patch under each version around the release."""
    torch, patch = at.case.torch, context.patch
    own = context.apply(torch)
    failure = failure_of(own)
    if failure:
        # Other versions are not tried: a patch that hangs would hang under every version.
        return [does_not_run(at.case, failure, patch, context.run.again)]
    others = context.apply_under(
        torch, [each for each in versions_around(torch) if each != torch], patch
    )
    where = context.patch.place_of("applies_to")
    supported, stated = supported_releases(Path(context.run.patch))
    return [
        *judge_versions(at.case, patch, {torch: own, **others}, where, context.run.again),
        *judge_support(at.case, patch, supported, where, stated),
    ]


def supported_releases(patch: Path) -> tuple[list[str], str]:
    """The releases that the patch is for, and the project's text that states them. If the project
    states none, the releases are those of the matrix, and the text is empty.
    """
    stated = torch_range(patch)
    if not stated.specifiers or stated.by_triton:
        return [release.torch for release in load_matrix()], ""
    return stated.of(_known_releases()), str(stated)


def _known_releases() -> list[str]:
    """The releases of the index and of the matrix."""
    return in_order([*releases(), *(release.torch for release in load_matrix())])


def versions_around(torch: str) -> tuple[str, ...]:
    """Versions to fake near a release: local, post, dev and rc builds of it, and its neighbours."""
    parsed = Version(torch)
    major, minor, micro = parsed.major, parsed.minor, parsed.micro
    release = f"{major}.{minor}.{micro}"
    # The minor release before x.0 is unknown. Any other minor release may have one patch release.
    before = (f"{major}.{minor - 1}.0", f"{major}.{minor - 1}.1") if minor else ()
    return (
        release,
        f"{release}+cu130",
        f"{release}+cpu",
        f"{release}.post1",
        f"{release}a0+git1234",
        f"{release}rc5",
        f"{release}.dev20260101",
        f"{major}.{minor}.{micro + 1}",
        *before,
        f"{major}.{minor + 1}.0",
        f"{major}.{minor + 1}.0.dev20260101",
    )


def judge_versions(
    case: Case, patch: Patch, answers: Answers, where: str, again: Command
) -> Verdicts:
    """PG201, PG202 and PG210 from running the patch under each faked version."""
    failures = {version: told for version in answers if (told := failure_of(answers[version]))}
    if case.torch in failures:
        yield does_not_run(case, failures[case.torch], patch, again)
        return
    say = partial(verdict, item="versions")
    # Under the version of another release, the patch may use names that only that release has.
    ran = {version: answer for version, answer in answers.items() if version not in failures}
    applied = _applied(patch, ran)
    by_version = sorted(failures, key=Version)
    builds = [each for each in by_version if _misreads(patch, case.torch, each, failures[each])]
    if builds:
        failure = failures[builds[0]]
        actual = f"with torch {', '.join(builds)}: {failure.text}"
        yield say(
            "PG210",
            Kind.REGRESSED,
            case,
            f"builds of {case.torch}",
            "the module runs under each build of the release",
            actual,
            display_path(failure.where or patch.path),
            advice="compare `packaging.version.Version(torch.__version__)`: it reads every build",
        )
    unknown = [version for version in by_version if version not in builds]
    if unknown:
        actual = (
            f"cannot tell for {range_text(unknown, answers)}: the patch does not run there on "
            f"torch {case.torch}"
        )
        yield say("PG211", Kind.NOTE, case, "", "runs under a faked version", actual)
    if patch.claims.applies_to is None:
        changing = [v for v, did in applied.items() if did or answers[v].get("effects")]
        actual = (
            f"changes torch or its settings on {range_text(changing, applied)}"
            if changing
            else "changes nothing of torch"
        )
        yield say("PG211", Kind.NOTE, case, "", "(no applies_to claimed)", actual)
        return
    expected = f"applies exactly on {patch.claims.applies_to}"
    if not any(applied.values()) and not patch.claims.targets:
        # A module that only offers functions does not show on which versions it applies.
        actual = "not visible: the patch changes nothing when it is run"
        yield say("PG211", Kind.NOTE, case, "", expected, actual)
        return
    yield from _against_claim(case, patch, applied, where)


def _misreads(patch: Patch, torch: str, version: str, failure: Failure) -> bool:
    """True if the patch fails to read the version of a build of the judged release.

    Under a faked build only the version of torch differs. A patch that raises an error by a `raise`
    of its own refuses the build on purpose.
    """
    build = Version(version)
    if build.base_version != Version(torch).base_version or build.is_postrelease:
        return False
    kind = failure.signature.partition(":")[0].rpartition(".")[2]
    path, _, line = (failure.where or "").rpartition(":")
    if kind not in _MISREAD or path != patch.path or patch.diff:
        return False
    raising = nodes_in(parse(patch.source), ast.Raise)
    return all(not node.lineno <= int(line) <= (node.end_lineno or 0) for node in raising)


def _against_claim(case: Case, patch: Patch, applied: Mapping[str, bool], where: str) -> Verdicts:
    """PG201 and PG202 for the versions on which the patch contradicts its claim."""
    say = partial(verdict, item="versions")
    expected = f"applies exactly on {patch.claims.applies_to}"
    extra = [version for version, did in applied.items() if did and not patch.is_claimed(version)]
    lacking = [version for version, did in applied.items() if not did and patch.is_claimed(version)]
    # Pre-releases of a claimed release: PEP 440 leaves them out of `>=2.11`, but few authors intend
    # that.
    early = [
        v for v in extra if Version(v).is_prerelease and patch.is_claimed(Version(v).base_version)
    ]
    extra = [version for version in extra if version not in early]
    for code, verb, wrong in (
        ("PG201", "applies on", extra),
        ("PG202", "does not apply on", lacking),
    ):
        if wrong:
            actual = (
                f"{verb} {range_text(wrong, applied)} ({len(wrong)} of {len(applied)} "
                "versions that were tried)"
            )
            yield say(code, Kind.REGRESSED, case, "", expected, actual, where)
    if early:
        actual = f"applies on {range_text(early, applied)} too, builds before a claimed release"
        yield say("PG201", Kind.WARNING, case, "", expected, actual, where)
    if not (extra or lacking or early):
        yield say("PG211", Kind.PASS, case, "", expected, f"{len(applied)} versions as claimed")


def _applied(patch: Patch, answers: Answers) -> dict[str, bool]:
    """Map each version to True if the patch applied, which means that it replaced names.

    If a patch without targets replaces no name under any version, operators that it defines and
    settings that it changes count instead.
    """
    replaced = {version: bool(replaced_names(patch, answer)) for version, answer in answers.items()}
    if patch.claims.targets or any(replaced.values()):
        return replaced
    return {
        version: bool(answer.get("defined"))
        or any(one["kind"] in _SETTINGS for one in answer.get("effects", ()))
        for version, answer in answers.items()
    }


def judge_support(
    case: Case, patch: Patch, supported: Sequence[str], where: str, stated: str = ""
) -> Verdicts:
    """PG220 if the patch applies on no supported release.

    `stated` is the project's text about its releases; it is empty if the matrix decides.
    """
    say, expected = (
        partial(verdict, item="support"),
        f"applies on a release {f'of {stated}' if stated else 'that patchgate judges'}",
    )
    applies = [release for release in supported if patch.is_claimed(release)]
    if not applies:
        actual = (
            f"{patch.claims.applies_to} holds none of {range_text(supported, _known_releases())}"
        )
        yield say("PG220", Kind.REGRESSED, case, "", expected, actual, where)
    elif stated and not patch.is_claimed(case.torch):
        actual = (
            f"applies on {range_text(applies, _known_releases())}, and not on {case.torch}: "
            "also judge it there"
        )
        yield say("PG211", Kind.NOTE, case, "", expected, actual)
