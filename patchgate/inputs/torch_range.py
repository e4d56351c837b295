"""Finds the torch releases that a project supports. It reads the requirements in the project's own
files and runs none of them.

Of the folders above a path, the nearest folder with files that name torch decides. In this folder,
the first kind of file that names torch decides.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.markers import Marker
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from patchgate.inputs.matrix import load_matrix
from patchgate.inputs.patch_source import Unreadable, parse
from patchgate.inputs.toml import read_toml, table_around
from patchgate.model.errors import UsageError
from patchgate.model.paths import display_path
from patchgate.model.records import record

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from patchgate.inputs.project import Project

# A requirement of torch or triton: the name, then a specifier (perhaps in parentheses) or an
# address, then perhaps a marker.
_TORCH, _TRITON = (
    re.compile(name + r"\s*(?![\w.\[-])(?:\(([^()]*)\)|@.*|([^;()]*))\s*(?:;.*)?", re.S)
    for name in ("torch", "(?:pytorch-)?triton")
)
_COMMENT = re.compile(r"(^|\s)#.*|\s--hash.*")

# Platforms with wheels of torch: `sys_platform`, `platform_system`, `platform_machine`.
_PLATFORMS = (
    *(("linux", "Linux", machine) for machine in ("x86_64", "aarch64")),
    ("darwin", "Darwin", "arm64"),
    ("win32", "Windows", "AMD64"),
)

# Patterns for the folders of a repository's packages; folders in `_ASIDE` are no packages.
_PACKAGES, _STATING = ("*/", "*/*/"), ("pyproject.toml", "setup.cfg", "setup.py")
_ASIDE = frozenset({"tests", "test", "docs", "examples", "benchmarks", "third_party"})
_WHEEL = re.compile(r"torch\s*@.*/torch-(\d[\d.]*)[^/]*\.whl")

# Files with one requirement on each line, and files of conda environments.
_REQUIREMENTS = (
    "*requirements*.txt",
    "*requirements*.in",
    "requirements/*.txt",
    "constraints*.txt",
)
_ENVIRONMENTS = ("environment*.y*ml", "conda*.y*ml")
_IN_ENVIRONMENT = re.compile(
    r"^\s*-\s*[\"']?(?:[\w-]+::)?(?:py)?torch\s*([=<>~]=?)\s*(\d[\d.]*)", re.M
)
# A phrase in a README that names the version of torch to install.
_ADVICE = re.compile(
    r"\b(?:[Pp]y)?[Tt]orch(?:\](?:\([^()\n]*\))?|\*\*)?\s*(==|>=|~=|≥)?\s*v?(\d+\.\d+(?:\.\d+)?)"
    r"(\+(?!\w)| or (?:later|newer|higher|above))?"
)
# Names of requirements files that do not concern the package itself.
_OF_DOCUMENTATION = re.compile(r"(?i)doc|sphinx|rtd")
# A pin to a nightly or a release candidate; it stands for the whole minor version.
_PRERELEASE = re.compile(r"(===?)\s*v?(\d+\.\d+)(?:\.\d+)*\.?(?:dev|a|b|rc)\d*(?:\+[\w.]+)?")

# Pairs of requirements and the file that states them.
Stated = Iterator[tuple[Iterable[object], Path]]


@record
class TorchRange:
    """The releases that at least one of the specifiers allows; without specifiers, all releases.

    `where` is the file that states the specifiers.
    """

    specifiers: tuple[str, ...] = ()
    where: str = ""
    #: True if the specifiers are for triton; each release of torch requires one version of it.
    by_triton: bool = False

    def of(self, known: Sequence[str], tritons: Mapping[str, str] | None = None) -> list[str]:
        """Return the known releases that the range allows. If a pin allows none of them, return the
        known releases of the pin's minor version.

        `tritons` maps each release to the version of triton that it requires.
        """
        if not self.specifiers:
            return list(known)
        if self.by_triton:
            by_torch = TorchRange(specifiers=self.specifiers)
            own = {torch: (tritons or {}).get(torch, "") for torch in known}
            allowed_tritons = by_torch.of(sorted({each for each in own.values() if each}))
            return [torch for torch in known if own[torch] in allowed_tritons] or list(known)
        allowed = [SpecifierSet(each) for each in self.specifiers]

        def allows(torch: str) -> bool:
            return any(each.contains(torch, prereleases=True) for each in allowed)

        exactly = [torch for torch in known if allows(torch)]
        return exactly or [torch for torch in known if any(map(allows, _patches(torch)))]

    def __str__(self) -> str:
        name = "triton" if self.by_triton else "torch"
        return f"{name}{' or '.join(self.specifiers)} in {self.where}" if self.specifiers else ""


def _patches(torch: str) -> Iterator[str]:
    """The releases of one minor version."""
    major, minor = torch.split(".")[:2]
    return (f"{major}.{minor}.{micro}" for micro in range(10))


def torch_range(path: Path) -> TorchRange:
    """The range of torch that the project around a file or folder requires; every release if the
    project requires no torch.
    """
    place = path.resolve()
    if table_around(place) is not None:
        from patchgate.inputs.project import (
            find_project,
        )  # needed only for a table: the import takes a tenth of a second

        project = find_project(place)
        if project.torch_range:
            return TorchRange(
                specifiers=(project.torch_range,),
                where=project.where("torch_range").rpartition(":")[0],
            )
    folder = place if place.is_dir() else place.parent
    required = _around(folder, "")
    if required.specifiers:
        return required
    # If the files name torch without a version, only lower bounds in a README count, because a pin
    # in a README may be an example.
    advised = _advised(folder, bounds_only=bool(required.where))
    return advised if advised.specifiers else required


def default_releases(project: Project, tag: str = "premerge") -> tuple[str, ...]:
    """Return the releases on which a patch is judged: those in the project's table, or else the
    rows of the matrix with the tag `tag` that the project supports.

    If the project supports no row with the tag, return the newest row that it supports.
    """
    return project.releases or _supported_rows(Path(project.root).resolve(), tag)


def source_of_releases(project: Project) -> str:
    """Say in words where a project's default releases come from, and which are left out."""
    if project.releases:
        return f"`releases` in {project.where('releases')}"
    stated = torch_range(Path(project.root))
    if stated.specifiers:
        known = stated.of([row.torch for row in load_matrix()])
        left = [torch for torch in known if torch not in default_releases(project)]
        return f"{stated}" + f"; {', '.join(left)} with --torch" * bool(left)
    return (
        f"any torch in {stated.where}" if stated.where else "no file of the project requires torch"
    )


@cache
def _supported_rows(root: Path, tag: str) -> tuple[str, ...]:
    rows = load_matrix()
    supported = torch_range(root).of([row.torch for row in rows])
    tagged = tuple(row.torch for row in rows if tag in row.tags)
    return tuple(torch for torch in tagged if torch in supported) or tuple(supported[-1:]) or tagged


def range_of_folder(folder: Path) -> TorchRange:
    """The range that a folder's own files state. The folder may be one of several packages in a
    repository, or an example with its own requirements.
    """
    return _around(folder, "", whole=False)


def _around(folder: Path, package: str, named: str = "", *, whole: bool = True) -> TorchRange:
    """The range that a folder states. If it states none and `whole` is set, its parent is searched.

    `package` is the name of the subfolder from which the search came. `named` is a file in a
    subfolder that requires torch without a version.
    """
    kinds = _kinds(folder, package)
    pins = [stated for stated in _requirements(folder) if stated[1].name == "requirements.txt"]
    for wanted, by_triton in ((_TORCH, False), (_TRITON, True)):
        for stated in kinds:
            found = _required(stated, wanted)
            if "" in dict(found):  # any version is allowed; pins may say more
                found = _required(pins, wanted) or found
            if not found:
                continue
            bounds, where = dict(found), display_path(found[0][1])
            # A bare `torch` next to one with bounds allows all releases. Triton's bounds may then
            # say more.
            if "" not in bounds:
                return TorchRange(specifiers=tuple(bounds), where=where, by_triton=by_triton)
            named = named or where
            break
    if not whole or (folder / ".git").exists() or folder.parent == folder:
        return TorchRange(where=named)
    return _around(folder.parent, folder.name, named)


def _kinds(folder: Path, package: str) -> list[list[tuple[list[object], Path]]]:
    """The requirements in a folder's files, grouped by the kind of file."""
    table = _table(folder)
    return [
        [(list(requirements), file) for requirements, file in stated]
        for stated in (
            _overrides(folder, table),
            _dependencies(folder, table),
            _requirements(folder),
            _extras(folder, table),
            _metadata(folder, package),
            _packages(folder),
        )
    ]


def requirements_for(modules: Iterable[str], path: Path) -> list[str]:
    """Return a requirement for each of these modules: the requirement of the module's package that
    the project around `path` states, or else the module's name.

    The name of a package may be longer than the module's name, as in `onnxruntime-gpu`.
    """
    stated, package = dict[str, str](), ""
    for folder in path.resolve().parents:
        for requirements, _ in itertools.chain(*_kinds(folder, package)):
            for required in filter(None, map(_parsed, requirements)):
                stated.setdefault(canonicalize_name(required.name), str(required))
        package = folder.name
        if (folder / ".git").exists():
            break
    found = []
    for module in modules:
        name = canonicalize_name(module)
        longer = (each for each in stated if each.startswith(f"{name}-"))
        found.append(stated.get(name) or stated.get(next(longer, ""), module))
    return found


def _parsed(text: object) -> Requirement | None:
    """A requirement without its marker; None if the text is no requirement, or its marker excludes
    this machine.
    """
    # Imported here, because the import takes longer than linting a small file.
    from packaging.requirements import Requirement

    try:
        required = Requirement(str(text))
    except ValueError:
        return None
    if required.marker and "extra" not in str(required.marker) and not required.marker.evaluate():
        return None
    required.marker = None
    return required


def _required(
    stated: Iterable[tuple[Iterable[object], Path]], wanted: re.Pattern[str]
) -> list[tuple[str, Path]]:
    """The specifiers in these requirements, each with the file that states it."""
    return [
        (each, file) for requirements, file in stated for each in _specifiers(requirements, wanted)
    ]


def _advised(folder: Path, *, bounds_only: bool) -> TorchRange:
    """The range that the nearest README recommends, for a project whose files state no bound."""
    for here in (folder, *folder.parents):
        for file in sorted(here.glob("README*")):
            bounds = {
                f"{sign.replace('≥', '>=') or '>='}{version}": None
                for sign, version, more in _ADVICE.findall(_text(file))
                if (sign or more) and (sign in ("", ">=", "≥") or not bounds_only)
            }
            if bounds:
                return TorchRange(specifiers=tuple(bounds), where=display_path(file))
        if (here / ".git").exists():
            break
    return TorchRange()


def _specifiers(requirements: Iterable[object], wanted: re.Pattern[str]) -> Iterator[str]:
    """The specifiers of torch in these requirements, without local parts: `==2.11.0+cpu` asks for
    2.11.0.
    """
    for text in requirements:
        required = wanted.fullmatch(text) if isinstance(text, str) else None
        if required and _has_wheels(required[0].partition(";")[2]):
            wheel = _WHEEL.match(required[0])
            try:
                specifier = f"=={wheel[1]}" if wheel else required[1] or required[2] or ""
                yield re.sub(
                    r"\+[\w.]+", "", str(SpecifierSet(_PRERELEASE.sub(r"==\2.*", specifier)))
                )
            except ValueError:  # also a number that is too long for Python
                continue


def _has_wheels(marker: str) -> bool:
    """True if a marker allows a platform for which indexed releases have wheels. There are no
    wheels for macOS on Intel.
    """
    if "platform" not in marker or "extra" in marker:
        return True
    try:
        condition = Marker(marker)
    except ValueError:
        return True
    names = "sys_platform", "platform_system", "platform_machine"
    return any(
        condition.evaluate({**dict(zip(names, each, strict=True)), "python_version": f"3.{minor}"})
        for each in _PLATFORMS
        for minor in range(9, 15)
    )


def _overrides(folder: Path, table: Mapping[str, Any]) -> Stated:
    """The overrides and constraints of uv, which have priority over other requirements."""
    uv = _at(table, "tool", "uv")
    for key in ("override-dependencies", "constraint-dependencies"):
        yield _strings(uv.get(key)), folder / "pyproject.toml"


def _dependencies(folder: Path, table: Mapping[str, Any]) -> Stated:
    """The requirements that are installed with a package."""
    yield _strings(_at(table, "project").get("dependencies")), folder / "pyproject.toml"
    yield _of_poetry(_at(table, "tool", "poetry")), folder / "pyproject.toml"
    config, setup = folder / "setup.cfg", folder / "setup.py"
    if config.is_file():
        import configparser

        parser = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            parser.read_string(_text(config))
            yield parser.get("options", "install_requires", fallback="").splitlines(), config
        except configparser.Error:
            pass
    if setup.is_file():
        try:
            tree = parse(_text(setup))
        except Unreadable:
            return
        # Any string may be a requirement, but a bare "torch" may also mean something else.
        yield (
            [
                text
                for node in ast.walk(tree)
                if (text := _string(node)) and text.strip() != "torch"
            ],
            setup,
        )
        yield [f"torch{each}" for each in _demanded(tree)], setup


def _of_poetry(table: Mapping[str, Any]) -> Iterator[str]:
    """The requirements in a table of Poetry, where `^2.6` means `>=2.6,<3`, and `~2.6` means
    `==2.6.*`.
    """
    wanted = _at(table, "dependencies").get("torch")
    for each in wanted if isinstance(wanted, list) else [wanted]:
        text = each.get("version") if isinstance(each, dict) else each
        for bounds in text.split("||") if isinstance(text, str) else ():
            stated = [bound.strip() for bound in bounds.split(",")]
            yield f"torch{','.join(_plain(bound) for bound in stated if bound != '*')}"


def _plain(bound: str) -> str:
    """Convert a bound in Poetry's syntax to PEP 440."""
    sign, version = bound[:1], bound.lstrip("^~= ")
    if sign == "^" and version[:1].isdigit():
        return f">={version},<{int(version.split('.')[0]) + 1}"
    if sign == "~" and not bound.startswith("~="):
        return f"=={'.'.join(version.split('.')[:2])}.*"
    return f"=={version}" if sign.isdigit() else bound


def _demanded(tree: ast.Module) -> Iterator[str]:
    """The range that a setup.py enforces: `if parse(torch.__version__) < parse("2.11"): raise ...`
    means `>=2.11`.
    """
    for node in tree.body:
        test = (
            node.test if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise) else None
        )
        if (
            isinstance(test, ast.Compare)
            and len(test.ops) == 1
            and "torch" in ast.unparse(test.left)
        ):
            opposite = {
                ast.Lt: ">=",
                ast.LtE: ">",
                ast.Gt: "<=",
                ast.GtE: "<",
                ast.NotEq: "==",
            }.get(type(test.ops[0]))
            version = next(
                (text for each in ast.walk(test.comparators[0]) if (text := _string(each))), ""
            )
            if opposite and version:
                yield opposite + version


def _requirements(folder: Path) -> Stated:
    files = sorted(each for pattern in _REQUIREMENTS for each in folder.glob(pattern))
    for file in (each for each in files if not _OF_DOCUMENTATION.search(each.name)):
        yield [_COMMENT.sub("", line).strip() for line in _text(file).splitlines()], file
    for file in sorted(each for pattern in _ENVIRONMENTS for each in folder.glob(pattern)):
        found = _IN_ENVIRONMENT.findall(_text(file))
        pins = [f"=={text}.*" if sign == "=" else f"{sign}{text}" for sign, text in found]
        yield [f"torch{pin}" for pin in pins], file


def _extras(folder: Path, table: Mapping[str, Any]) -> Stated:
    """The requirements of an extra, a dependency group or the build."""
    groups = (
        _at(table, "project", "optional-dependencies"),
        _at(table, "dependency-groups"),
        {"": _at(table, "build-system").get("requires")},
    )
    for group in groups:
        for requirements in group.values():
            yield _strings(requirements), folder / "pyproject.toml"
    poetry = _at(table, "tool", "poetry", "group")
    for name in poetry:
        yield _of_poetry(_at(poetry, name)), folder / "pyproject.toml"


def _metadata(folder: Path, package: str) -> Stated:
    """The metadata of an unpacked distribution: a PKG-INFO, or the METADATA next to an installed
    package.
    """
    files = sorted((*folder.glob("PKG-INFO"), *folder.glob("*.dist-info/METADATA")))
    own = (
        [file for file in files if _normal(file.parent.name).startswith(f"{_normal(package)}-")]
        if package
        else []
    )
    for file in own or (files if len(files) == 1 else ()):
        lines = _text(file).partition("\n\n")[0].splitlines()
        yield (
            [line.partition(":")[2].strip() for line in lines if line.startswith("Requires-Dist:")],
            file,
        )


def _packages(repository: Path) -> Stated:
    """The requirements of the packages in a repository, because a patch may be for any of them.
    They count only if the repository itself states none.
    """
    if (repository / ".git").exists():
        files = (
            file for at in _PACKAGES for name in _STATING for file in repository.glob(at + name)
        )
        for folder in sorted({file.parent.relative_to(repository) for file in files}):
            if not _ASIDE & {*folder.parts}:
                yield from _dependencies(repository / folder, _table(repository / folder))


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _table(folder: Path) -> dict[str, Any]:
    """The tables of a folder's pyproject.toml; empty if the file is missing or broken."""
    file = folder / "pyproject.toml"
    try:
        return read_toml(file) if file.is_file() else {}
    except UsageError:
        return {}


def _at(table: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """The table below these keys; empty if there is none."""
    for key in keys:
        below = table.get(key)
        table = below if isinstance(below, dict) else {}
    return table


def _strings(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _string(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
