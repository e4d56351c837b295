"""The digest of each file of an index: half an index would find names missing that are there."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from patchgate.model.errors import UsageError

DIGESTS = "digests.txt"


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:16]


class CheckedFiles:
    """The files below a folder, each as it was written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            lines = (folder / DIGESTS).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            lines = []
        #: Path below the folder -> digest.
        self._digests = {path: each for each, _, path in (line.partition(" ") for line in lines)}
        if "releases.txt" not in self._digests and (folder / "releases.txt").exists():
            raise self._damaged(DIGESTS)

    def text(self, path: str) -> str:
        """A file of the index, empty for one that it does not have. Raises UsageError for one that has changed."""
        wanted = self._digests.get(path)
        if wanted is None:
            return ""
        try:
            data = (self._folder / path).read_bytes()
        except OSError:
            raise self._damaged(path) from None
        if digest(data) != wanted:
            raise self._damaged(path)
        return data.decode("utf-8")

    def below(self, folder: str) -> list[str]:
        """The paths of the files in one folder."""
        return [path for path in self._digests if path.startswith(f"{folder}/")]

    def _damaged(self, path: str) -> UsageError:
        got = "cut short, changed or missing: names that are there would be called missing"
        advice = "install patchgate anew; of an index of your own: patchgate index add"
        return UsageError("a damaged index of torch's API", where=str(self._folder / path), got=got, next=advice)
