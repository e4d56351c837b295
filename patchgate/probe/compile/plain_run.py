"""Compiles a workload in an interpreter that nothing of the probe is loaded in, as a user's script.

No module, argument, variable or path of it names the gate, and its seed is another one. This process has not imported
the patch: it only reads what the script has left.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from patchgate.probe.compile.caches import digest_of_code
from patchgate.probe.compile.observe import environment
from patchgate.probe.patch.load import place_of
from patchgate.probe.protocol import RanPlainly, Run, Stage
from patchgate.probe.simulate.device import vector_isa

# What a script of a user's has of the environment; the rest names folders of ours.
_PASSED_ON = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "PYTHONHASHSEED",
    "TORCHINDUCTOR_CACHE_DIR",
)
# Inductor neither builds probes of the processor nor starts workers.
_SET = {
    "CUDA_VISIBLE_DEVICES": "",
    "PYTHONDONTWRITEBYTECODE": "1",
    "TORCHINDUCTOR_VEC_ISA_OK": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
}
# Bytes of a file that it writes, and of its last words.
_LARGEST, _SHOWN = 256 << 20, 400


def run_plainly(request: Run, stage: Stage) -> RanPlainly:
    """What came out of the script. Raises RuntimeError with its last words where it did not end well."""
    stage("plain run")
    cache = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    with tempfile.TemporaryDirectory(prefix="run") as folder:
        home = Path(folder)
        (home / "main.py").write_text(Path(__file__).with_name("plain_script.py").read_text("utf-8"), encoding="utf-8")
        # Its own folder may name the gate.
        (home / "model.py").write_bytes(Path(request["workload_path"]).read_bytes())
        (home / "settings.json").write_text(json.dumps(_settings(request)), encoding="utf-8")
        variables = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | _SET
        # The shell between: whose child it is says nothing.
        ended = subprocess.run(
            ["/bin/sh", "-c", f"{shlex.quote(sys.executable)} main.py; exit $?"],
            cwd=home,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if ended.returncode:
            raise RuntimeError(_end_of(ended))
        report = json.loads(_read(home / "report.json"))
        Path(request["outputs"]).write_bytes(_read(home / "outputs.pt"))
    texts = (_read(path).decode() for path in sorted(cache.rglob("*.py")))
    return {
        "code": sorted({digest_of_code(text) for text in texts}),
        "changed": [str(name) for name in report["changed"]],
        "environment": environment(),
    }


def _settings(request: Run) -> dict[str, Any]:
    patch = request.get("patch")
    dotted, root = place_of(patch, request) if patch else (None, "")
    return {
        "patch": patch,
        "module": dotted,
        "paths": [*([root] if dotted else ()), *request.get("paths", ())],
        "import_path": request.get("import_path", []),
        "install": request.get("install") or [],
        "scope": request.get("scope"),
        "model": "model.py",
        "dtype": request["dtype"],
        "dynamic": request["dynamic"],
        "seed": request["seeds"][0],
        "isa": type(vector_isa(request["profile"])).__name__,
    }


def _read(path: Path) -> bytes:
    """A file of the script's; raises OSError for one that no script has a reason to write."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST:
        raise OSError(f"not a file of a plain run: {path.name}")
    return path.read_bytes()


def _end_of(ended: subprocess.CompletedProcess[bytes]) -> str:
    """The last line that it printed, or its status."""
    lines = ended.stdout[-_SHOWN:].decode(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), f"ended with status {ended.returncode}")
