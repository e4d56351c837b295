"""Settings of the process: a change of any is seen under its name, and nothing else is."""

import subprocess
import sys

import pytest

from patchgate.model.paths import ROOT

_BEFORE = """
from patchgate.probe.patch.process_settings import *
from patchgate.probe.patch.process_settings import names_of_python, replaced_since
import math, statistics, json
settings, names = process_settings() | python_settings(), names_of_python()
variables = variables_of_c()
"""
_AFTER = """
now = process_settings() | python_settings()
found = [name for name in settings if settings[name] != now[name]] + replaced_since(names)
child = variables_of_c()
print(found + [name for name in child if child[name] != variables.get(name)])
"""


def changed_by(source):
    """The names that a program changes."""
    command = [sys.executable, "-c", f"{_BEFORE}\n{source}\n{_AFTER}"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    return ended.stdout.strip() or ended.stderr


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("os.chdir('/')", "cwd"),
        ("os.umask(0)", "umask"),
        ("logging.basicConfig()", "root logger"),
        ("logging.disable(logging.CRITICAL)", "logging.disable"),
        ("warnings.simplefilter('ignore')", "warnings"),
        ("sys.setrecursionlimit(5000)", "recursion limit"),
        ("sys.setswitchinterval(1)", "switch interval"),
        ("multiprocessing.set_start_method('spawn')", "start method"),
        ("gc.disable()", "garbage collector"),
        ("gc.callbacks.append(print)", "garbage collector"),
        ("threading.settrace(print)", "trace functions"),
        ("socket.setdefaulttimeout(1)", "socket timeout"),
        ("threading.stack_size(1 << 20)", "stack of threads"),
        ("decimal.getcontext().prec = 3", "decimal"),
        ("locale.setlocale(locale.LC_NUMERIC, 'C.UTF-8')", "locale"),
        ("os.nice(1)", "priority"),
        ("random.seed(7)", "random"),
        ("random.random()", "random"),
        ("sys.excepthook = print", "sys.excepthook"),
        ("threading.excepthook = print", "threading.excepthook"),
        ("signal.signal(signal.SIGCHLD, signal.SIG_IGN)", "SIGCHLD"),
        ("resource.setrlimit(resource.RLIMIT_CORE, (0, 0))", "RLIMIT_CORE"),
        ("import ctypes; ctypes.CDLL('libm.so.6').fesetround(0x800)", "float arithmetic"),
        ("os.putenv('MINE', '1')", "MINE"),
        ("os.environ['MINE'] = '1'", "MINE"),
        ("math.ceil = int", "math.ceil"),
        ("json.JSONEncoder.default = print", "json.encoder.JSONEncoder.default"),
        ("statistics.NormalDist = int", "statistics.NormalDist"),
    ],
)
def test_a_changed_setting_is_named(source, name):
    assert f"'{name}'" in changed_by(source)


def test_reading_changes_nothing():
    source = "os.umask(0o27); threading.stack_size(1 << 20); process_settings()"
    for name in ("umask", "stack of threads"):
        assert f"'{name}'" in changed_by(source)


@pytest.mark.parametrize(
    "source",
    [
        "warnings.filterwarnings('ignore', message='mine')",
        "import atexit; atexit.register(print)",
        "random.Random(7).random()",
        "import xml.dom, csv, sqlite3, email.mime.text",
        "gc.collect(); math.mine = 1",
        "with decimal.localcontext() as context: context.prec = 3",
        "old = signal.signal(signal.SIGINT, print); signal.signal(signal.SIGINT, old)",
    ],
)
def test_what_stays_with_a_library_changes_nothing(source):
    assert changed_by(source) == "[]"
