"""The sessions: each makes the environments that it needs and runs `patchgate`, its tests or its
style checks there.

The torch releases are those of ci/matrix.toml.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nox
from nox.command import CommandFailed
from packaging.specifiers import SpecifierSet

nox.needs_version = ">=2025.5.1"  # `requires` takes the name of a parametrised session
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "tests"]

# uv trusts whom the machine trusts, as pip does: also a proxy that has its own certificate.
os.environ.setdefault("UV_NATIVE_TLS", "1")

ROOT = Path(__file__).parent
ROWS = {row["torch"]: row for row in nox.project.load_toml("ci/matrix.toml")["row"]}
PREMERGE = [torch for torch, row in ROWS.items() if "premerge" in row["tags"]]
NIGHTLY = "nightly"
ENVIRONMENTS = ROOT / "build" / "rows"


def requires(torches: list[str]) -> list[str]:
    """The sessions that make the releases named by `--torch`, or else `torches`."""
    if "--on" in sys.argv:
        return []
    wanted = _torches(sys.argv)[1] or torches
    return [
        "nightly" if torch == NIGHTLY else f"row({torch})"
        for torch in wanted
        if torch in (*ROWS, NIGHTLY)
    ]


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


@nox.session(requires=requires(PREMERGE))
def gate(session: nox.Session) -> None:
    """Judge one patch on the pre-merge rows: nox -s gate -- fixtures/patches/vllm-42686"""
    arguments, torches = _torches(session.posargs)
    _install(session, "-e", ".")
    _patchgate(session, "gate", *_rows(session, torches or PREMERGE), *arguments)


@nox.session
def models(session: nox.Session) -> None:
    """What a patch does to public models, on a simulated GPU: nox -s models --
    fixtures/patches/vllm-42686
    """
    _install(session, "-e", ".", "uv")  # uv makes environments with what the models require
    _patchgate(session, "models", *session.posargs)


@nox.session(requires=requires(PREMERGE))
def parts(session: nox.Session) -> None:
    """Judge the gated patches of one file one by one, and beside each other: nox -s parts --
    PATCH
    """
    arguments, torches = _torches(session.posargs)
    _install(session, "-e", ".")
    _patchgate(session, "parts", *arguments, *_rows(session, torches or PREMERGE))


@nox.session(requires=requires(list(ROWS) if "--all" in sys.argv else PREMERGE))
def corpus(session: nox.Session) -> None:
    """What went wrong in public, and what was right: nox -s corpus, or -- --all for every row"""
    arguments, torches = _torches(session.posargs)
    every = "--all" in arguments
    arguments = [argument for argument in arguments if argument != "--all"]
    _install(session, "-e", ".")
    rows = _rows(session, torches or (list(ROWS) if every else PREMERGE))
    _run(session, "python", "-m", "benchmarks.corpus", *rows, *arguments)


@nox.session(requires=requires(PREMERGE[:1]))
def attacks(session: nox.Session) -> None:
    """Patches that attack the gate, three times each: with and without root, Landlock and
    namespaces.
    """
    _install(session, "-e", ".")
    corpus = (
        "python",
        "-m",
        "benchmarks.corpus",
        "fixtures/hostile",
        *_rows(session, PREMERGE[:1]),
        *session.posargs,
    )
    missing = (("root",) if os.getuid() == 0 else (), ("landlock",), ("namespaces",))
    for without in ((), *filter(None, missing)):
        for _ in range(3):
            _run(session, "python", "benchmarks/corpus/machine_without.py", *without, "--", *corpus)


@nox.session(requires=requires(PREMERGE))
def repeat(session: nox.Session) -> None:
    """The same verdicts every time: again, fresh, in other orders, with -n 1 and 8, beside a load,
    from copied answers.

    `nox -s repeat -- --patch harmless -- --workload residual_chain`
    """
    arguments, torches = _torches(session.posargs)
    _install(session, "-e", ".")
    _run(
        session,
        "python",
        "-m",
        "benchmarks.repeat",
        *_rows(session, torches or PREMERGE),
        *arguments,
    )


@nox.session(requires=requires(list(ROWS)))
def sweep(session: nox.Session) -> None:
    """Every patch on every row, with history: nox -s sweep -- [PATCH ...] [--torch 2.11.0] [--torch
    nightly]
    """
    arguments, torches = _torches(session.posargs)
    if "--on" in arguments:  # the cluster makes its own rows, where it has none
        _install(session, "-e", ".[ray]")
        made = [torch for torch in torches or ROWS if "python" in _made(torch)]
        wanted = [
            word for torch in torches or ROWS if torch not in made for word in ("--torch", torch)
        ]
        return _patchgate(session, "sweep", *_rows(session, made), *wanted, *arguments)
    _install(session, "-e", ".")
    own = _made(NIGHTLY).get("python") if NIGHTLY in torches else None
    rows = _rows(session, [torch for torch in torches or list(ROWS) if torch != NIGHTLY])
    return _patchgate(session, "sweep", *rows, *(["--python", own] if own else []), *arguments)


@nox.session
def nightly(session: nox.Session) -> None:
    """The environment of torch's nightly build, from the package index in
    $PATCHGATE_NIGHTLY_INDEX.
    """
    index = os.environ.get("PATCHGATE_NIGHTLY_INDEX") or session.error(
        "PATCHGATE_NIGHTLY_INDEX names no index"
    )
    session.install("numpy", "packaging", "setuptools")
    session.install("--pre", "--index-url", index, "torch")
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    made = {"python": str(Path(session.bin, "python"))}
    (ENVIRONMENTS / f"{NIGHTLY}.json").write_text(json.dumps(made), encoding="utf-8")


@nox.session
def bisect(session: nox.Session) -> None:
    """What turned an answer: nox -s bisect -- --symptom --torch 2.10.0..2.15.0 PATCH"""
    _install(session, "-e", ".", "uv")  # uv makes the environments of releases that are no row
    made = [torch for torch in ROWS if "python" in _made(torch)]
    _patchgate(session, "bisect", *_rows(session, made), *session.posargs)


@nox.session(requires=requires(PREMERGE))
def fidelity(session: nox.Session) -> None:
    """On a machine with a GPU: is the simulated one exactly like it? nox -s fidelity -- --profile
    h200 [PATCH ...]
    """
    arguments, torches = _torches(session.posargs)
    _install(session, "-e", ".")
    _patchgate(session, "fidelity", *_rows(session, torches or PREMERGE), *arguments)


@nox.session
def accept(session: nox.Session) -> None:
    """Promote what the last gate observed to golden: nox -s accept -- --reason '...'"""
    _install(session, "-e", ".")
    _patchgate(session, "accept", *session.posargs)


@nox.session
def report(session: nox.Session) -> None:
    """Show the last gate's matrix and verdicts again."""
    _install(session, "-e", ".")
    _patchgate(session, "report", *session.posargs)


@nox.session
@nox.parametrize(
    "torch", [nox.param(torch, id=torch, tags=row["tags"]) for torch, row in ROWS.items()]
)
def row(session: nox.Session, torch: str) -> None:
    """Make the environment of one torch release (the other sessions ask for those they need)."""
    made = {"python": str(Path(session.bin, "python"))}
    here = ".".join(map(str, sys.version_info[:3]))
    if here not in SpecifierSet(ROWS[torch]["python"]):
        made = {"problem": f"torch {torch} runs on Python {ROWS[torch]['python']}, this is {here}"}
    else:
        try:
            # numpy: torch warns without it; packaging: what version checks in patches are written
            # with;
            # setuptools: torch 2.10 asks it for a C++ compiler.
            session.install(f"torch=={torch}", "numpy", "packaging", "setuptools")
        except CommandFailed as error:
            made = {
                "problem": (
                    f"installing torch {torch} failed: {error.reason or 'see the output above'}"
                )
            }
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    (ENVIRONMENTS / f"{torch}.json").write_text(json.dumps(made), encoding="utf-8")


@nox.session(requires=requires(PREMERGE))
def tests(session: nox.Session) -> None:
    """patchgate's own tests, on the pre-merge rows."""
    _install(session, "-e", ".[test]")
    _test(session)


@nox.session(requires=requires(PREMERGE))
def tests_nightly(session: nox.Session) -> None:
    """What takes too long before a merge: every test on every row, played pipelines, mutated
    patches, the corpus.
    """
    _install(session, "-e", ".[test]")
    _test(session, "-m", "nightly or fuzz or pipeline")
    _run(session, "python", "-m", "benchmarks.corpus", *_rows(session, PREMERGE))


@nox.session(requires=requires(PREMERGE))
def tests_ray(session: nox.Session) -> None:
    """Sweeps over a Ray cluster of two nodes; judged with torch too: nox -s tests_ray -- -m
    cluster
    """
    _install(session, "-e", ".[test,ray]")
    _test(session, "tests/ray")


def _test(session: nox.Session, *paths: str) -> None:
    """Run pytest, which finds the interpreters of the pre-merge rows in its environment."""
    rows = {
        f"PATCHGATE_ROW_{torch.replace('.', '_')}": _made(torch).get("python", "")
        for torch in PREMERGE
    }
    missing = [name for name, python in rows.items() if not python]
    if missing:
        session.error(f"no environment for {', '.join(missing)}; see build/rows")
    session.run(
        "pytest",
        "-n",
        "2",
        "--dist",
        "load",
        "--maxschedchunk",
        "1",
        *paths,
        *session.posargs,
        env=rows,
    )


@nox.session
def lint(session: nox.Session) -> None:
    """Style, imports, types and pipelines."""
    _install(session, "-e", ".[test,lint]", "nox")
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


@nox.session(requires=requires(PREMERGE))
def bench(session: nox.Session) -> None:
    """Where the seconds of a warm gate go, step by step, and what was not asked and why."""
    _install(session, "-e", ".")
    patch = session.posargs or ["fixtures/patches/vllm-42686"]
    session.run("python", "benchmarks/speed.py", *_rows(session, PREMERGE), *patch)


def _made(torch: str) -> dict[str, str]:
    path = ENVIRONMENTS / f"{torch}.json"
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def _rows(session: nox.Session, torches: list[str]) -> list[str]:
    """The options that tell the command of each row's interpreter, or why it has none."""
    options = []
    for torch in torches:
        made = _made(torch)
        if torch not in ROWS:
            session.error(
                f"no row for torch {torch!r} in ci/matrix.toml; there are: {', '.join(ROWS)}"
            )
        if not made:
            session.error(f"torch {torch} is not made yet: nox -s 'row({torch})'")
        kind, value = next(iter(made.items()))
        options += ["--row" if kind == "python" else "--problem", f"{torch}={value}"]
    return options


def _install(session: nox.Session, *what: str) -> None:
    """Install from this checkout, once: an editable package is resolved and built anew each time,
    for two seconds.
    """
    if session.virtualenv.venv_backend == "none" or {"-R", "--no-install"} & {
        *sys.argv
    }:  # nox may install nothing
        return session.install(*what)
    # Of a copy of a checkout the environments are those of the other one.
    wanted = f"{ROOT} {what}\n" + (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    installed = Path(session.virtualenv.location, "installed")
    if not installed.is_file() or installed.read_text(encoding="utf-8") != wanted:
        session.install(*what)
        installed.write_text(wanted, encoding="utf-8")
    return None


def _patchgate(session: nox.Session, *arguments: str) -> None:
    """Run the command `patchgate`."""
    _run(session, "patchgate", *arguments)


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
