"""Device profiles: read by name, refused with the names that there are."""

import pytest
from expecttest import assert_expected_inline

from patchgate.inputs.devices import load_profile, profile_of
from patchgate.model.errors import UsageError


def write(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refused(call, *arguments):
    with pytest.raises(UsageError) as error:
        call(*arguments)
    return str(error.value)


def test_a_profile_is_read_by_its_name(folder):
    write(folder, "tiny.toml", 'name = "Tiny"\n')
    assert load_profile("tiny", folder) == {"name": "Tiny"}


def test_an_unknown_profile_is_refused_with_those_that_there_are(folder):
    write(folder, "tiny.toml", 'name = "Tiny"\n')
    write(folder, "huge.toml", 'name = "Huge"\n')
    assert_expected_inline(
        refused(load_profile, "h200", folder),
        """\
.: no device profile `h200`
  got:  h200
  next: one of: huge, tiny""",
    )


@pytest.mark.parametrize(("device", "profile"), [("NVIDIA H200", "h200"), ("NVIDIA A2", "cuda"), ("", "cuda")])
def test_a_real_device_is_described_by_the_profile_of_its_name(folder, device, profile):
    write(folder, "h200.toml", 'name = "NVIDIA H200"\n')
    assert profile_of(device, otherwise="cuda", folder=folder) == profile
