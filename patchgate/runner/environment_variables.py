"""The environment variables that a torch process inherits. No other variable can influence a
measurement.
"""

from __future__ import annotations

import os

# A process needs these to run and to find its files; secrets of the caller's environment do not
# travel to a patch.
_PLACES = ("PATH", "HOME", "TMPDIR")
# These decide which libraries and compilers are found; the key of a kept answer covers their
# values.
_DECIDING = ("LD_LIBRARY_PATH", "CUDA_HOME")
# The same for every user, because the number of variables changes the count of Python calls.
_FIXED = {
    "LC_ALL": "C.UTF-8",
    # numpy takes 41 MB for a thread on each core. 32 cores exceed the limit of a case, and OpenBLAS
    # ends the process.
    "OPENBLAS_NUM_THREADS": "1",
}


def inherited_variables() -> dict[str, str]:
    """The variables with which each process that has torch is started."""
    found = {name: os.environ[name] for name in (*_PLACES, *_DECIDING) if name in os.environ}
    return found | _FIXED


def deciding_variables() -> dict[str, str]:
    """The inherited variables that a measurement may depend on."""
    return {name: os.environ[name] for name in _DECIDING if name in os.environ}
