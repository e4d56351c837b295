"""The sessions: each installs this checkout, makes the environments of torch that it needs, and
runs `patchgate`, its tests or its style checks.

The torch releases are those of ci/matrix.toml.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import nox
from nox.command import CommandFailed
from packaging.specifiers import SpecifierSet

nox.needs_version = ">=2025.2.9"  # nox.project.dependency_groups
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "tests"]

# uv trusts whom the machine trusts, as pip does: also a proxy that has its own certificate.
os.environ.setdefault("UV_NATIVE_TLS", "1")

ROWS = {row["torch"]: row for row in nox.project.load_toml("ci/matrix.toml")["row"]}
PREMERGE = [torch for torch, row in ROWS.items() if "premerge" in row["tags"]]
NIGHTLY = "nightly"
# Beside torch. numpy: torch warns without it; packaging: what version checks in patches are written
# with; setuptools: torch 2.10 asks it for a C++ compiler.
BESIDE_TORCH = ("numpy", "packaging", "setuptools")
HERE = ".".join(map(str, sys.version_info[:3]))


@nox.session
def gate(session: nox.Session) -> None:
    """Judge one patch on the pre-merge rows: nox -s gate -- fixtures/patches/vllm-42686"""
    _patchgate(session, "gate", PREMERGE)


@nox.session
def models(session: nox.Session) -> None:
    """Compare public models with and without a patch, on a simulated GPU: nox -s models --
    fixtures/patches/vllm-42686
    """
    _patchgate(session, "models")


@nox.session
def parts(session: nox.Session) -> None:
    """Judge the gated patches of one file one by one, and beside each other: nox -s parts --
    PATCH
    """
    _patchgate(session, "parts", PREMERGE)


@nox.session
def fidelity(session: nox.Session) -> None:
    """On a machine with a GPU: is the simulated one exactly like it? nox -s fidelity -- --profile
    h200 [PATCH ...]
    """
    _module(session, "benchmarks.fidelity", PREMERGE, session.posargs)


@nox.session
def record(session: nox.Session) -> None:
    """Keep the facts that the real GPU gave: nox -s record -- --profile h200"""
    session.install("-e", ".")
    _run(session, "python", "-m", "benchmarks.record", *session.posargs)


@nox.session
def accept(session: nox.Session) -> None:
    """Promote what the last gate observed to golden: nox -s accept -- --reason '...'"""
    _patchgate(session, "accept")


@nox.session
def report(session: nox.Session) -> None:
    """Show the last gate's matrix and verdicts again."""
    _patchgate(session, "report")


@nox.session
def bisect(session: nox.Session) -> None:
    """Find the release that turned an answer: nox -s bisect -- --symptom --torch 2.10.0..2.15.0
    PATCH
    """
    session.install("-e", ".")
    made = [torch for torch in ROWS if _python(session, torch).exists()]
    _run(session, "patchgate", "bisect", *_rows(session, made), *session.posargs)


@nox.session
def sweep(session: nox.Session) -> None:
    """Every patch on every row, with history: nox -s sweep -- [PATCH ...] [--torch 2.11.0] [--torch
    nightly]
    """
    arguments, torches = _torches(session.posargs)
    session.install("-e", ".[ray]" if "--on" in arguments else ".")
    chosen = torches or list(ROWS)
    if "--on" in arguments:  # the cluster makes its own rows, where it has none
        made = [torch for torch in chosen if _python(session, torch).exists()]
        arguments += [word for torch in chosen if torch not in made for word in ("--torch", torch)]
        chosen = made
    if NIGHTLY in chosen:
        arguments += ["--python", str(_made(session, NIGHTLY))]
    rows = _rows(session, [torch for torch in chosen if torch != NIGHTLY])
    _run(session, "patchgate", "sweep", *rows, *arguments)


@nox.session
def corpus(session: nox.Session) -> None:
    """Judge public patches with known outcomes: nox -s corpus, or -- --all for every row"""
    every = "--all" in session.posargs
    rest = [argument for argument in session.posargs if argument != "--all"]
    _module(session, "benchmarks.corpus", list(ROWS) if every else PREMERGE, rest)


@nox.session
def attacks(session: nox.Session) -> None:
    """Patches that attack the gate, three times each: with and without root, Landlock and
    namespaces. Then commands that are killed, run on full disks and started twice.
    """
    session.install("-e", ".")
    rows = _rows(session, PREMERGE[:1])
    corpus = ("python", "-m", "benchmarks.corpus", "fixtures/hostile", *rows, *session.posargs)
    missing = (("root",) if os.getuid() == 0 else (), ("landlock",), ("namespaces",))
    for without in ((), *filter(None, missing)):
        for _ in range(3):
            _run(session, "python", "benchmarks/corpus/machine_without.py", *without, "--", *corpus)
    if not session.posargs:
        _run(session, "python", "-m", "benchmarks.disturbed", *rows)


@nox.session
def repeat(session: nox.Session) -> None:
    """The same verdicts every time: again, fresh, in other orders, with -n 1 and 8, beside a load,
    from copied answers.

    `nox -s repeat -- --patch harmless -- --workload residual_chain`
    """
    _module(session, "benchmarks.repeat", PREMERGE, session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Show the seconds of each step of a warm gate, and which questions were not asked and why."""
    session.install("-e", ".")
    patch = session.posargs or ["fixtures/patches/vllm-42686"]
    _run(session, "python", "benchmarks/speed.py", *_rows(session, PREMERGE), *patch)


@nox.session
@nox.parametrize(
    "torch", [nox.param(torch, id=torch, tags=row["tags"]) for torch, row in ROWS.items()]
)
def row(session: nox.Session, torch: str) -> None:
    """Make the environment of one torch release (the other sessions make those that they need)."""
    session.install(f"torch=={torch}", *BESIDE_TORCH)


@nox.session
def nightly(session: nox.Session) -> None:
    """The environment of torch's nightly build, from the package index in
    $PATCHGATE_NIGHTLY_INDEX.
    """
    index = os.environ.get("PATCHGATE_NIGHTLY_INDEX") or session.error(
        "PATCHGATE_NIGHTLY_INDEX names no index"
    )
    session.install(*BESIDE_TORCH)
    session.install("--pre", "--index-url", index, "torch")


@nox.session
def tests(session: nox.Session) -> None:
    """patchgate's own tests, on the pre-merge rows."""
    _test(session, ".")


@nox.session
def tests_nightly(session: nox.Session) -> None:
    """Run what takes too long before a merge: every test on every row, played pipelines, mutated
    patches and other inputs, the corpus.
    """
    _test(session, ".", "-m", "nightly or fuzz or pipeline")
    _run(session, "python", "-m", "benchmarks.mutations")
    _run(session, "python", "-m", "benchmarks.corpus", *_rows(session, PREMERGE))


@nox.session
def tests_ray(session: nox.Session) -> None:
    """Sweeps over a Ray cluster of two nodes; judged with torch too: nox -s tests_ray -- -m
    cluster
    """
    _test(session, ".[ray]", "tests/ray")


def _test(session: nox.Session, checkout: str, *arguments: str) -> None:
    """Run pytest, which finds the interpreters of the pre-merge rows in its environment."""
    session.install("-e", checkout, *_group("test"))
    rows = {
        f"PATCHGATE_ROW_{torch.replace('.', '_')}": str(_made(session, torch)) for torch in PREMERGE
    }
    parallel = ("-n", "2", "--dist", "load", "--maxschedchunk", "1")
    session.run("pytest", *parallel, *arguments, *session.posargs, env=rows)


@nox.session
def docs(session: nox.Session) -> None:
    """The pages as a site in build/docs; every link and anchor is checked."""
    session.install(*_group("docs"))
    session.run("mkdocs", "build", "--strict", env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session
def lint(session: nox.Session) -> None:
    """Style, imports, types and pipelines."""
    session.install("-e", ".", "nox", *_group("test"), *_group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    _lint_pipelines(session)


def _lint_pipelines(session: nox.Session) -> None:
    """Each pipeline by its schema, and what no schema knows: expressions, permissions,
    injections.
    """
    own = sorted(map(str, Path(".github", "workflows").glob("*.yml")))
    pasted = [
        str(path) for path in sorted(Path("ci", "github").glob("*.yml")) if path.stem != "action"
    ]
    actions = sorted(map(str, Path("ci", "github").rglob("action.yml")))
    # Checkers that happen to be on a machine, or not, would make another result there.
    session.run("actionlint", "-shellcheck=", "-pyflakes=", *own, *pasted)
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *own, *pasted)
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-actions", *actions)
    steps = Path(session.create_tmp(), "steps.json")
    steps.write_text(
        session.run("python", "ci/buildkite/pipeline.py", silent=True) or "", encoding="utf-8"
    )
    session.run(
        "check-jsonschema",
        "--builtin-schema",
        "vendor.buildkite",
        "ci/buildkite/pipeline.yml",
        str(steps),
    )
    if sys.version_info >= (3, 11):  # zizmor's own least
        session.run(
            "zizmor",
            "--offline",
            "--quiet",
            "--config",
            "ci/zizmor.yml",
            ".github/workflows",
            "ci/github",
        )


def _group(name: str) -> Iterable[str]:
    return nox.project.dependency_groups(nox.project.load_toml("pyproject.toml"), name)


def _torches(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Take `--torch X` out of the arguments; they name rows, and rows are made here."""
    rest, torches = [], []
    given = iter(arguments)
    for argument in given:
        if argument == "--torch":
            torches.append(next(given, ""))
        else:
            rest.append(argument)
    return rest, torches


def _python(session: nox.Session, torch: str) -> Path:
    """The interpreter of a row, which lies beside the environment of each session."""
    name = NIGHTLY if torch == NIGHTLY else f"row-{torch.replace('.', '-')}"
    return Path(session.virtualenv.location).parent / name / "bin" / "python"


def _made(session: nox.Session, torch: str) -> Path:
    """The interpreter of a row, made by its own session if it is not there. Raises CommandFailed
    where that fails.
    """
    python = _python(session, torch)
    name = NIGHTLY if torch == NIGHTLY else f"row({torch})"
    if not any(python.parents[1].glob("lib/*/site-packages/torch-*.dist-info")):
        session.run(sys.executable, "-m", "nox", "-s", name, external=True)
    return python


def _rows(session: nox.Session, torches: Iterable[str]) -> list[str]:
    """The options that tell the command of each row's interpreter, or why it has none."""
    options = []
    for torch in torches:
        if torch not in ROWS:
            session.error(
                f"no row for torch {torch!r} in ci/matrix.toml; there are: {', '.join(ROWS)}"
            )
        if HERE not in SpecifierSet(ROWS[torch]["python"]):
            why = f"torch {torch} runs on Python {ROWS[torch]['python']}, this is {HERE}"
            options += ["--problem", f"{torch}={why}"]
            continue
        try:
            options += ["--row", f"{torch}={_made(session, torch)}"]
        except CommandFailed:
            why = f"installing torch {torch} failed: see the output above"
            options += ["--problem", f"{torch}={why}"]
    return options


def _patchgate(session: nox.Session, command: str, torches: Iterable[str] = ()) -> None:
    """Run a command of patchgate: on these rows, or those that are typed, where it takes rows."""
    session.install("-e", ".")
    arguments, typed = _torches(session.posargs) if torches else (session.posargs, [])
    _run(session, "patchgate", command, *_rows(session, typed or torches), *arguments)


def _module(
    session: nox.Session, module: str, torches: Iterable[str], arguments: list[str]
) -> None:
    """Run a module of this checkout on rows."""
    session.install("-e", ".")
    rest, typed = _torches(arguments)
    _run(session, "python", "-m", module, *_rows(session, typed or torches), *rest)


def _run(session: nox.Session, program: str, *arguments: str) -> None:
    """Run a program of the session and end with its own exit code, which nox would turn into 1."""
    # session.env holds only what nox changes; without PATH a C++ compiler does not find its own
    # parts.
    environment = {
        name: value for name, value in {**os.environ, **session.env}.items() if value is not None
    }
    environment["PATCHGATE_THROUGH"] = "nox"  # its next steps are typed as this one was
    code = subprocess.call([str(Path(session.bin, program)), *arguments], env=environment)
    if code:
        sys.exit(code)
