"""Compiles a workload as a user's script does, in an interpreter without any module of the probe.

No module, argument, variable or path of the interpreter names the gate, and its seed differs. The
process that starts it has not imported the patch or torch, and only reads files from the script.
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

# Variables that are passed to the script. Other variables name folders of patchgate or are rarely
# set by users.
_PASSED_ON = (
    "PATH HOME LANG LC_ALL OPENBLAS_NUM_THREADS TMPDIR LD_LIBRARY_PATH TORCHINDUCTOR_CACHE_DIR"
)
# Beginnings of file names, as of a user's files; the rest of a name is random.
_NAMES = "app bench demo eval infer main model net serve test tool train"
# The maximum size in bytes of a file that the script writes, the bytes at the end of its output in
# which its error is looked for, and the maximum number of characters of the error that are shown.
_LARGEST, _LAST_WORDS, _SHOWN = 256 << 20, 8192, 400
# The script exits with one of these on success; no other success, exception or signal does.
_STATUS = range(3, 100)
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*: ")


def run_plainly(request: Run, stage: Stage) -> RanPlainly:
    """Run the script and store its outputs. Raises RuntimeError with the script's error."""
    stage("plain run")
    cache = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    # One core, so that torch takes one thread and Inductor starts no workers.
    os.sched_setaffinity(0, {secrets.choice(sorted(os.sched_getaffinity(0)))})
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        script, model, outputs, report = _names()
        settings = _settings(request) | {"model": model, "outputs": outputs, "report": report}
        settings["status"] = secrets.choice(_STATUS)
        text = Path(__file__).with_name("plain_script.py").read_text("utf-8")
        pasted = "SETTINGS: dict[str, Any] = "
        tree = ast.parse(text.replace(pasted + "{}", pasted + repr(settings)))
        del tree.body[0]  # its docstring
        (home / f"{script}.py").write_text(ast.unparse(tree), encoding="utf-8")
        # The model is copied, because the path of its own folder may name the gate.
        (home / f"{model}.py").write_bytes(Path(request["workload_path"]).read_bytes())
        variables = {name: os.environ[name] for name in _PASSED_ON.split() if name in os.environ}
        variables["PYTHONDONTWRITEBYTECODE"] = "1"
        if _can_be_opened("/dev/nvidiactl"):  # set only outside of a sandbox, as few users set it
            variables["CUDA_VISIBLE_DEVICES"] = ""
        # A shell starts the script, as for a user.
        ended = subprocess.run(
            ["/bin/sh", "-c", f"{shlex.quote(sys.executable)} {script}.py; exit $?"],
            cwd=home,
            env=variables | variables_of(request),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if ended.returncode != settings["status"]:
            said = _end_of(ended)
            lacks_device = any(text in said for text in NO_DEVICE)
            raise RuntimeError(f"{NEEDS_DEVICE}: {said}" if lacks_device else said)
        changed = json.loads(_read(home / report))["changed"]
        Path(request["outputs"]).write_bytes(_read(home / outputs))
    texts = (_read(path).decode() for path in sorted(cache.rglob("*.py")))
    return {
        "code": sorted({digest_of_code(text) for text in texts}),
        "changed": [str(name) for name in changed],
    }


def share_headers(folder: str) -> None:
    """Link the place in which the script's torch looks for precompiled headers to `folder`, so that
    it finds them as in a user's cache.
    """
    user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    place = Path(tempfile.gettempdir(), f"torchinductor_{user}", "precompiled_headers")
    for each in (place.parent, Path(folder)):  # torch cannot use a link without a target
        each.mkdir(parents=True, exist_ok=True)
    place.symlink_to(folder)


def _names() -> list[str]:
    """Return random names for the script, its model, its outputs and its report."""
    starts = random.SystemRandom().sample(_NAMES.split(), 4)
    ends = ("", "", ".pt", ".json")
    return [f"{at}_{secrets.token_hex(2)}{end}" for at, end in zip(starts, ends, strict=True)]


def _settings(request: Run) -> dict[str, Any]:
    patch, paths = request.get("patch"), request.get("paths", ())
    dotted, root = place_in_package(patch, paths) if patch else (None, "")
    return {
        "patch": patch,
        "module": dotted,
        "paths": [root, *paths] if dotted else [*paths],
        "import_path": request.get("import_path", []),
        "install": request.get("install") or [],
        "scope": request.get("scope"),
        "dtype": request["dtype"],
        "dynamic": request["dynamic"],
        "seed": request["seeds"][0],
        "isa": request["profile"]["isa"],
    }


def _read(path: Path) -> bytes:
    """Read a file that the script wrote. Raises OSError for a link or a file that is too large."""
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
    """Return the last exception that the script printed, without torch's advice. If there is none,
    return the last line, or else the exit status.
    """
    if ended.returncode == 0:
        return "it ended as a success, with another status than its own"
    lines = ended.stdout[-_LAST_WORDS:].decode(errors="replace").split("\n")[::-1]
    known = [*filter(_EXCEPTION.match, lines), *filter(str.strip, lines)]
    return (known or [f"ended with status {ended.returncode}"])[0][:_SHOWN]
