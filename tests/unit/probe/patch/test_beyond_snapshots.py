"""Code that a patch leaves inside objects of torch is found; a call that it makes for an effect is
named.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from patchgate.model.paths import PACKAGE

TORCH = """
import threading
import typing

# As torch.fx has them.
names_of_types = {name: getattr(typing, name) for name in dir(typing)}

class Pass:
    def __init__(self):
        self.patterns = {}

class Other:
    pass

local = threading.local()
passes = [Pass(), Pass()]

def register(handler, key):
    passes[1].patterns.setdefault(key, []).append(handler)
    return handler

def capability():
    return 9

class Handlers:
    def set(self, value):
        local.value = value

V = Handlers()
"""
PATCH = """
import torch

class Choices(torch.Other):
    pass

def pattern(match):
    pass

if torch.capability() > 9:
    torch.register(pattern, "never")
level = torch.capability()
"""


def found(folder: Path, more: str) -> list[str]:
    """Return the names that are held after the patch, and then those that it calls, printed by a
    process with a small torch of our own.
    """
    (folder / "torch.py").write_text(TORCH)
    (folder / "mine.py").write_text(PATCH + dedent(more))
    code = f"""
    import sys
    sys.path[:0] = [{str(PACKAGE.parent)!r}, {str(folder)!r}]
    from patchgate.probe.patch.beyond_snapshots import held_by_torch, recording_calls
    with recording_calls({str(folder / "mine.py")!r}) as calls:
        import mine
    print(*sorted(name for name, _ in held_by_torch('mine').values()))
    print(*calls)
    """
    ended = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_a_handler_in_a_thread_local_is_found(tmp_path: Path) -> None:
    assert found(tmp_path, "torch.V.set(Choices())\n") == ["torch.local.value", "torch.set"]


def test_what_the_standard_library_knows_of_a_package_is_not_held_by_torch(tmp_path: Path) -> None:
    overloads = (
        "from typing import overload\n@overload\ndef f(x: int) -> int: ...\n@overload\ndef "
        "f(x: str) -> str: ...\n"
    )
    # Printed are no name that holds, and no call.
    assert found(tmp_path, overloads) == ["", ""]


def test_a_pattern_in_a_pass_in_a_list_is_found(tmp_path: Path) -> None:
    held, calls = found(tmp_path, "torch.register(pattern, 'a')\n")
    assert (held, calls) == ("torch.passes[].patterns[][]", "torch.register")


def test_questions_and_what_is_not_the_patchs_own_are_no_effect(tmp_path: Path) -> None:
    assert found(tmp_path, "torch.passes[0].patterns['mine'] = level\n") == ["", ""]
