"""Random programs, and `patchgate fuzz`, which compiles them with a patch until one differs."""

import subprocess
import sys

import pytest

from tests.torch.conftest import ROWS, printed_by

PASS = '''"""Sums are read by a pass."""

import torch
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files


class Sums(CustomGraphPass):
    def __call__(self, graph):
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor):
            node.kwargs = KWARGS

    def uuid(self):
        return get_hash_for_files((__file__,))


config.post_grad_custom_post_pass = Sums()
'''


def fuzz(torch, folder, source, minutes="0"):
    patch = folder / "patch.py"
    patch.write_text(source)
    command = [sys.executable, "-m", "patchgate", "fuzz", patch.name, "--minutes", minutes]
    command += ["--row", f"{torch}={ROWS[torch]}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500)


def test_random_programs_depend_on_their_seed_and_on_mentions(torch, run):
    found = printed_by(run.rows[torch], "random_lines.py")
    assert found["again"]
    assert found["other"]
    few, many = found["calling"]
    assert 4 * few < many > 20
    assert found["steady"] > 15
    assert found["gradients"] > 10
    assert found["finite"]
    assert found["trained"]
    # Torch 2.12.1 itself gets gradients of outputs wrong whose elements overlap.
    assert [text for text in found["differing"] if "unfold" not in text] == []


def test_fuzz_says_that_a_patch_changes_nothing_that_programs_meet(torch, tmp_path):
    done = fuzz(torch, tmp_path, "import torch\n\nRELEASE = torch.__version__\n", minutes="30")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "the patch replaces nothing that a random program calls" in done.stderr


def test_fuzz_of_a_patch_that_does_not_parse_is_red(torch, tmp_path):
    done = fuzz(torch, tmp_path, "import torch\n\ndef broken(:\n    pass\n")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "PG210" in done.stdout


@pytest.mark.nightly
def test_fuzz_ends_at_the_first_seed_that_differs(torch, tmp_path):
    done = fuzz(torch, tmp_path, PASS.replace("KWARGS", "{}"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "PG512" in done.stdout
    assert "alpha=" in done.stdout
    again = done.stderr.splitlines()[-1]
    assert "fuzz patch.py --row" in again
    assert again.endswith("--seed 1 --minutes 0")


@pytest.mark.nightly
def test_fuzz_counts_the_programs_that_are_as_without_the_patch(torch, tmp_path):
    done = fuzz(torch, tmp_path, PASS.replace("KWARGS", "dict(node.kwargs)"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "seed 1" in done.stderr
    assert "samples" in done.stderr
