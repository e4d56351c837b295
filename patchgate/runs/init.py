"""Texts for a new patch: the manifest that its own text suggests, the project's table, GitHub
workflows, and the patches that one file has.

The patch is read, never run. Workflows are filled from `ci/github`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from patchgate.inputs.patch_source import DIFFS, Unreadable, parse, read_source
from patchgate.inputs.project import Project, find_project, is_root, table_keys
from patchgate.inputs.split_patches import Part, find_parts, source_of_part
from patchgate.inputs.toml import OWN_FILE, PYPROJECT, read_toml, with_item
from patchgate.model.errors import UsageError
from patchgate.model.files import write_atomically
from patchgate.model.paths import ROOT, display_path, leaves_project
from patchgate.model.text import counted

# File in ci/github -> its name in the repository of the patch.
_TEMPLATES = {"gate.yml": "patchgate.yml", "comment.yml": "patchgate-comment.yml"}
# Claims of the whole file that hold for each part; the releases of a part are read from its own
# text.
_INHERITED = ("numerics", "error_factor", "largest_ulps", "environment", "stubs")
# A path that a workflow can name: GitHub reads other characters as patterns.
_NAMEABLE = re.compile(r"[\w.][\w./ -]*")
# Patterns: the list of paths that a workflow watches, a word of this list, the listed patches.
_PATHS, _WORD = re.compile(r"(?m)^( *paths: )\[(.*)\]$"), re.compile(r"\"[^\"]*\"|[^\s,]+")
_PATCHES = re.compile(r"(?m)^(      patches:)(.*\n(?:        .*\n)*)")


def inferred_manifest(source: Path, patch: Path, command: str) -> str:
    """The manifest that the text of a patch suggests; `command` judges it.

    Raises UsageError if the text cannot be parsed.
    """
    from patchgate.lint.index.release import load, releases  # every release is read
    from patchgate.lint.infer_manifest import infer_claims, infer_claims_of_diff, manifest_text

    if source.suffix in DIFFS:
        claims = infer_claims_of_diff(read_source(source))
    else:
        try:
            text = read_source(source)
            claims = infer_claims(
                text, parse(text), [load(version) for version in releases()], source.resolve()
            )
        except Unreadable as error:
            raise error.in_file(source) from None
        except RecursionError:
            raise Unreadable(1, "nested too deeply").in_file(source) from None
    name = patch.resolve().name if patch.is_dir() else source.stem
    return manifest_text(claims, source.name, name, command, releases())


def project_files(patch: Path) -> tuple[dict[Path, str], list[str]]:
    """The new texts of the project's files that must name the patch or ignore results, and messages
    for the user.

    Both are empty for a folder that is no project (no git, no pyproject.toml).
    """
    project, path = find_project(patch), patch.resolve()
    root = Path(project.root)
    if project.table is None and not is_root(root):
        return {}, []
    texts, lines = {}, []
    name = path.relative_to(root).as_posix()
    if project.table is None:
        table = table_file(project)
        text, guess = _table(table, name, path)
        texts[table] = f"{table.read_text('utf-8').rstrip()}\n\n{text}" if table.is_file() else text
        lines += [
            f"{display_path(table)}: a table with this patch; every other key has a default "
            "(patchgate explain project)",
            *guess,
        ]
    elif path not in (known.resolve() for known in project.patch_paths()):
        table = table_file(project)
        if longer := with_item(table.read_text("utf-8"), table_keys(table, "patches"), name):
            texts[table] = longer
            lines.append(f"{display_path(table)}: `patches` has this patch too")
        else:
            lines.append(f'{project.where("patches")}: add "{name}" to `patches`')
    ignore = root / ".gitignore"
    ignored = ignore.read_text("utf-8") if ignore.is_file() else ""
    if not {".patchgate", ".patchgate/", "/.patchgate", "/.patchgate/"} & set(ignored.splitlines()):
        texts[ignore] = (
            f"{ignored}{'' if ignored.endswith(chr(10)) or not ignored else chr(10)}.patchgate/\n"
        )
        lines.append(f"{display_path(ignore)}: results go below .patchgate/")
    return texts, lines


def _table(table: Path, name: str, patch: Path) -> tuple[str, list[str]]:
    """The text of a new table, and the guesses in it with their sources."""
    text = (
        f"{'[tool.patchgate]' + chr(10) if table.name == PYPROJECT else ''}patches = "
        f"[{json.dumps(name)}]\n"
    )
    around = [folder for folder in patch.parents if folder.is_relative_to(table.parent)]
    # The outermost: below it a package may have folders without an `__init__.py`.
    package = next(
        (folder for folder in reversed(around) if (folder / "__init__.py").is_file()), None
    )
    if package is None or package == table.parent:
        return text, []
    found = package.parent.relative_to(table.parent).as_posix()
    guess = (
        f"  path = [{json.dumps(found)}]: workloads can import the package `{package.name}` from "
        "there"
    )
    return f"{text}path = [{json.dumps(found)}]\n", [guess]


def workflows(patch: Path, source: Path, called: str, force: bool) -> dict[Path, str]:
    """The workflows of ci/github that judge a pull request and comment on it, for the repository
    around the patch.

    The patch is added to a workflow that exists; the rest of this workflow is rewritten only with
    `force`. `called` is OWNER/REPO@COMMIT of patchgate. Raises UsageError if `called` has another
    form, if there is no repository, or if a workflow cannot name the path.
    """
    repository, commit = _repository_and_commit(called)
    path = patch.resolve()
    root = next((parent for parent in path.parents if (parent / ".git").exists()), None)
    if root is None:
        raise UsageError(
            "nowhere to put a workflow",
            where=display_path(patch),
            got="no git repository around it",
            next="git init, in the folder that shall have the workflows",
        )
    if leaves_project(root / ".github" / "workflows", root):
        raise UsageError(
            "a link out of the repository",
            where=display_path(root / ".github" / "workflows"),
            got=str((root / ".github" / "workflows").resolve()),
            next="a folder in its place",
        )
    name = path.relative_to(root).as_posix()
    if not _NAMEABLE.fullmatch(name):
        raise UsageError(
            "cannot be named in a workflow",
            where=display_path(patch),
            got=name,
            next=(
                "letters, digits, blanks, and . / _ - only: GitHub reads other signs of `paths` "
                "as a pattern"
            ),
        )
    texts = {}
    values = _values(patch, source, root, repository, commit)
    for template, target in _TEMPLATES.items():
        at = root / ".github" / "workflows" / target
        texts[at] = _fill(ROOT / "ci" / "github" / template, values)
        if at.is_file() and template == "gate.yml":
            texts[at] = _with_the_old(at, texts[at], name, force)
        elif at.is_file() and not force:
            texts[at] = at.read_text("utf-8")
    return texts


def _values(patch: Path, source: Path, root: Path, repository: str, commit: str) -> dict[str, str]:
    """The placeholders of the workflows with their values."""
    name = patch.resolve().relative_to(root).as_posix()
    own = f"{name}/**" if patch.is_dir() else f"{name.removesuffix(source.suffix)}.*"
    # A workflow that names no patches judges all patches of the table at the root.
    is_named = table_file(find_project(patch.resolve())).parent != root
    inputs = "    with:\n      patches: PATCH\n      # "
    return {
        **({} if is_named else {inputs: "    # with:\n    #   "}),
        '"PATCH/**", pyproject.toml, patchgate-golden/**': ", ".join(
            json.dumps(each) for each in (own, *_watched(source.resolve(), root, own))
        ),
        "OWNER/patchgate": repository,
        "@COMMIT": f"@{commit}",
        "patches: PATCH": f"patches: {name}",
    }


def _with_the_old(at: Path, new: str, patch: str, force: bool) -> str:
    """The text of a workflow that judges the patch, and everything that the existing workflow
    judges.

    Raises UsageError if the existing workflow lists no paths, unless `force` is true.
    """
    old = at.read_text("utf-8")
    base = new if force else old
    paths = [found[2] for text in (old, new) if (found := _PATHS.search(text))]
    if not force and len(paths) < 2:
        raise UsageError(
            "already exists, and has no line `paths: [...]`",
            where=display_path(at),
            got="a workflow that init did not write",
            next=(
                "add this patch to its `patches` and `paths`, and init it without --workflow; the "
                "same command with --force replaces it"
            ),
        )
    words = dict.fromkeys(word.strip("\"'") for each in paths for word in _WORD.findall(each))
    base = _PATHS.sub(lambda found: f"{found[1]}[{', '.join(map(json.dumps, words))}]", base)
    listed = [line.strip() for found in _PATCHES.finditer(old) for line in found[2].splitlines()]
    names = dict.fromkeys([*(each for each in listed if each not in ("", "|")), patch])
    text = f" {patch}" if len(names) == 1 else "\n        ".join((" |", *names))
    return _PATCHES.sub(lambda found: f"{found[1]}{text}\n", base)


def _watched(source: Path, root: Path, own: str) -> list[str]:
    """Return patterns of the files that decide results, apart from the patch's own pattern `own`:
    the files that importing the patch runs, the project's table, and golden.
    """
    from patchgate.lint.imported_files import files_run_by

    project = find_project(source)
    imported = set[Path]()
    with suppress(Unreadable):  # a verdict says so
        if source.suffix not in DIFFS:
            imported = files_run_by(source, parse(read_source(source)))
    files = [*sorted(imported), table_file(project), project.golden_folder]
    names = [
        each.relative_to(root).as_posix() + "/**" * (each == project.golden_folder)
        for each in files
        if each.is_relative_to(root) and _NAMEABLE.fullmatch(each.relative_to(root).as_posix())
    ]
    return [name for name in names if not name.startswith(own.partition("*")[0])]


def table_file(project: Project) -> Path:
    """The file that has the table of a project, or will have it."""
    root = Path(project.root)
    if project.table is not None:
        return Path(project.table)
    return root / PYPROJECT if (root / PYPROJECT).is_file() else root / OWN_FILE


def _repository_and_commit(called: str) -> tuple[str, str]:
    """Split OWNER/REPO@COMMIT. Raises UsageError for another form."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+@[\w./-]+", called):
        raise UsageError(
            "not OWNER/REPO@COMMIT",
            where="--workflow",
            got=called,
            next=(
                "--workflow OWNER/patchgate@COMMIT, a repository that holds patchgate and the "
                "commit to use"
            ),
        )
    repository, _, commit = called.partition("@")
    if repository == "OWNER/patchgate" or not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise UsageError(
            "not a repository and a whole commit",
            where="--workflow",
            got=called,
            next=(
                "the repository that holds patchgate, and the 40 hex digits that `git rev-parse "
                "HEAD` prints there"
            ),
        )
    return repository, commit


def _fill(template: Path, values: dict[str, str]) -> str:
    """The template with its placeholders replaced, without the comment at its head on how to paste
    it.
    """
    lines = template.read_text("utf-8").splitlines(keepends=True)
    text = "".join(lines[next(at for at, line in enumerate(lines) if not line.startswith("#")) :])
    for placeholder, value in values.items():
        text = text.replace(placeholder, value)
    return text


def gated_parts(
    source: Path,
    manifest: Path,
    folder: Path,
    command: Callable[[Path], str],
    say: Callable[[str], None],
) -> dict[str, str]:
    """Write each part of a file that has a condition of its own as a patch. Return {name: path}.

    `command` gives the command that judges a path; `say` gets a line for each patch.
    """
    text, parts = _parts(source)
    claims = read_toml(manifest) if manifest.is_file() else {}
    inherited = [f"{key} = {json.dumps(claims[key])}\n" for key in _INHERITED if key in claims]
    place = f"part_of = {json.dumps(str(source.resolve()))}\n"
    paths = {}
    for part in parts:
        say(f"{part.name}: lines {part.first} to {part.last} of {display_path(source)}")
        path = folder / "patches" / part.name
        write_atomically(path / "patch.py", source_of_part(text, part, parts))
        inferred = inferred_manifest(path / "patch.py", path, command(path))
        write_atomically(path / "patch.toml", "".join([place, *inherited, inferred]))
        paths[part.name] = str(path)
    return paths


def _parts(source: Path) -> tuple[str, list[Part]]:
    try:
        text = read_source(source)
        found = [] if source.suffix in DIFFS else find_parts(text)
    except Unreadable as error:
        raise error.in_file(source) from None
    if len(found) < 2:
        raise UsageError(
            "only one patch in this file",
            where=display_path(source),
            got=(
                f"at most one call in `apply`, and {counted(len(found), 'part')} with a condition "
                "of their own"
            ),
            next=f"patchgate gate {display_path(source)}",
        )
    return text, found
