"""What tests of files that people write share: a file with some text, and how it is refused."""

import pytest

from patchgate.model.errors import UsageError


def write(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def manifest(folder, text):
    return write(folder, "patch.toml", text)


def refused(call, *arguments):
    """What the user reads of an error."""
    with pytest.raises(UsageError) as error:
        call(*arguments)
    return str(error.value)
