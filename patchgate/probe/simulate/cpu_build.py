"""Lets a CPU-only build of torch generate code for fake tensors of a CUDA device, as a build for
CUDA does.

A CPU-only build lacks a device guard, a few kernels that only need to be registered, and a release
of CUDA. Nothing runs on a device.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.library

_GUARD = """
#include <c10/core/impl/DeviceGuardImplInterface.h>
namespace { C10_REGISTER_GUARD_IMPL(CUDA, c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA>) }
"""
# (first torch with a CUDA release, its torch.version.cuda) of the CUDA builds on the package index,
# newest first.
_CUDA_RELEASES = (("2.15", "13.2"), ("2.11", "13.0"), ("2.10", "12.8"))
# All ops that have a CUDA kernel and a composite kernel in the CUDA builds of 2.11.0 to 2.15.0.
# Autograd records an op that has a CUDA kernel. For other ops, it records the ops that the
# composite kernel calls.
_CUDA_KERNELS = ("_fused_rms_norm", "mish_backward", "silu_backward")
_LIBRARIES: list[
    torch.library.Library
] = []  # kept, because a collected library removes its kernels


def is_cpu_only() -> bool:
    return torch.version.cuda is None and torch.version.hip is None


def register_cuda() -> None:
    """Register the missing guard and kernels, once in a process and before forks. Takes seconds.

    Raises RuntimeError with the compiler's message if there is no C++ compiler.
    """
    _register_guard()
    library = torch.library.Library("aten", "IMPL")
    for name in _CUDA_KERNELS:
        library.impl(name, _never_run, "CUDA")
    _LIBRARIES.append(library)


@contextmanager
def as_built_for_cuda() -> Iterator[None]:
    """Until the context ends, torch's Python code behaves as in a CUDA build."""
    enabled = "_cuda_cudaCachingAllocator_is_enabled"
    with (
        mock.patch.object(torch.version, "cuda", cuda_release()),
        mock.patch.object(torch._C, enabled, lambda: True, create=True),
    ):
        yield


def cuda_release() -> str:
    """Return the release of CUDA with which this torch's CUDA build was built."""
    return next(
        (cuda for first, cuda in _CUDA_RELEASES if torch.__version__ >= first),
        _CUDA_RELEASES[-1][1],
    )


def _never_run(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("a kernel that is only registered was run")


def _register_guard() -> None:
    home = Path(torch.__file__).parent
    with tempfile.TemporaryDirectory(prefix="guard-") as folder:
        source, built = Path(folder, "guard.cpp"), Path(folder, "guard.so")
        source.write_text(_GUARD, encoding="utf-8")
        compiler = os.environ.get("CXX", "g++")
        command = [compiler, "-std=c++20", "-shared", "-fPIC", f"-I{home / 'include'}", str(source)]
        command += [f"-L{home / 'lib'}", "-lc10", "-o", str(built)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            message = getattr(error, "stderr", None) or str(error)
            raise RuntimeError(
                f"a CPU-only torch simulates a GPU with a C++ compiler: {message.strip()}"
            ) from None
        ctypes.CDLL(str(built))
