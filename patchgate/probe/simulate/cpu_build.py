"""Lets a CPU-only build of torch generate code for fake tensors of a CUDA device, as a build for
CUDA does.

Such a build lacks a device guard, a few kernels that need only be registered, and a release of
CUDA. Nothing runs on a device.
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
# torch.version.cuda of the builds for CUDA on the package index, by the first torch that has it;
# newest first.
_CUDA_RELEASES = (("2.15", "13.2"), ("2.11", "13.0"), ("2.10", "12.8"))
# Ops with both a CUDA kernel and a composite one: all of them in the CUDA builds of 2.11.0 to
# 2.15.0. Autograd records an op with a CUDA kernel; for any other, the ops that the composite
# kernel calls.
_CUDA_KERNELS = ("_fused_rms_norm", "mish_backward", "silu_backward")
_LIBRARIES: list[
    torch.library.Library
] = []  # an operator library takes its kernels with it when it is collected


def is_cpu_only() -> bool:
    return torch.version.cuda is None and torch.version.hip is None


def register_cuda() -> None:
    """Register what is missing, once in a process and before it forks. Takes some seconds.

    Raises RuntimeError with the compiler's message if there is no C++ compiler.
    """
    _register_guard()
    library = torch.library.Library("aten", "IMPL")
    for name in _CUDA_KERNELS:
        library.impl(name, _never_run, "CUDA")
    _LIBRARIES.append(library)


@contextmanager
def as_built_for_cuda() -> Iterator[None]:
    """Until the context ends, torch's Python code finds everything as in a CUDA build."""
    enabled = "_cuda_cudaCachingAllocator_is_enabled"
    with (
        mock.patch.object(torch.version, "cuda", cuda_release()),
        mock.patch.object(torch._C, enabled, lambda: True, create=True),
    ):
        yield


def cuda_release() -> str:
    """The release of CUDA of this torch's CUDA build."""
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
