"""A unified diff of torch as a patch: its hunks, and the Python file that applies them."""

from __future__ import annotations

import atexit
import functools
import hashlib
import shutil
import tempfile
from pathlib import Path

from patchgate.inputs.patch_source import read_source
from patchgate.model.errors import UsageError
from patchgate.model.files import write_atomically
from patchgate.model.paths import PACKAGE, display_path

# The template of the Python file, which the probe runs like any other patch. It lies in the probe's
# folder, where files may name torch.
_TEMPLATE = PACKAGE / "probe" / "patch" / "diff_patch.txt"


def write_patch(diff: Path, applies_to: str | None) -> Path:
    """Write the Python file that replaces `diff`, and return its path. It is deleted at exit.

    Raises UsageError for a bad diff.
    """
    text = read_source(diff)
    files = parse_hunks(text, display_path(diff))
    listed = "\n".join(f"    {path!r}: {hunks!r}," for path, hunks in files.items())
    source = _TEMPLATE.read_text(encoding="utf-8").format(
        hunks=f"{{\n{listed}\n}}", applies_to=applies_to or "", diff=display_path(diff)
    )
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    path = _folder() / digest / "patch.py"
    if not path.is_file():
        write_atomically(path, source)
    return path


def parse_hunks(text: str, where: str) -> dict[str, list[tuple[int, list[str], list[str], int]]]:
    """File -> a list with (line, old lines, new lines, line in the diff) for each of its hunks.

    Raises UsageError for a diff that contradicts itself.
    """
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet

    def wrong(what: str, got: str) -> UsageError:
        return UsageError(
            what, where=where, got=got, next="a unified diff of .py files below torch/"
        )

    try:
        parsed = PatchSet(text)
    except (UnidiffParseError, ValueError) as error:  # ValueError: a number with too many digits
        raise wrong("not a diff", str(error)[:200]) from None
    hunks = {}
    for file in parsed:
        if not file.path.startswith("torch/") or not file.path.endswith(".py"):
            raise wrong("a diff can change only Python sources of torch", file.path)
        if file.is_added_file or file.is_removed_file:
            raise wrong("a diff that adds or removes a file cannot be applied in memory", file.path)
        hunks[file.path] = [
            (
                hunk.source_start,
                [line.value.rstrip("\r\n") for line in hunk if line.is_context or line.is_removed],
                [line.value.rstrip("\r\n") for line in hunk if line.is_context or line.is_added],
                (hunk[0].diff_line_no or 2) - 1,
            )
            for hunk in file
        ]
    if text.strip() and not any(hunks.values()):
        raise wrong("not a diff", text.strip().splitlines()[0][:80])
    return hunks


@functools.cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="diffs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
