"""Write files as people do, and read how they are refused."""

import pytest

from patchgate.model.errors import UsageError


def write(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def manifest(folder, text):
    return write(folder, "patch.toml", text)


def refused(call, *arguments):
    """Return the error that the user reads."""
    with pytest.raises(UsageError) as error:
        call(*arguments)
    return str(error.value)
