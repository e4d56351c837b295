"""Content keys of the cache: digests of everything that could make a new measurement differ.

Inductor's options are left out: no variable that sets one reaches the probe, so the build of torch
decides them.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from patchgate.inputs.manifest import Patch
from patchgate.model.errors import UsageError
from patchgate.model.paths import MODELS, PACKAGE, WORKLOADS, leaves_project
from patchgate.runner.environment_variables import deciding_variables, inherited_variables

# This program runs in the torch environment. It finds torch without importing it, and reads its
# sources, because a torch that is built or edited in place keeps its version.
_ASK = """
import sys
sys.path[:] = filter(None, sys.path)  # not the working folder, which may be a stranger's
loaded = [*sys.modules.values()]  # by sitecustomize, or by a line of a .pth file
import glob, hashlib, importlib.metadata, importlib.util, json, os, platform, re, site, sysconfig
def version(name):
    try: return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError: return "none"
def origin(name):
    spec = importlib.util.find_spec(name)
    return spec.origin if spec else None
if not origin("torch"):
    print("null")
    raise SystemExit
def content(path):  # of a large library the size and the head, where linkers write a build's digest
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        is_whole = path.endswith((".py", ".pth")) or size <= 1 << 20
        return str(size).encode() + b"\\0" + file.read(-1 if is_whole else 1 << 12)
def digest(paths, folder):
    files = hashlib.sha256()
    for path in sorted(paths):
        files.update(path[len(folder):].encode() + b"\\0" + content(path) + b"\\0")
    return files.hexdigest()
def below(folder, but):
    for place, folders, files in os.walk(folder, followlinks=folder in packages):
        folders[:] = [each for each in folders if each not in but
            and os.path.join(place, each) not in packages]
        # Another process may be writing bytecode, under a name that ends with a number.
        paths = (os.path.join(place, each) for each in files
            if not re.search(r"\\.pyc(\\.\\d+)?$", each))
        yield from filter(os.path.isfile, paths)
def package(name):
    file = origin(name)
    if not file or not os.path.isfile(file):
        return ""
    folder = os.path.dirname(file)
    if os.path.basename(file) != "__init__.py":
        return digest([file], folder)
    packages.add(folder)
    return digest(below(folder, ()), folder)
def modules(folder, *but):
    return digest((path for path in below(folder, but) if path.endswith((".py", ".so"))), folder)
packages = set()
# What Python runs as it starts.
folders = [*site.getsitepackages(), *[site.getusersitepackages()] * bool(site.ENABLE_USER_SITE)]
starts = [digest(glob.glob(glob.escape(each) + "/*.pth"), each) for each in folders]
files = {getattr(module, "__file__", None) or "" for module in loaded}
with open("/proc/self/maps") as maps:  # the interpreter, and the C library among others
    files |= {each[5].strip() for each in (line.split(None, 5) for line in maps)
        if len(each) == 6 and "x" in each[1]}
starts += sorted(digest([path], os.path.dirname(path)) for path in filter(os.path.isfile, files))
found = [*importlib.metadata.distributions()]
devices = {point.module.partition(".")[0] for d in found
    if "[torch.backends]" in (d.read_text("entry_points.txt") or "")
    for point in d.entry_points if point.group == "torch.backends"}
# Next to torch, what Inductor computes with, and devices that `import torch` makes known.
ran = ["torch", "triton", "sympy", "mpmath", "networkx", "numpy", "jinja2", *sorted(devices)]
sources = [*map(package, ran)]
# Everything else that these, or a workload, may import: an edit of it makes another torch, and so
# does what was installed afterwards, or in another version.
places = sysconfig.get_paths()
sources += [modules(places[each], "site-packages", "dist-packages", "test")
    for each in ("stdlib", "platstdlib")]
sources += [modules(each) for each in folders]
def named(d):  # its name and version, without what parses all of its metadata as an e-mail
    text = d.read_text("METADATA") or d.read_text("PKG-INFO") or ""
    head = text.partition("\\n\\n")[0].splitlines()
    return [line for line in head if line.startswith(("Name:", "Version:"))]
installed = sorted({(*named(d), *(d.read_text(each) or "" for each in
    ("direct_url.json", "entry_points.txt"))) for d in found})
print(json.dumps({"torch": version("torch"), "triton": version("triton"),
    "python": sys.version, "machine": platform.machine(),
    "libc": " ".join(platform.libc_ver()),
    "home": os.path.dirname(os.path.dirname(origin("torch"))),
    "sources": " ".join(sources), "starts": " ".join(starts),
    "installed": hashlib.sha256(json.dumps(installed).encode()).hexdigest()}))
"""
# A disk that is busy with an install is slow to start Python.
_ASK_SECONDS = 120


@cache
def read_environment(python: str) -> dict[str, str]:
    """Read the versions of a torch environment, the digests of torch's files, and the folder from
    which a server imports torch ("home").
    """
    try:
        ended = subprocess.run(
            [python, "-c", _ASK],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ASK_SECONDS,
            env=inherited_variables(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _no_torch("no interpreter that can be started", f"{python}: {error}") from None
    try:
        environment: dict[str, str] | None = json.loads(ended.stdout)
    except ValueError:
        said = (ended.stderr or ended.stdout).strip().splitlines()[-1:]
        told = (
            said[0][:200]
            if said
            else f"it printed nothing and ended with status {ended.returncode}"
        )
        raise _no_torch("not a Python that reports its torch", f"{python}: {told}") from None
    if not isinstance(environment, dict):
        raise _no_torch("no torch in this environment", python)
    return environment


def _no_torch(what: str, got: str) -> UsageError:
    return UsageError(
        what,
        where="--row",
        got=got,
        next="--row TORCH=PYTHON with a Python that can `import torch`",
    )


def environment_digest(python: str) -> str:
    """A digest of an environment. It is equal wherever the same torch is installed and the same
    compiler is found.
    """
    known = {name: value for name, value in read_environment(python).items() if name != "home"}
    return _digest([known, deciding_variables(), _compiler()])


# The programs that g++ calls.
_PARTS_OF_COMPILER = ("cc1plus", "collect2", "as", "ld")


@cache
def _compiler() -> list[str]:
    """The name and version that the C++ compiler on the path reports, and digests of its programs;
    an empty list if there is no compiler.
    """
    found = shutil.which("g++")
    if not found:
        return []
    asked = ("--version", *(f"-print-prog-name={name}" for name in _PARTS_OF_COMPILER))
    reported, *parts = (_reported_by(found, argument) for argument in asked)
    programs = filter(None, map(shutil.which, (found, *parts)))
    return [reported, *map(_head, map(Path, programs))]


def _reported_by(program: str, argument: str) -> str:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        command, variables = [program, argument], inherited_variables()
        ended = subprocess.run(command, capture_output=True, timeout=_ASK_SECONDS, env=variables)
        return ended.stdout.decode(errors="replace").strip()
    return ""


def _head(program: Path) -> str:
    """A digest of the size of a program and of its first MiB, where linkers write a build's
    digest.
    """
    with open(program, "rb") as file:
        data = file.read(1 << 20)
    size = program.stat().st_size
    return _digest([size, hashlib.sha256(data).hexdigest()])


# Questions about the code that is generated for a profile. Their answers are the same on every
# processor, because the code is not run.
_GENERATED = ("observe", "options", "shapes", "code")
# Keys of a question that are not part of its content key: the places of the answer, of compiled
# C++, and of the workload, whose content is part of the key.
_PLACES = ("libraries", "outputs", "workload_path")
_CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def answer_key(request: Mapping[str, Any], identity: str) -> str | None:
    """Return the content key of an answer. None for questions that no key covers: about a real
    device, a time, a project's own code or a second patch.

    `identity` is the digest of the environment and the patch.
    """
    profile = request.get("profile", {})
    files = [Path(path) for path in (request.get("workload_path"), profile.get("plugin")) if path]
    if (
        profile.get("kind") == "real"
        or request["do"] == "time"
        or request.get("after")
        or not all(map(stands_alone, files))
    ):
        return None
    try:
        processor = [] if request["do"] in _GENERATED else _cpu()
    except OSError:
        return None
    question = {name: value for name, value in request.items() if name not in _PLACES}
    variables = request.get("env", {}).items()
    question["env"] = {name: value for name, value in variables if name not in _CACHES}
    return _digest([question, identity, _probe_digest(), processor, [*map(_file, files)]])


# Lines of /proc/self/status: what a process may do here, which its children inherit.
_RIGHTS = ("Uid", "Gid", "Groups", "Umask", "Cap", "NoNewPrivs", "Seccomp")


def machine_digest() -> str:
    """Hash this machine, this user and everything that the user's processes inherit. A patch may
    read all of this in more ways than a key could name.
    """
    cores = sorted(os.sched_getaffinity(0))
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    inherited = [
        os.environ.get("PATH"),
        os.getpriority(os.PRIO_PROCESS, 0),
        Path("/proc/self/limits").read_text(encoding="utf-8"),
        [line for line in status if line.startswith(_RIGHTS)],
    ]
    return _digest([platform.node(), platform.release(), os.cpu_count(), cores, inherited])


@cache
def _probe_digest() -> str:
    return files_digest(PACKAGE / "probe")


@cache
def _cpu() -> list[str]:
    """The names and the features of the processors."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return sorted({line for line in lines if line.startswith(("model name", "flags"))})


def stands_alone(file: Path, *others: str) -> bool:
    """True if a file needs nothing but torch, Python's own modules, the probe (which the keys
    cover), and `others`.

    `others` are names of modules. With "files" among them, the file may also open files.
    """
    if (
        file.suffix == ".toml"
    ):  # a model: the environment's identity covers the libraries of our own models
        return not is_foreign(str(file))
    return _needs(file.read_bytes()) <= {
        "torch",
        "triton",
        "patchgate",
        *others,
        *sys.stdlib_module_names,
    }


def knows_its_place(file: Path) -> bool:
    """True if a source may ask for its own path."""
    return file.suffix == ".py" and not {"files", "?"}.isdisjoint(_needs(file.read_bytes()))


# Names with which a source imports a module given as a string, and names that open a file.
_IMPORTERS = {
    "import_module",
    "__import__",
    "run_path",
    "run_module",
    "exec",
    "spec_from_file_location",
    "resolve_name",
}
_OPENERS = {"__file__", "open", "read_text", "read_bytes", "CDLL", "LoadLibrary", "load_library"}
# Names with which a source examines files without opening them, or lets C code or another process
# read them: the child does not notice such reads.
_UNSEEN = {
    *("exists", "lexists", "is_file", "isfile", "is_dir", "isdir", "is_symlink", "islink"),
    *("stat", "lstat", "getmtime", "getctime", "getsize", "access", "readlink", "find_spec"),
    *("which", "statvfs", "disk_usage", "samefile", "is_mount", "ismount"),
    *("cpp_extension", "from_file", "jit.load", "multiprocessing", "sqlite3"),
}


@cache  # each key of a run needs the answers for a few files
def _needs(source: bytes) -> frozenset[str]:
    """Return the packages that a source imports, plus "files" if it may open files and "?" if it
    cannot be analysed.
    """
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        return frozenset("?")
    calls = [
        node for node in nodes if isinstance(node, ast.Call) and _name(node.func) in _IMPORTERS
    ]
    called = {id(call.func) for call in calls}
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {"?" if node.level else node.module or "?" for node in imports} | set(
        map(_first_text, calls)
    )
    names |= {"?" for node in nodes if _name(node) in _IMPORTERS and id(node) not in called}
    names |= {
        "?" for node in imports for alias in node.names if alias.asname and alias.name in _IMPORTERS
    }
    names |= {"files" for node in nodes if _name(node) in _OPENERS}
    names |= {"?" for node in nodes if _UNSEEN.intersection(_mentioned(node))}
    return frozenset(name.partition(".")[0] for name in names)


def _name(node: ast.AST) -> str:
    """The last name of an expression; empty if it has none."""
    return (
        node.attr
        if isinstance(node, ast.Attribute)
        else node.id
        if isinstance(node, ast.Name)
        else ""
    )


def _mentioned(node: ast.AST) -> Iterator[str]:
    """The names in an expression or an import. An attribute is given alone and with the name before
    it.
    """
    yield _name(node)
    if isinstance(node, ast.Attribute):
        yield f"{_name(node.value)}.{node.attr}"
    if isinstance(node, ast.ImportFrom):
        yield from (node.module or "").split(".")
    if isinstance(node, ast.alias):
        yield from node.name.split(".")


def _first_text(call: ast.Call) -> str:
    named = call.args[0] if call.args else None
    return named.value if isinstance(named, ast.Constant) and isinstance(named.value, str) else "?"


def is_foreign(workload_path: str) -> bool:
    """True if a workload comes with a patch or a project, so that it is trusted as little as a
    patch.
    """
    return not any(
        Path(workload_path).resolve().is_relative_to(place) for place in (WORKLOADS, MODELS)
    )


def patch_digest(patch: Patch) -> str:
    """Hash the patch's file and manifest, and the files that it may import or read.

    For a patch in a folder of its own, these are all files below the folder. For a single file,
    they are every module of the package around it, and the files next to it that it names. Both
    include the files that the patch names in the project's import folders.
    """
    return _digests(patch_files(patch), Path(patch.path).parent)


def text_digest(patch: Patch) -> str:
    """Hash the text of a patch and its manifest, to notice later edits."""
    manifest = Path(patch.manifest) if patch.manifest else None
    claims = manifest.read_bytes().hex() if manifest and manifest.is_file() else ""
    return _digest([patch.source, patch.diff, claims])


def loaded_digest(patch: Patch) -> str:
    """Hash how a patch is loaded, and its files. The manifest counts only if a file mentions TOML.

    Used within one `--watch` only, because a patch may hide that it reads its manifest.
    """
    claims, manifest = patch.claims, Path(patch.manifest or patch.path).resolve()
    files = [path for path in patch_files(patch) if path.resolve() != manifest]
    if not patch.manifest or any(b"toml" in path.read_bytes() for path in files):
        files.append(manifest)
    how = [claims.apply, claims.scope, patch.stubs, claims.environment, claims.part_of]
    return _digest([_digests(files, Path(patch.path).parent), how])


def patch_files(patch: Patch) -> list[Path]:
    """The files of `patch_digest`, in order, without links that lead out of the repository."""
    path = Path(patch.path)
    named = [
        place
        for folder in map(Path, patch.paths)
        for place in folder.glob("*")
        if place.stem in patch.source
    ]
    imported = [
        file for place in named for file in (place.rglob("*.py") if place.is_dir() else [place])
    ]
    if path.stem == "patch":
        return _readable([*path.parent.rglob("*"), *imported], path.parent)
    packages = [folder for folder in path.parents if (folder / "__init__.py").is_file()]
    beside = [
        each
        for each in path.parent.glob("*")
        if (each.stem if each.suffix == ".py" else each.name) in patch.source
    ]
    own = [*beside, *(packages[-1].rglob("*.py") if packages else ())]
    return _readable([*own, *imported, path, Path(patch.manifest or path)], path.parent)


def files_digest(folder: Path) -> str:
    """Hash every file below a folder, except behind links that lead out of the repository."""
    return _digests(_readable(folder.rglob("*"), folder), folder)


def _readable(paths: Iterable[Path], folder: Path) -> list[Path]:
    # Sorted as texts, because comparing paths part by part takes longer than reading the files.
    found = [
        path
        for path in sorted(set(paths), key=os.fspath)
        if path.is_file() and path.suffix != ".pyc"
    ]
    return [path for path in found if not (path.is_symlink() and leaves_project(path, folder))]


def _digests(files: Iterable[Path], folder: Path) -> str:
    root = f"{folder}{os.sep}"
    names = [(str(path), path) for path in files]
    return _digest(
        [
            [
                name[len(root) :] if name.startswith(root) else os.path.relpath(name, folder),
                _file(path),
            ]
            for name, path in names
        ]
    )


def _file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
