"""Device profiles: read by name, refused with the names that there are."""

import pytest
from refusals import refused, write

from patchgate.inputs.devices import load_profile, profile_of


def test_a_profile_is_read_by_its_name(folder):
    write(folder, "tiny.toml", 'name = "Tiny"\n')
    assert load_profile("tiny", {"tiny": str(folder / "tiny.toml")}) == {"name": "Tiny"}


def test_whoever_asks_for_a_profile_may_change_it():
    changed = load_profile("h200")
    changed["properties"] |= {"major": 1}
    assert load_profile("h200")["properties"]["major"] == 9


def test_an_unknown_profile_is_refused_with_those_that_there_are(folder):
    own = {"tiny": str(write(folder, "tiny.toml", 'name = "Tiny"\n'))}
    told = refused(load_profile, "nothing", own)
    assert told.splitlines()[0].endswith("no device profile `nothing`")
    assert ("h200" in told, "rtx4090, tiny" in told) == (True, True)
    assert "did you mean `h200`?" in refused(load_profile, "h20", own)


@pytest.mark.parametrize(
    ("device", "profile"),
    [("NVIDIA H200", "h200"), ("NVIDIA A2", "cuda"), ("NPU 9", "npu"), ("", "cuda")],
)
def test_a_real_device_is_described_by_the_profile_of_its_name(folder, device, profile):
    own = {"npu": str(write(folder, "npu.toml", 'name = "NPU 9"\n'))}
    assert profile_of(device, otherwise="cuda", own=own) == profile
