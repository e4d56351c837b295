"""Compiles a workload in an interpreter that nothing of the probe is loaded in, as a user's script.

No module, argument, variable or path of it names the gate, and its seed is another one. This
process has imported
neither the patch nor torch: it only reads what the script has left.
"""

from __future__ import annotations

import ast
import getpass
import json
import os
import random
import re
import secrets
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from patchgate.probe.compile.generated_code import digest_of_code
from patchgate.probe.patch.module_name import place_in_package
from patchgate.probe.protocol import NEEDS_DEVICE, NO_DEVICE, RanPlainly, Run, Stage, variables_of

# What a script of a user's has of the environment; the rest names folders of ours, or is set by
# few.
_PASSED_ON = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "TORCHINDUCTOR_CACHE_DIR",
)
# How a file of a user's may begin; the rest of its name is random.
_NAMES = (
    "app",
    "bench",
    "demo",
    "eval",
    "infer",
    "main",
    "model",
    "net",
    "serve",
    "test",
    "tool",
    "train",
)
# Bytes of a file that it writes, and of its last words; of those that are shown.
_LARGEST, _LAST_WORDS, _SHOWN = 256 << 20, 8192, 400
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*: ")


def run_plainly(request: Run, stage: Stage) -> RanPlainly:
    """The outputs of the script. Raises RuntimeError with its last words if it did not end well."""
    stage("plain run")
    cache = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    # As on a machine with one core: torch takes one thread, and Inductor starts no workers.
    os.sched_setaffinity(0, {secrets.choice(sorted(os.sched_getaffinity(0)))})
    with tempfile.TemporaryDirectory() as folder:
        home, (script, model, outputs, report) = Path(folder), _names()
        settings = _settings(request) | {
            "model": model,
            "outputs": f"{outputs}.pt",
            "report": f"{report}.json",
        }
        text = Path(__file__).with_name("plain_script.py").read_text("utf-8")
        tree = ast.parse(
            text.replace(
                "SETTINGS: dict[str, Any] = {}", f"SETTINGS: dict[str, Any] = {settings!r}"
            )
        )
        del tree.body[0]  # what it says of itself
        (home / f"{script}.py").write_text(ast.unparse(tree), encoding="utf-8")
        # Its own folder may name the gate.
        (home / f"{model}.py").write_bytes(Path(request["workload_path"]).read_bytes())
        variables = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        variables["PYTHONDONTWRITEBYTECODE"] = "1"
        if _can_be_opened("/dev/nvidiactl"):  # not in a sandbox: few users set the variable
            variables["CUDA_VISIBLE_DEVICES"] = ""
        variables |= variables_of(request)
        # The shell between: whose child it is says nothing.
        ended = subprocess.run(
            ["/bin/sh", "-c", f"{shlex.quote(sys.executable)} {script}.py; exit $?"],
            cwd=home,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if ended.returncode:
            said = _end_of(ended)
            raise RuntimeError(
                f"{NEEDS_DEVICE}: {said}" if any(text in said for text in NO_DEVICE) else said
            )
        changed = json.loads(_read(home / settings["report"]))["changed"]
        Path(request["outputs"]).write_bytes(_read(home / settings["outputs"]))
    texts = (_read(path).decode() for path in sorted(cache.rglob("*.py")))
    return {
        "code": sorted({digest_of_code(text) for text in texts}),
        "changed": [str(name) for name in changed],
    }


def share_headers(folder: str) -> None:
    """Precompiled headers that were made before lie where the script's torch looks for them, as in
    a user's cache.
    """
    user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    place = Path(tempfile.gettempdir(), f"torchinductor_{user}", "precompiled_headers")
    for each in (place.parent, Path(folder)):  # a link to none would be in torch's way
        each.mkdir(parents=True, exist_ok=True)
    place.symlink_to(folder)


def _names() -> list[str]:
    return [f"{name}_{secrets.token_hex(2)}" for name in random.SystemRandom().sample(_NAMES, 4)]


def _settings(request: Run) -> dict[str, Any]:
    patch = request.get("patch")
    dotted, root = place_in_package(patch, request.get("paths", ())) if patch else (None, "")
    return {
        "patch": patch,
        "module": dotted,
        "paths": [*([root] if dotted else ()), *request.get("paths", ())],
        "import_path": request.get("import_path", []),
        "install": request.get("install") or [],
        "scope": request.get("scope"),
        "dtype": request["dtype"],
        "dynamic": request["dynamic"],
        "seed": request["seeds"][0],
        "isa": request["profile"]["isa"],
    }


def _read(path: Path) -> bytes:
    """A file of the script's; raises OSError for one that no script has a reason to write."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST:
        raise OSError(f"not a file of a plain run: {path.name}")
    return path.read_bytes()


def _can_be_opened(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError:
        return False
    return True


def _end_of(ended: subprocess.CompletedProcess[bytes]) -> str:
    """The last exception that it printed, not what torch advises after it; else its last line, or
    its status.
    """
    lines = ended.stdout[-_LAST_WORDS:].decode(errors="replace").split("\n")
    last = next(
        (line for line in reversed(lines) if line.strip()), f"ended with status {ended.returncode}"
    )
    return next((line for line in reversed(lines) if _EXCEPTION.match(line)), last)[:_SHOWN]
