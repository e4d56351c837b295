"""A patch is untrusted: whatever it does, the server answers the next question."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from patchgate.inputs.devices import load_profile
from patchgate.model.paths import PACKAGE
from patchgate.model.records import Cause
from patchgate.model.serialization import Answer, failure_of
from patchgate.probe.compile.plain_run import share_headers
from patchgate.runner.client import Runner
from patchgate.runner.environment_variables import inherited_variables
from patchgate.runner.start_server import Servers, start_server
from tests.torch.conftest import ROWS, running

Apply = Callable[..., Answer]
HOSTILE = {
    "import os; os._exit(0)": Cause.EXITED,
    "raise SystemExit(3)": Cause.EXITED,
    "raise KeyboardInterrupt": Cause.RAISED,
    "def broken(": Cause.RAISED,
    "1 / 0": Cause.RAISED,
    "while True: pass": Cause.HUNG,
    "import time; time.sleep(3600)": Cause.HUNG,
    (
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass"
    ): Cause.HUNG,
    "hoard = [bytearray(1 << 26) for _ in range(64)]": Cause.OUT_OF_MEMORY,
    "import ctypes; ctypes.string_at(0)": Cause.CRASHED,
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": Cause.CRASHED,
    "import os, signal; os.kill(os.getpid(), signal.SIGTERM)": Cause.CRASHED,
    "raise OSError(28, 'No space left on device')": Cause.RAISED,
    (
        "import os\nfor fd in range(3, 64):\n  try: os.write(fd, b'p')\n  except OSError: "
        "1\nos._exit(0)"
    ): Cause.TAMPERED,
}


@pytest.fixture
def apply(torch, runner, tmp_path):
    def ask(source, seconds=60.0):
        path = tmp_path / "patch.py"
        path.write_text(source)
        limited = replace(
            runner, run=replace(runner.run, limits=replace(runner.run.limits, seconds=seconds))
        )
        return limited.ask(
            torch, "apply", patch=str(path), targets=[], version=torch, profile=load_profile("h200")
        )

    return ask


@pytest.mark.parametrize(("source", "cause"), HOSTILE.items(), ids=range(len(HOSTILE)))
def test_how_a_patch_ends_is_reported(apply, source, cause):
    failure = failure_of(apply(source, *([2.0] if cause is Cause.HUNG else [])))
    assert failure.cause is cause, failure
    assert failure.stage == "patch"
    assert failure.signature


def test_the_next_question_is_answered(apply):
    apply("import os; os._exit(0)")
    assert apply("x = 1")["changed"] == []


@pytest.mark.parametrize(
    "source",
    [
        "from torch._inductor.runtime.triton_compat import triton_key\nassert "
        "triton_key.cache_info().currsize",
        "from torch._dynamo.funcname_cache import cache\nassert any('functional' in name for name "
        "in cache)",
        "import gc\nassert gc.get_threshold()[0] > 700",
    ],
)
def test_what_every_compile_does_alike_no_child_does_again(apply: Apply, source: str) -> None:
    assert failure_of(apply(source)) is None


@pytest.mark.parametrize(
    ("own", "during"),
    [
        ("", "<lambda>"),
        ("def mine(*args):\n    return 0.0\nguards.profile_guard_manager = mine\n", "mine"),
    ],
)
def test_only_torchs_own_timing_of_guards_is_left_out(
    torch: str, runner: Runner, tmp_path: Path, own: str, during: str
) -> None:
    """It says nothing that a check reads; what a patch has there runs."""
    path = tmp_path / "patch.py"
    path.write_text(
        "from torch._dynamo import guards\n"
        "from torch._inductor import compile_fx\n"
        f"{own}"
        "def tell(*args, **kwargs):\n"
        "    raise ValueError(guards.profile_guard_manager.__name__)\n"
        "compile_fx.compile_fx = tell\n"
    )
    answer = runner.ask(torch, "hooks", patch=str(path), profile=load_profile("cpu"))
    failure = failure_of(answer)
    assert failure
    assert failure.signature.endswith(during)


@pytest.mark.nightly  # the decoder's C++ is built
def test_the_decoder_is_compiled_once_for_all_of_its_tokens(torch, runner, tmp_path):
    patch = tmp_path / "patch.py"
    patch.write_text(
        "from torch._inductor import compile_fx as module\n"
        "compile_fx, calls = module.compile_fx, []\n"
        "def once(*args, **kwargs):\n"
        "    calls.append(args)\n"
        "    assert len(calls) == 1, 'compiled again'\n"
        "    return compile_fx(*args, **kwargs)\n"
        "module.compile_fx = once\n"
    )
    answer = runner.ask(
        torch,
        "sample",
        patch=str(patch),
        profile=load_profile("cpu"),
        outputs=str(tmp_path / "tokens"),
    )
    assert failure_of(answer) is None


def test_the_line_that_raised_is_reported(apply):
    assert failure_of(apply("x = 1\n1 / 0\n")).where.endswith("patch.py:2")
    assert failure_of(apply("x = 1\ny = (\n")).where.endswith("patch.py:2")


@pytest.mark.parametrize("end", ["while True: pass", "import ctypes; ctypes.string_at(0)"])
def test_the_line_that_hangs_or_crashes_is_reported(apply, end):
    assert failure_of(apply(f"def f():\n    {end}\nf()\n", seconds=2.0)).where.endswith(
        "patch.py:2"
    )


def test_half_a_surrogate_pair_does_not_get_out(apply):
    assert failure_of(apply("raise ValueError('\\ud800')")).signature == "ValueError: ?"


def test_a_reply_cannot_be_forged_by_printing(apply):
    assert apply('import os\nos.write(1, b\'{"changed": ["everything"]}\\n\')')["changed"] == []


def test_bytecode_is_written_by_the_server_and_not_by_a_patch(torch, apply, tmp_path):
    (tmp_path / "beside.py").write_text("answer = 42\n")
    tell = "import os, torch._inductor.ir as ir\nraise ValueError(os.path.isfile(ir.__cached__))"
    assert failure_of(apply(tell)).signature == "ValueError: True"
    apply(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport beside")
    assert not list(tmp_path.rglob("*.pyc"))


def test_a_new_interpreter_has_nothing_of_the_compiler_loaded_before_a_patch(torch, run):
    tell = (
        "import sys, torch, patchgate.probe.patch.new_interpreter; "
        "print('torch._inductor.config' in sys.modules)"
    )
    environment = {"PYTHONPATH": str(PACKAGE.parent), "PATH": os.environ["PATH"]}
    ended = subprocess.run(
        [run.rows[torch], "-c", tell], env=environment, capture_output=True, text=True
    )
    assert ended.stdout == "False\n", ended.stderr


# Says which modules are loaded, and every plain value in those of torch.
LOADED = """import hashlib, sys, torch
plain = (int, str, bool, float, type(None), bytes)
values = [
    (name, key, value)
    for name, module in sorted(sys.modules.items())
    if name.partition(".")[0] == "torch"
    for key, value in sorted(vars(module).items())
    if type(value) in plain and not key.startswith("_torchinductor_")  # addresses
]
names = sorted(name for name in sys.modules if not name.startswith(__loader__.__class__.__module__.partition(".")[0]))
raise ValueError(len(names), len(values), hashlib.sha256(repr((names, values)).encode()).hexdigest())
"""


@pytest.mark.every_row
def test_a_fork_that_stands_for_a_new_interpreter_has_loaded_what_one_has(torch, runner, tmp_path):
    path = tmp_path / "patch.py"
    path.write_text(LOADED)
    asked = {
        "patch": str(path),
        "version": torch,
        "names": [],
        "variables": [],
        "holders": [],
        "profile": load_profile("h200"),
    }
    forked, started = (
        runner.ask(torch, "new interpreter", **asked, **variables)
        for variables in ({}, {"environment": ["ANY=1"]})
    )
    assert "ValueError: (" in forked["failure"]["signature"]
    assert forked["failure"]["signature"] == started["failure"]["signature"]


def test_a_new_interpreter_finds_ci_set_as_in_a_pipeline(torch, runner, tmp_path):
    path = tmp_path / "patch.py"
    path.write_text("import os, torch\nraise ValueError(os.environ['CI'])")
    answer = runner.ask(
        torch,
        "new interpreter",
        patch=str(path),
        version=torch,
        names=[],
        variables=[],
        holders=[],
        profile=load_profile("h200"),
    )
    assert failure_of(answer).signature == "ValueError: true"


def test_a_folder_that_is_called_as_a_module_is_no_file(torch, runner, tmp_path):
    folder = tmp_path / "mine"
    (folder / "copies.py").mkdir(parents=True)
    os.mkfifo(folder / "pipe.py")
    (folder / "__init__.py").write_text("")
    (folder / "patch.py").write_text("import os\nos.environ['MINE_LEVEL'] = '1'\n")
    answer = runner.ask(
        torch,
        "new interpreter",
        patch=str(folder / "patch.py"),
        version=torch,
        names=[],
        variables=["MINE_LEVEL"],
        holders=[],
        profile=load_profile("h200"),
    )
    assert "failure" not in answer


@pytest.mark.parametrize("has", [True, False])
def test_a_server_that_ends_takes_the_others_with_it(torch, run, has):
    """The server with torch alone is the parent of the one that has the compiler."""
    server = start_server(torch, run.rows[torch])
    runner = Runner(run=run, connect=Servers({torch: server}, {}).connect, logs={torch: server.log})
    try:
        assert "failure" not in runner.ask(torch, "sentinel", profile=load_profile("cpu"))
        (serving,) = (pid for pid in below(server.process.pid) if has_torch(pid) is has)
        os.kill(serving, signal.SIGKILL)
        assert server.process.wait(30) == 0
    finally:
        server.stop()


def below(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as listed:
        return list(map(int, listed.read().split()))


def has_torch(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as mapped:
        return "libtorch" in mapped.read()


def test_one_server_has_nothing_of_torch_loaded(torch, run):
    """The one that starts a user's script need not wait for the other."""
    server = start_server(torch, run.rows[torch])
    runner = Runner(run=run, connect=Servers({torch: server}, {}).connect, logs={torch: server.log})
    try:
        assert "failure" not in runner.ask(torch, "sentinel", profile=load_profile("cpu"))
        assert sorted(map(has_torch, below(server.process.pid))) == [False, True]
    finally:
        server.stop()


def test_a_script_finds_the_headers_that_were_made_before(torch, run, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    share_headers(str(tmp_path / "made"))
    ask = "from torch._inductor import codecache; print(codecache._HEADER_DIR)"
    found = subprocess.run(
        [run.rows[torch], "-c", ask], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert Path(found).resolve() == tmp_path / "made"


def test_what_a_patch_leaves_running_ends_with_it(apply, tmp_path):
    mark = f"patchgate-leftover-{tmp_path.name}"
    apply(f"import subprocess; subprocess.Popen(['sh', '-c', 'sleep 600; : {mark}'])")
    # It is killed before the answer; the kernel may take a moment to bury it.
    assert any(not running(mark) or time.sleep(0.1) for _ in range(100))


def test_a_server_whose_owner_was_killed_leaves_nothing(torch, run, tmp_path):
    owner = (
        "import sys, time; from patchgate.runner.start_server import Servers, start_server; server = "
        "start_server(*sys.argv[1:])"
    )
    killed = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"{owner}; print('started', flush=True); time.sleep(600)",
            torch,
            run.rows[torch],
        ],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    assert killed.stdout.readline() == b"started\n"
    assert len(list(tmp_path.iterdir())) == 1
    killed.kill()
    killed.communicate()
    # Also while it still imports torch.
    assert any(not list(tmp_path.iterdir()) or time.sleep(0.1) for _ in range(100))


def test_what_a_child_leaves_as_its_output_is_no_link_for_the_server(apply):
    source = "import os\nfolder = os.path.dirname(os.environ['TMPDIR'])\n"
    source += (
        "for name in ('stage', 'trace', 'output'): os.symlink('/etc/passwd', "
        "f'{folder}/{name}')\nos._exit(0)\n"
    )
    assert "root:" not in json.dumps(apply(source))


@pytest.mark.parametrize("do", ["observe", "plain run"])
def test_a_question_that_is_no_question_does_not_end_the_server(torch, runner, apply, do):
    for line in (
        b"not json\n",
        b"{}\n",
        b"\n",
        json.dumps({"do": "dance", "limits": {"seconds": 5}}).encode() + b"\n",
    ):
        with runner.connect(torch, do) as connection:
            connection.settimeout(30)
            connection.sendall(line)
            connection.makefile("rb").readline()
    assert apply("x = 1")["changed"] == []


@pytest.mark.parametrize("place", ["patch.py", "package/patch.py", "package/beside.py"])
def test_bytecode_beside_a_source_is_not_believed(torch, runner, tmp_path, place):
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    (path.parent / "__init__.py").touch()
    (tmp_path / "__init__.py").unlink(missing_ok=True)
    patch = path.with_name("patch.py")
    patch.write_text("from . import beside\n" if path != patch else "")
    path.write_text("1 / 0\n")
    unchecked = "py_compile.PycInvalidationMode.UNCHECKED_HASH"
    compiled = (
        f"import py_compile; py_compile.compile({str(path)!r}, invalidation_mode={unchecked})"
    )
    subprocess.run([runner.run.rows[torch], "-c", compiled], check=True)
    path.write_text("answer = 42\n")
    request = {
        "patch": str(patch),
        "targets": [],
        "version": torch,
        "profile": load_profile("h200"),
    }
    assert runner.ask(torch, "apply", 60, **request).get("changed") == []


# Torch's own threads start as those of a backward do: each asks for the pool, which is slow to make
# for so many.
FORKED = """
import os, resource, sys, torch
from patchgate.probe.serve.child import renew_thread_pool
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
torch.set_num_threads(64)
torch.get_num_threads()
folder = sys.argv[1]
open(f"{folder}/functions.py", "w").write("import torch\\ndef negate(x: torch.Tensor):\\n"
    "    return torch.jit.wait(torch.jit.fork(torch.neg, x))\\n")
sys.path.insert(0, folder)
from functions import negate
negate = torch.jit.script(negate)
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        if sys.argv[2] == "renewed":
            renew_thread_pool()
        torch.set_num_interop_threads(16)
        negate(torch.ones(3))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.parametrize("pool", ["as it was", "renewed"])
def test_threads_that_a_forked_child_starts_find_a_pool(torch, tmp_path, pool):
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent), "CUDA_VISIBLE_DEVICES": ""}
    command = [str(ROWS[torch]), "-W", "ignore", "-c", FORKED, str(tmp_path), pool]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    # If none aborts as it was, this torch needs no renewal.
    assert ("-6" in ended.stdout.split()) is (pool == "as it was"), ended.stderr


def test_snapshots_that_share_what_has_not_changed_say_the_same(torch, run):
    script, environment = (
        Path(__file__).with_name("snapshots_shared.py"),
        os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
    )
    ended = subprocess.run(
        [run.rows[torch], script], env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(ended.stdout) == [
        "torch._dynamo.trace_rules.LEGACY_MOD_INLINELIST",
        "torch._dynamo.trace_rules.MOD_INLINELIST['mine']",
        "torch._inductor.ir.StorageBox.realize",
        "torch._inductor.ir.added",
        "torch._inductor.lowering.lowerings[foreach_map]",
        "torch._inductor.scheduler.Scheduler.can_fuse",
    ]


@pytest.mark.parametrize(
    ("left", "changed"), [("held = None", ["torch._inductor.ir.mine"]), ("", [])]
)
def test_what_acts_when_it_is_collected_acts_while_the_patch_is_looked_at(apply, left, changed):
    source = "import torch._inductor.ir as ir\nclass Late:\n    def __del__(self): ir.mine = 1\n"
    assert apply(f"{source}held = [Late()]\nheld += [held]\n{left}\n")["changed"] == changed


_LOADING = """
import os
from importlib.machinery import SourceFileLoader

name = "".join(("hel", "per"))
SourceFileLoader(name, os.path.join(os.path.dirname(__file__), name + ".py")).load_module()
"""


@pytest.mark.parametrize(
    ("source", "opened"),
    [
        ("x = 1", None),
        (
            "import torch._inductor.kernel.mm, json\nopen('written', "
            "'w').write('x')\nopen('written').read()",
            None,
        ),
        (_LOADING, "helper.py"),
        (
            "import os\nos.close(os.open(os.path.dirname(__file__) + '/helper.py', os.O_RDONLY))",
            "helper.py",
        ),
        ("import subprocess\nsubprocess.run(['true'])", "?"),
        ("import ctypes\nctypes.CDLL('libc.so.6')", "?"),
    ],
    ids=[
        "nothing",
        "its own and torch's",
        "by a loader",
        "by the system",
        "a process",
        "a library",
    ],
)
def test_what_a_patch_reads_beside_itself_and_its_environment_is_seen(
    apply, tmp_path, source, opened
):
    (tmp_path / "helper.py").write_text("y = 1\n")
    answer = apply(source)
    assert "failure" not in answer
    seen = answer.get("opened", [])
    assert (
        seen == []
        if opened is None
        else opened in [path.removeprefix(f"{tmp_path}/") for path in seen]
    )


def test_what_a_fork_of_a_child_reads_is_seen_too(torch, runner, tmp_path):
    (tmp_path / "helper.py").write_text("y = 1\n")
    (tmp_path / "patch.py").write_text(_LOADING)
    about = {"versions": [torch], "targets": [], "profile": load_profile("h200")}
    answer = runner.ask(torch, "applies", patch=str(tmp_path / "patch.py"), **about)
    assert str(tmp_path / "helper.py") in answer["opened"]


def test_numpy_takes_no_memory_for_each_core(torch, run):
    """On 32 cores its threads took more than the limit of a case, and OpenBLAS ended it."""
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_DATA, (64 << 20,) * 2); import numpy"
    )
    ended = subprocess.run(
        [run.rows[torch], "-c", program], env=inherited_variables(), capture_output=True
    )
    assert ended.returncode == 0, ended.stderr
