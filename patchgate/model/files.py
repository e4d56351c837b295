"""Write files as a whole, so that a reader sees either the old text or the new text; read files
with limits; make folders of results.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path
from typing import BinaryIO

from patchgate.model.errors import UsageError
from patchgate.model.git import GitFailed, is_in_repository, run_git
from patchgate.model.paths import display_path, leaves_project


def write_atomically(path: Path, content: str | bytes, *, lasting: bool = True) -> None:
    """Replace `path` with `content`; on any failure the old file stays as it was.

    If the file must be `lasting`, wait for the disk, so that the file survives a loss of power. A
    character that UTF-8 cannot encode (half a surrogate pair, from a patch's own message) is
    written as an escape.
    """
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    try:
        try:
            # The file gets a name when it is complete, so that nothing is left if its writer is
            # killed.
            with open(os.open(path.parent, os.O_TMPFILE | os.O_WRONLY, 0o644), "wb") as file:
                _fill(file, data, lasting)
                # Python follows the link only if `src_dir_fd` is given, which has no effect on an
                # absolute path.
                os.link(
                    f"/proc/self/fd/{file.fileno()}",
                    temporary,
                    src_dir_fd=file.fileno(),
                    follow_symlinks=True,
                )
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            with open(temporary, "xb") as file:  # on a file system without O_TMPFILE
                _fill(file, data, lasting)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _fill(file: BinaryIO, data: bytes, lasting: bool) -> None:
    file.write(data)
    file.flush()
    os.fchmod(file.fileno(), 0o644)
    if lasting:
        os.fsync(file.fileno())


#: Names in a folder of results: the file that its run locks, and the results of an earlier run.
HELD, PUT_ASIDE = ".held", ".earlier"
# The file that reserves space in a run's folder, and its size in bytes.
_RESERVED, _RESERVED_BYTES = ".reserved", 16 << 20


def reserve_space(folder: Path) -> None:
    """Take space in a folder, so that a report can be written there once the disk is full.

    Raises OSError if the disk is full already; other errors are ignored.
    """
    try:
        with open(folder / _RESERVED, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, _RESERVED_BYTES)
    except OSError as error:
        release_space(folder)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(
                error.errno,
                f"{error.strerror}; a run needs {_RESERVED_BYTES >> 20} MiB below",
                display_path(folder),
            ) from None


def release_space(folder: Path) -> None:
    """Give back the reserved space."""
    with contextlib.suppress(OSError):
        (folder / _RESERVED).unlink(missing_ok=True)


# The most bytes of a text that people write: a manifest, a golden file, a workload.
_TEXT_BYTES = 16 << 20


def read_regular(path: Path, limit: int, flags: int = 0) -> bytes:
    """The bytes of a file.

    Raises OSError if it is no regular file (a folder, a pipe), or is larger than `limit` bytes.
    """
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit >> 20} MiB", str(path))
    return data


# The most bytes of one file of a run's results.
_RESULT_BYTES = 64 << 20


def read_result(path: Path) -> str:
    """Return the text of a file of a run's results, which may be untrusted.

    Raises OSError for a link, for anything but a regular file and for a file that is too large, and
    ValueError for a text that is not UTF-8.
    """
    try:
        return read_regular(path, _RESULT_BYTES, os.O_NOFOLLOW).decode()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(error.errno, "a link", str(path)) from None
        raise


def read_text(path: Path, next: str = "") -> str:
    """The text of a file in UTF-8.

    Raises UsageError if the file cannot be read, or names the first line that is not UTF-8.
    """
    data = read_bytes(path, next)
    try:
        return data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            "not UTF-8",
            where=f"{display_path(path)}:{line}",
            got=str(error),
            next=next or "save the file as UTF-8",
        ) from None


def read_bytes(path: Path, next: str = "") -> bytes:
    """Return the bytes of a file of a project, which may be untrusted.

    Raises UsageError for anything but a file, and for a link that leads out of the repository.
    """
    refuse_outer_link(path)
    try:
        return read_regular(path, _TEXT_BYTES)
    except OSError as error:
        got = error.strerror or str(error)
        raise UsageError("cannot be read", where=display_path(path), got=got, next=next) from None


def refuse_outer_link(path: Path) -> None:
    """Raise UsageError for a link that leads out of the repository: a message, or a patch, could
    show the target of the link. Folders of the path below the working folder are checked too.
    """
    here = Path.cwd()
    around = [folder for folder in path.absolute().parents if here in folder.parents]
    for place in (path, *around):
        if place.is_symlink() and leaves_project(place, place.parent):
            raise UsageError(
                "a link out of the repository",
                where=str(place),
                got=str(place.resolve()),
                next="the path of the file itself, or a copy of it",
            )


def make_folder(path: Path, where: str) -> None:
    """Make a folder that will be written to.

    Raises UsageError if that fails; `where` names the option that asked for it.
    """
    import tempfile

    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise UsageError(
            "no folder that can be written to",
            where=where,
            got=f"{path}: {error.strerror or error}",
            next=f"another {where}",
        ) from None


def refuse_tracked(path: Path) -> None:
    """Raise UsageError if git tracks the results: a pull request could bring its own verdicts and
    its own cache.
    """
    if not os.path.lexists(path) or not is_in_repository(path.parent):
        return
    try:
        found = run_git(path.parent, "ls-files", "--", path.name).decode(errors="replace")
    except FileNotFoundError:  # no git on this machine: SECURITY.md says so
        return
    except GitFailed as error:
        raise UsageError(
            "results, and git does not say if they are part of the repository",
            where=str(path),
            got=str(error),
            next=f"see what `git ls-files` says here, or write results elsewhere than {path}",
        ) from None
    if found:
        raise UsageError(
            "results that are part of the repository",
            where=str(path),
            got=found.splitlines()[0],
            next=f"git rm -r --cached {path}, delete it, and add it to .gitignore",
        )


#: How deeply folders of results are nested: .patchgate, gate, the patch, observations.
_DEPTH = 3


def refuse_links(folder: Path, depth: int = _DEPTH) -> None:
    """Raise UsageError for a link in place of a folder of results or inside it, because the target
    would be deleted; and for a pipe or device, because reading it could wait for ever.
    """
    places = [(folder, 0)]
    while places:
        place, level = places.pop()
        what, got = "", "a pipe, socket or device"
        if place.is_symlink():
            what, got = "a link among results", f"a link to {place.readlink()}"
        elif os.path.lexists(place) and not place.is_dir():
            what = "no file among results"
        if what:
            advice = f"delete it: rm {display_path(place.parent)}/{place.name}"
            raise UsageError(what, where=str(place), got=got, next=advice)
        if level < depth and place.is_dir():
            with os.scandir(place) as entries:
                found = [entry for entry in entries if not entry.is_file(follow_symlinks=False)]
            places += [(Path(entry.path), level + 1) for entry in found]


def make_results_folder(path: Path, where: str, mark: str) -> None:
    """Make a folder whose contents a run will replace.

    Raises UsageError if the folder has contents, but no file `mark` in it or, as in a run of
    several patches, in one of its folders.
    """
    refuse_tracked(path)
    make_folder(path, where)
    found = sorted(
        each.name for each in path.iterdir() if each.name not in (HELD, PUT_ASIDE, _RESERVED)
    )
    if found and mark not in found and not any(path.glob(f"*/{mark}")):
        raise UsageError(
            "not results of a run, and would be deleted",
            where=where,
            got=f"{path} holds {', '.join(found[:3])}{', ...' if len(found) > 3 else ''}",
            next=f"another {where}",
        )


def delete(path: Path) -> None:
    """Remove a file, a link without its target, or a folder with everything below it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
