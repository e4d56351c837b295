"""Options that several commands have: on which torch, with how many processes, and where the
results go.

An interpreter that is given must answer, with the very torch of its label, before anything runs on
it.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import click
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from patchgate.cli.parameters import argument, option
from patchgate.inputs.matrix import load_matrix
from patchgate.inputs.models import (
    model_names,
    model_path,
    model_requires,
    model_workloads,
    models_of,
)
from patchgate.inputs.project import Project
from patchgate.inputs.torch_range import torch_range
from patchgate.model.errors import UsageError
from patchgate.model.files import make_results_folder, refuse_links
from patchgate.model.paths import display_path
from patchgate.model.text import nearest
from patchgate.model.versions import full_release
from patchgate.runner.cache_keys import read_environment
from patchgate.runner.run_settings import FOLDER, NAME, default_releases
from patchgate.runner.torch_environments import NotInstallable, cached_environment, cached_home

_FORM = "--row 2.11.0=path/to/python"
# In another interpreter: the installed version of each distribution that is named.
_VERSIONS = """
import importlib.metadata as metadata, json, sys
def version(name):
    try: return metadata.version(name)
    except metadata.PackageNotFoundError: return None
print(json.dumps([version(name) for name in sys.argv[1:]]))
"""
# Where a container says what it may use.
_CONTAINER = Path("/sys/fs/cgroup")
# Minor releases after the newest that is indexed, which may have been published since.
_MINORS_AHEAD = 4
AT_LEAST_1 = click.IntRange(1)
ABOVE_0 = click.FloatRange(0, min_open=True)


def _releases(
    _context: click.Context, _option: click.Parameter, given: tuple[str, ...]
) -> tuple[str, ...]:
    """As torch itself calls them: golden and environments know them by that."""
    return tuple(map(full_release, given))


Patches = Annotated[tuple[Path, ...], argument()]
Torches = Annotated[
    tuple[str, ...],
    option(
        "--torch",
        metavar="RELEASE",
        callback=_releases,
        help="Judge on this release; it is installed if needed. May be repeated.",
    ),
]
Rows = Annotated[
    tuple[str, ...],
    option(
        "--row",
        metavar="TORCH=PYTHON",
        help="A torch release, and a Python that has it. May be repeated.",
    ),
]
Problems = Annotated[
    tuple[str, ...],
    option(
        "--problem",
        metavar="TORCH=REASON",
        help="A release that is reported as not judged, and why.",
    ),
]
Devices = Annotated[
    tuple[str, ...],
    option(
        "--device",
        metavar="NAME",
        help="Device profile, or cuda; default: h200 (simulated) and cpu.",
    ),
]
Workloads = Annotated[
    tuple[str, ...],
    option(
        "--workload",
        "--model",
        metavar="NAME",
        help="Only these workloads, or public models (fixtures/models, or a .toml file).",
    ),
]
Nightly = Annotated[
    bool, option(help="All workloads, not only those for pre-merge; also compile the kernels.")
]
Folder = Annotated[
    str,
    option(
        default=FOLDER,
        type=click.Path(file_okay=False),
        help="Where the results of the run are written.",
    ),
]


def time_limit(seconds: float) -> Any:
    return option(default=seconds, type=ABOVE_0, help="Seconds that one case may take.")


def memory_limit(mib: int) -> Any:
    return option(default=mib, type=AT_LEAST_1, help="MiB a case may add to torch.")


def own_folder(default: str, what: str) -> Any:
    """The folder of a command whose results are no run of the gate."""
    return option("--folder", default=default, file_okay=False, help=f"Where {what}.")


def cases_at_once(memory: int = 2) -> int:
    """As many cases as there are cores, in a container too, and GiB of `memory` for each; 2 to
    16.
    """
    cores: float = len(os.sched_getaffinity(0))
    room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):  # there is none, or it says "max"
        quota, period = (_CONTAINER / "cpu.max").read_text(encoding="ascii").split()
        cores = min(cores, int(quota) / int(period))
    with contextlib.suppress(OSError, ValueError):
        room = min(room, int((_CONTAINER / "memory.max").read_text(encoding="ascii")))
    # As many were tried beside each other, also on one GPU, whose memory they share.
    return max(2, min(16, int(min(cores, room / (memory << 30)))))


def cases(memory: int = 2) -> Any:
    """How many cases run in parallel, each with so many GiB of `memory`."""
    return option(
        "-n",
        default=lambda: cases_at_once(memory),
        show_default="one a core, as far as memory goes; 2 to 16",
        type=AT_LEAST_1,
        help="Number of cases that run in parallel.",
    )


Workers = Annotated[int, cases()]


def chosen_environments(
    project: Project, rows: Sequence[str], problems: Sequence[str], torches: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """(interpreters, why there is none) by release: those that are given, else those of the
    releases to judge on.
    """
    if rows or problems:
        return rows_of(rows, project), problems_of(problems)
    if not torches:
        _refuse_unsupported(project)
    return environments_of(torches or default_releases(project), project)


def _refuse_unsupported(project: Project) -> None:
    """Raises UsageError where the project requires a torch that is not judged; any other would be a
    guess.
    """
    required, rows = torch_range(Path(project.root)), [row.torch for row in load_matrix()]
    if not project.releases and required.specifiers and not required.of(rows):
        got, advice = (
            str(required),
            f"--torch {rows[-1]} judges it there; `patchgate lint` knows other releases",
        )
        raise UsageError(
            f"patchgate judges torch {rows[0]} to {rows[-1]}",
            where=required.where,
            got=got,
            next=advice,
        )


def environments_of(
    torches: Sequence[str], project: Project
) -> tuple[dict[str, str], dict[str, str]]:
    """(interpreters, why there is none) by release, each with what the project wants beside
    torch.
    """
    environments: dict[str, str] = {}
    missing: dict[str, str] = {}
    package = _package_of(project)
    pythons = {row.torch: row.python for row in load_matrix()}
    here, oldest = platform.python_version(), next(iter(pythons))
    for torch in torches:
        if _public(torch) is None:
            raise UsageError(
                "not a release of torch", where="--torch", got=torch, next="--torch 2.12.1"
            )
        _refuse_unpublished(torch)
        if Version(torch) < Version(oldest):
            where = project.where("releases") if torch in project.releases else "--torch"
            advice = (
                f"--torch {oldest}, the oldest that is judged; `patchgate lint` knows older ones"
            )
            raise UsageError("too old to be judged", where=where, got=torch, next=advice)
        if not SpecifierSet(pythons.get(torch, "")).contains(here):
            missing[torch] = f"torch {torch} runs on Python {pythons[torch]}, this is {here}"
            continue
        home = cached_home(torch, project.requires, package)
        if not (home / "complete").is_file():
            shared = "this project" if package else "every project"
            click.echo(
                f"installing torch {torch} in {display_path(home)}, once for {shared}", err=True
            )
        try:
            environments[torch] = cached_environment(torch, project.requires, package)
        except NotInstallable as error:
            missing[torch] = str(error)
    return environments, missing


def _refuse_unpublished(torch: str) -> None:
    """Raises UsageError for a version far beyond the newest known release.

    Without a network nobody can tell more: the next few minor releases, and the next major one, may
    exist by now.
    """
    from patchgate.lint.index.release import releases  # a table of 2 MB

    known = sorted({*releases(), *(row.torch for row in load_matrix())}, key=Version)
    version, newest = Version(torch), Version(known[-1])
    minors = version.minor - (newest.minor if version.major == newest.major else 0)
    ahead = version.major > newest.major + 1 or (
        version.major >= newest.major and minors > _MINORS_AHEAD
    )
    if ahead and not version.is_devrelease:
        raise UsageError(
            "no such release of torch",
            where="--torch",
            got=torch,
            next=f"--torch {newest}, the newest known",
        )


def with_models(project: Project, names: Iterable[str]) -> tuple[Project, tuple[str, ...]]:
    """The project with the models of these names too, and what all want beside torch; the names of
    workloads alone.

    A file that is typed is seen from the working directory. Raises UsageError for a model that
    there is not.
    """
    root = Path(project.root)
    for model in project.models:
        model_path(model, root, where=project.where("models"))
    named: dict[str, None] = {}
    models = dict.fromkeys(project.models)
    for name in names:
        model = os.path.relpath(model_path(name), root) if name.endswith(".toml") else name
        is_model = model != name or name in model_names()
        models |= dict.fromkeys([model] if is_model else models_of([name]))
        named |= dict.fromkeys(model_workloads([model], root) if is_model else [name])
    requires = dict.fromkeys([*project.requires, *model_requires(models, root)])
    return replace(project, models=tuple(models), requires=tuple(requires)), tuple(named)


def _package_of(project: Project) -> Path | None:
    """The folder of what the table installs. Raises UsageError where there is nothing to
    install.
    """
    if not project.install:
        return None
    package = project.at(project.install)
    if not any((package / name).is_file() for name in ("pyproject.toml", "setup.py")):
        got, advice = (
            f"{display_path(package)} without pyproject.toml or setup.py",
            'install = ".", or put it on the `path`',
        )
        raise project.fault("install", "not a package that pip installs", got, advice)
    return package


def rows_of(given: Iterable[str], project: Project | None = None) -> dict[str, str]:
    """Each row's interpreter, with what the project's models want.

    Raises UsageError where there is none, its torch is not the one of its label, or it lacks what a
    model wants.
    """
    rows = {torch: _checked(torch, python) for torch, python in pairs_of(given, "--row").items()}
    wanted = model_requires(project.models, Path(project.root)) if project else ()
    for torch, python in rows.items() if wanted else ():
        command = [python, "-c", _VERSIONS, *(Requirement(each).name for each in wanted)]
        versions = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        for each, version in zip(wanted, versions, strict=True):
            if version is None or not Requirement(each).specifier.contains(
                version, prereleases=True
            ):
                got = (
                    f"{torch}={python}, with {Requirement(each).name} {version or 'missing'}; a "
                    f"model wants {each}"
                )
                advice = f"--torch {torch} in place of --row makes an environment that has it"
                raise UsageError(
                    "this interpreter lacks what a model wants", where="--row", got=got, next=advice
                )
    return rows


def problems_of(given: Iterable[str]) -> dict[str, str]:
    """Why each row that has no environment has none."""
    return pairs_of(given, "--problem")


def pairs_of(given: Iterable[str], option: str) -> dict[str, str]:
    """`TORCH=VALUE` texts by torch. Raises UsageError."""
    found = {}
    for text in given:
        torch, _, value = text.partition("=")
        if not value or _public(torch) is None:
            raise UsageError(
                "not TORCH=VALUE", where=option, got=text, next=_FORM.replace("--row", option)
            )
        found[torch] = value
    return found


def _checked(torch: str, python: str) -> str:
    # Whoever starts it stands in another folder. Not resolved: a venv's interpreter is a link.
    python = str(Path(python).absolute()) if os.sep in python else python
    has = read_environment(python)["torch"]
    # What stands after a plus says how torch was built, or which commit is laid over it: no other
    # release.
    if _public(has) != _public(torch):
        label = has.partition("+")[0]
        raise UsageError(
            f"this interpreter has another torch than {torch}",
            where="--row",
            got=f"{torch}={python}, which has torch {has}",
            next=f"--row {label}={shlex.quote(python)}, or the interpreter that has torch {torch}",
        )
    return python


def _public(torch: str) -> str | None:
    try:
        return Version(torch).public
    except InvalidVersion:
        return None


def only_known(
    given: tuple[str, ...], known: Collection[str], what: str, where: str
) -> tuple[str, ...]:
    """The given names. Raises UsageError for an unknown one, with a suggestion."""
    for name in given:
        if name not in known:
            raise UsageError(
                f"no {what} `{name}`", where=where, got=name, next=nearest(name, sorted(known))
            )
    return given


def emptied_folder(folder: Path) -> str:
    """The folder, without what an earlier run has left there.

    Raises UsageError where it is somebody else's.
    """
    make_results_folder(folder, "--folder", mark=NAME)
    refuse_links(folder.resolve())
    shutil.rmtree(folder, ignore_errors=True)
    return str(folder.resolve())
