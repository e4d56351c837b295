"""Prints the names of every importable module among those given on standard input; runs inside a
torch row.
"""

import contextlib
import importlib
import io
import json
import sys
import warnings

# Programs, and packages that need what is not installed.
LEFT_OUT = ("__main__", "_main_", "tensorboard", "cutlass", "compile_worker")


def imported(name):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            return importlib.import_module(name)
        except BaseException:  # a module may do anything when it is imported, SystemExit included
            return None


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    wanted = [name for name in json.load(sys.stdin) if not any(part in name for part in LEFT_OUT)]
    for name in wanted:
        imported(name)
    print(
        json.dumps(
            {name: sorted(vars(sys.modules[name])) for name in wanted if name in sys.modules}
        )
    )
