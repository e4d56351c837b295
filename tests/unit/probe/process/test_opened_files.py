"""The files that a process is seen to read."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

_NOTING = """
import os, sys
from patchgate.probe.process.opened_files import note_opened_files, opened_files
noted = os.open("noted", os.O_RDWR | os.O_CREAT)
note_opened_files(noted, [os.getcwd() + "/own"])
sys.path[:0] = ["packages"]
with open("script.py") as file:
    exec(compile(file.read(), os.getcwd() + "/script.py", "exec"))
print(*opened_files(noted), sep="\\n")
"""


def seen(folder: Path, script: str, *options: str) -> set[str]:
    """The names of what a script is seen to read in a folder."""
    (folder / "script.py").write_text(script)
    command = [sys.executable, *options, "-c", _NOTING]
    root = str(Path(__file__).parents[4])
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    named = {
        os.path.relpath(line, folder) for line in ended.stdout.splitlines() if line[-4:] != ".pyc"
    }
    return named - {".", "script.py"}


@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("x = 1", set()),
        ("import json, wave", set()),
        ("open('own/table.json')", set()),
        ("open('table.json')", {"table.json"}),
        ("open('written', 'w')", set()),
        ("import os\nos.listdir('tables')", {"tables"}),
        ("from pathlib import Path\n[*Path('tables').glob('*.json')]", {"tables"}),
        ("import os\n[*os.walk('tables')]", {"tables"}),
        ("import loads\nloads.load('libown.so')", {"packages/loads.py", "libown.so", "?"}),
        ("import ctypes\nctypes.CDLL('libc.so.6')", {"?"}),
    ],
)
def test_a_script_is_seen_to_read_files_folders_and_libraries(folder, script, names):
    for name in ("own", "tables", "packages"):
        (folder / name).mkdir()
    for name in ("own/table.json", "table.json"):
        (folder / name).write_text("{}")
    extension = sysconfig.get_config_var("EXT_SUFFIX")
    built = Path(sysconfig.get_path("stdlib"), "lib-dynload")
    some = next(iter(sorted(built.glob(f"_bisect{extension}"))), None)
    if some is None:
        pytest.skip("this Python has no extension modules as files")
    shutil.copy(some, folder / "libown.so")
    (folder / "packages" / "loads.py").write_text(
        "import ctypes, os\ndef load(name): ctypes.CDLL(os.path.abspath(name))\n"
    )
    assert seen(folder, script) - {"script.py", "packages"} == names
