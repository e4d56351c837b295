"""A CPU-only build of torch is told the same as a CUDA build says."""

import fcntl
import json
import subprocess

import pytest

from patchgate.model.paths import PACKAGE

pytestmark = pytest.mark.every_row

ASK = """
import itertools, json, torch
from patchgate.probe.simulate import attention, cpu_build, fake_device

def has(name, key):
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)

both = [name for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::") and has(name, "CUDA") and has(name, "CompositeImplicitAutograd")]

cases = []
for dtype, shape in itertools.product((torch.float32, torch.bfloat16, torch.float64), ((2, 4, 5, 6), (2, 4, 1, 1))):
    for formats in ((0, 0), (1, 0), (0, 1), (1, 1)):
        made = [torch.empty(shape, dtype=dtype).to(
            memory_format=torch.channels_last if last else torch.contiguous_format) for last in formats]
        theirs = torch._C._conv_determine_backend_memory_format(*made, torch._C._ConvBackend.Cudnn)
        cases.append([str(dtype), shape, formats, str(theirs), str(fake_device.cudnn_layout(*made, None))])
print(json.dumps({
    "cpu only": cpu_build.is_cpu_only(), "kernels": sorted(both), "cuda": torch.version.cuda,
    "sister": cpu_build.cuda_release(), "cudnn": attention.cudnn_version(), "first": attention._CUDNN_FIRST,
    "ours": sorted("aten::" + name for name in cpu_build._CUDA_KERNELS), "layouts": cases,
}))
"""


@pytest.fixture
def told(torch, run, kept):
    """Return the answers of one process; the first worker starts it, and the others wait for it."""
    kept.mkdir(exist_ok=True)
    with open(kept / f"cuda-build-{torch}.json", "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if not (said := file.read()):
            said = ask(run.rows[torch])
            file.write(said)
    return json.loads(said)


def ask(python):
    environment = {
        "PYTHONPATH": str(PACKAGE.parent),
        "CUDA_VISIBLE_DEVICES": "",
        "PATH": "/usr/bin:/bin",
    }
    ended = subprocess.run([python, "-c", ASK], env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_cuda_build_stands_in_for_nothing(told):
    assert not told["cpu only"]


def test_the_kernels_that_count_by_being_there(told):
    assert told["kernels"] == told["ours"]


def test_the_releases_of_cuda_and_cudnn(torch, told):
    assert told["sister"] == told["cuda"]
    assert (told["cudnn"] >= told["first"]) == (torch != "2.10.0")


def test_the_layout_of_a_convolution(told):
    assert {theirs for *_, theirs, _ in told["layouts"]} == {
        "torch.channels_last",
        "torch.contiguous_format",
    }
    assert [(case, theirs) for *case, theirs, _ in told["layouts"]] == [
        (case, ours) for *case, _, ours in told["layouts"]
    ]
