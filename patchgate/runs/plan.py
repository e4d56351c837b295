"""Makes the runs that a user asks for: their torches, patches, devices and checks.

Before anything runs on an interpreter that is given, it must report the torch version of its label.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from patchgate.checks.framework.find_checks import all_checks
from patchgate.inputs.devices import device_names, load_profile
from patchgate.inputs.manifest import Patch
from patchgate.inputs.matrix import load_matrix
from patchgate.inputs.models import (
    model_names,
    model_path,
    model_requires,
    model_workloads,
    models_of,
)
from patchgate.inputs.patch import load_patch
from patchgate.inputs.patch_source import refuse_empty, source_and_manifest
from patchgate.inputs.project import Project, find_project, project_around
from patchgate.inputs.toml import tables_below
from patchgate.inputs.torch_range import default_releases, torch_range
from patchgate.inputs.workloads import workloads_with
from patchgate.model.errors import UsageError
from patchgate.model.files import make_results_folder, refuse_links
from patchgate.model.paths import display_path, split_entry
from patchgate.model.records import Command
from patchgate.model.serialization import Invalid, read_requirement
from patchgate.model.text import nearest
from patchgate.runner.cache_keys import read_environment
from patchgate.runner.run_settings import NAME
from patchgate.runner.torch_environments import NotInstallable, cached_environment, cached_home
from patchgate.runs.gate import Environments, syntax_failure

#: Gets a line for each environment that is made.
Say = Callable[[str], None]
# Files of the drivers of GPUs: NVIDIA's, AMD's, and the driver of Windows below Linux.
_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
_REQUIRES = "--requires 'transformers>=4.50'"
_FORM = "--row 2.11.0=path/to/python"

# This program runs in another interpreter. It prints the installed version of each named
# distribution.
_VERSIONS = """
import importlib.metadata as metadata, json, sys
def version(name):
    try: return metadata.version(name)
    except metadata.PackageNotFoundError: return None
print(json.dumps([version(name) for name in sys.argv[1:]]))
"""

# The maximum number of minor releases that may have followed the newest indexed one by now.
_MINORS_AHEAD = 4


def environments_for(
    patches: Collection[Patch],
    project: Project,
    rows: tuple[str, ...],
    problems: tuple[str, ...],
    torches: tuple[str, ...],
    watch: bool,
    say: Say,
) -> Environments:
    """The interpreters by release. If there are patches and none can be parsed, no environment is
    made, except for a watch or if a row has a problem.
    """
    given = pairs_of(rows, "--row")
    readable = not patches or not all(syntax_failure(patch, given.values()) for patch in patches)
    if not (readable or watch or problems):
        return given or dict.fromkeys(torches or default_releases(project), ""), {}
    return chosen_environments(project, rows, problems, torches, say)


def installable(patch: str) -> str:
    """The absolute path of a patch. Raises UsageError if there is no patch."""
    load_patch(Path(patch))
    return str(Path(patch).resolve())


def load_patches(
    given: Sequence[Path], workloads: tuple[str, ...]
) -> tuple[tuple[Project, tuple[str, ...]], dict[Path, Patch]]:
    """Return the project and the workloads as `with_models` returns them, and the given patches; if
    none are given, the patches of the table.

    Raises UsageError if there is no patch, if a patch is empty, or if two have the same name.
    """
    project = project_around(given[0]) if given else find_project(Path.cwd())
    paths = list(given) or project.patch_paths()
    if not paths:
        raise _no_patch(project)
    loaded = {path: load_patch(path) for path in paths}
    named: dict[str, Path] = {}
    for path, patch in loaded.items():
        if project_around(path).root != project.root:
            raise UsageError(
                "a patch of another project",
                where=display_path(path),
                got=f"{display_path(project.root)} is that of {display_path(paths[0])}",
                next=Command(name="gate", arguments=(shlex.quote(display_path(path)),)),
            )
        if patch.id in named:
            raise UsageError(
                f"two patches `{patch.id}`: golden tells them apart by name",
                where=display_path(path),
                got=f"{display_path(named[patch.id])} is `{patch.id}` too",
                next="call one of the two otherwise",
            )
        named[patch.id] = path
        _refuse_empty(path, patch)
    return with_models(project, workloads), loaded


def _refuse_empty(path: Path, patch: Patch) -> None:
    """Raises UsageError for a file without code, unless functions of other modules install it."""
    if not any(":" in call.partition("(")[0] for call in patch.claims.apply):
        refuse_empty(source_and_manifest(split_entry(path)[0])[0])


def _no_patch(project: Project) -> UsageError:
    what, got = "no patch to judge", "no PATCH, and no `patches` in the table"
    if project.table is None:
        got = "no PATCH"
        below = [display_path(table.parent) for table in tables_below(Path.cwd())]
        if below:
            others = f"; also {', '.join(below[1:])}" if below[1:] else ""
            advice = f"there are tables in subfolders: cd {below[0]} && patchgate gate{others}"
            return project.fault("patches", what, got, advice)
    advice = (
        'patchgate gate path/to/patch.py; or patches = ["path/to/*.py"] in '
        "[tool.patchgate] of pyproject.toml"
    )
    return project.fault("patches", what, got, advice)


def known_devices(
    project: Project, patches: Sequence[Path], given: tuple[str, ...], workloads: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the given devices; if none are given, the devices of the project's table.

    Raises UsageError for an unknown device or workload.
    """
    project.check_profiles()
    known = device_names(project.profiles)
    names = only_known(given, known, "device", "--device")
    names = names or only_known(project.judged_devices, known, "device", project.where("devices"))
    for name in names:
        load_profile(name, project.profiles)
    for path in patches:
        known = [*workloads_with(path, project), *model_names()]
        # Some checks bring a workload of their own.
        own = [each.workload for each in all_checks().values() if each.workload]
        only_known(workloads, known + own, "workload", "--workload")
        only_known(project.chosen_workloads, known, "workload", project.where("workloads"))
    return names


def devices_here(
    project: Project, patches: Sequence[Path], given: tuple[str, ...], workloads: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the devices of `known_devices`, to be judged on this machine.

    Raises UsageError for a real device if no driver of a GPU exists. Torch would notice this only
    after all else was judged, and its error would be about a process of patchgate's.
    """
    names = known_devices(project, patches, given, workloads)
    real = [name for name in names if load_profile(name, project.profiles)["kind"] == "real"]
    if real and not any(map(os.path.exists, _DRIVERS)):
        raise UsageError(
            "no GPU on this machine",
            where="--device",
            got=real[0],
            next="leave it out: kernels are judged on a simulated GPU; or see: patchgate doctor",
        )
    return names


def known_checks(given: Sequence[str]) -> tuple[str, ...]:
    """Return the given names of checks and families. One text may hold several, with commas."""
    checks = all_checks()
    known = [*dict.fromkeys([*(check.family for check in checks.values()), *checks])]
    names = tuple(name.strip() for text in given for name in text.split(","))
    return only_known(names, known, "check", "--check")


def chosen_environments(
    project: Project, rows: Sequence[str], problems: Sequence[str], torches: Sequence[str], say: Say
) -> Environments:
    """Return (interpreters, why there is none) by release: for the given rows if there are any,
    otherwise for the releases to judge on.
    """
    if rows or problems:
        return rows_of(rows, project), problems_of(problems)
    if not torches:
        _refuse_unsupported(project)
    return environments_of(torches or default_releases(project), project, say)


def _refuse_unsupported(project: Project) -> None:
    """Raises UsageError if the project requires a torch that is not judged: to judge on another
    torch would be a guess.
    """
    required, rows = torch_range(Path(project.root)), [row.torch for row in load_matrix()]
    if not project.releases and required.specifiers and not required.of(rows):
        raise UsageError(
            f"patchgate judges torch {rows[0]} to {rows[-1]}",
            where=required.where,
            got=str(required),
            next=f"--torch {rows[-1]} judges it there; `patchgate lint` knows other releases",
        )


def environments_of(torches: Sequence[str], project: Project, say: Say) -> Environments:
    """Return (interpreters, why there is none) by release. Each environment has the packages that
    the project needs next to torch.
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
        where = project.where("releases") if torch in project.releases else "--torch"
        if Version(torch) < Version(oldest):
            raise UsageError(
                "too old to be judged",
                where=where,
                got=torch,
                next=f"--torch {oldest}, the oldest judged; `patchgate lint` knows older ones",
            )
        if not SpecifierSet(pythons.get(torch, "")).contains(here):
            missing[torch] = f"torch {torch} runs on Python {pythons[torch]}, this is {here}"
            continue
        home = cached_home(torch, project.requires, package)
        if not (home / "complete").is_file():
            shared = "this project" if package else "every project"
            say(f"installing torch {torch} in {display_path(home)}, once for {shared}")
        try:
            environments[torch] = cached_environment(torch, project.requires, package)
        except NotInstallable as error:
            _refuse_unoffered(error, torch, project, where)
            missing[torch] = str(error)
    return environments, missing


def _refuse_unoffered(error: NotInstallable, torch: str, project: Project, where: str) -> None:
    """Raises UsageError if the package index answered that it lacks a package or release that the
    user named: no later run would find it.

    `where` is the option or key that named the release. If the index lacks a known release of
    torch, the fault lies with this machine, and nothing is raised.
    """
    if error.package == "torch" and torch not in (known := _known_releases()):
        older = [each for each in known if Version(each) < Version(torch)]
        raise UsageError(
            "no such release of torch", where=where, got=torch, next=f"did you mean {older[-1]}?"
        )
    for each in project.requires:
        if canonicalize_name(Requirement(each).name) == error.package:
            raise UsageError(
                "the package index has no such package or release",
                where="--requires, or `requires` of the table",
                got=each,
                next="another name or range",
            )


def _known_releases() -> list[str]:
    """The releases of the matrix and of lint's index, oldest first."""
    from patchgate.lint.index.release import releases  # a table of 2 MB

    return sorted({*releases(), *(row.torch for row in load_matrix())}, key=Version)


def _refuse_unpublished(torch: str) -> None:
    """Raises UsageError for a version far beyond the newest known release.

    The network is not asked, so the next few minor releases and the next major one are let pass:
    they may exist by now.
    """
    version, newest = Version(torch), Version(_known_releases()[-1])
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
    """Return the project with the named models and the packages that they need next to torch, and
    the names of workloads, with each model replaced by its workloads.

    A file on the command line is relative to the working directory. Raises UsageError for an
    unknown model.
    """
    root = Path(project.root)
    for model in project.models:
        model_path(model, root, where=project.where("models"))
    named: dict[str, None] = {}
    models = dict.fromkeys(project.models)
    for name in names:
        is_file = name.endswith(".toml")
        model = os.path.relpath(model_path(name), root) if is_file else name
        is_model = is_file or name in model_names()
        models |= dict.fromkeys([model] if is_model else models_of([name]))
        named |= dict.fromkeys(model_workloads([model], root) if is_model else [name])
    requires = dict.fromkeys([*project.requires, *model_requires(models, root)])
    return replace(project, models=tuple(models), requires=tuple(requires)), tuple(named)


def requirements_of(given: Iterable[str]) -> tuple[str, ...]:
    """The requirements of `--requires`. Raises UsageError for one that pip does not take."""
    try:
        return tuple(map(read_requirement, given))
    except Invalid as error:
        got = ", ".join(given)
        raise UsageError(str(error), where="--requires", got=got, next=_REQUIRES) from None


def with_requirements(project: Project, requires: Sequence[str], rows: Sequence[str]) -> Project:
    """Return the project, with `requires` added to the packages that are installed next to torch.

    Raises UsageError if there are `rows` too: nothing is installed in the user's own interpreters.
    """
    if requires and rows:
        raise UsageError(
            "nothing is installed for an interpreter that is given",
            where="--requires",
            got=f"--row {' '.join(rows)}",
            next="--torch RELEASE in place of --row",
        )
    return replace(project, requires=tuple(dict.fromkeys([*project.requires, *requires])))


def _package_of(project: Project) -> Path | None:
    """The folder of the package that the project's `install` names; None if `install` is empty.
    Raises UsageError if the folder has neither a pyproject.toml nor a setup.py.
    """
    if not project.install:
        return None
    package = project.at(project.install)
    if not any((package / name).is_file() for name in ("pyproject.toml", "setup.py")):
        raise project.fault(
            "install",
            "not a package that pip installs",
            f"{display_path(package)} without pyproject.toml or setup.py",
            'install = ".", or put it on the `path`',
        )
    return package


def rows_of(given: Iterable[str], project: Project | None = None) -> dict[str, str]:
    """Return the interpreter of each row. It must have the packages that the project's models need.

    Raises UsageError if an interpreter cannot be used, if its torch differs from its label, or if
    it lacks such a package.
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
                raise UsageError(
                    "this interpreter lacks a package that a model needs",
                    where="--row",
                    got=(
                        f"{torch}={python}, with {Requirement(each).name} {version or 'missing'}; "
                        f"a model needs {each}"
                    ),
                    next=f"--torch {torch} in place of --row makes an environment that has it",
                )
    return rows


def problems_of(given: Iterable[str]) -> dict[str, str]:
    """The reason for each row that has no environment."""
    return pairs_of(given, "--problem")


def pairs_of(given: Iterable[str], option: str) -> dict[str, str]:
    """Return the values of `TORCH=VALUE` texts by torch. Raises UsageError for another form."""
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
    # The interpreter is started from another folder. Its path is not resolved, because the
    # interpreter of a venv is a link.
    python = str(Path(python).absolute()) if os.sep in python else python
    has = read_environment(python)["torch"]
    # The text after a plus names the kind of build, or the commit that is laid over it: it does not
    # make another release.
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
    except ValueError:
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
    """Delete the folder with the results of earlier runs, and return its path.

    Raises UsageError if the folder is used for something else.
    """
    make_results_folder(folder, "--folder", mark=NAME)
    refuse_links(folder.resolve())
    shutil.rmtree(folder, ignore_errors=True)
    return str(folder.resolve())
