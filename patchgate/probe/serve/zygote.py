"""A process that has run `import torch` and loaded nothing else of torch, as a new interpreter has
that a patch meets.

The server starts it before its own warm-up, and has it fork the children that need just that: they
import no torch.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import socket
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from patchgate.probe.process.namespaces import end_with_parent

# Seconds in which it forks.
_PATIENCE = 10
# Bytes of a process's number.
_DIGITS = 32
# Files that a child is given, at most.
_FILES = 16
#: Answers the request saved in a folder, with the file descriptors that the child is given, and
#: ends.
Answer = Callable[[str, Sequence[int]], NoReturn]


class Zygote:
    """The server's side of it.

    Its children become the server's own, as every process does whose parent has ended.
    """

    def __init__(self, answer: Answer) -> None:
        import patchgate.probe.patch.new_interpreter  # noqa: F401  # what its children answer with; it imports torch

        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _serve(theirs, answer)
            finally:
                os._exit(1)
        theirs.close()
        self._control.settimeout(_PATIENCE)

    def fork(self, folder: str, ends: Sequence[int]) -> int:
        """A child that answers the request saved in `folder`; 0 once the zygote has failed, which
        raises OSError.
        """
        if self._control.fileno() < 0:
            return 0
        try:
            socket.send_fds(self._control, [folder.encode()], ends)
            return int(self._control.recv(_DIGITS))
        except (OSError, ValueError) as error:
            self._control.close()  # a late answer would be taken for another's
            raise OSError(f"the process with torch alone: {error}") from None


def _serve(control: socket.socket, answer: Answer) -> None:
    """Fork what the server asks for, until it has gone."""
    end_with_parent()
    close_all_but(control.fileno())
    sys.dont_write_bytecode = bool(sys.flags.dont_write_bytecode)
    gc.freeze()  # as in the server: a collection in a child would copy every page
    gc.enable()
    while True:
        folder, ends, _, _ = socket.recv_fds(control, 4096, _FILES)
        if not folder:
            return
        child = _fork(folder.decode(), ends, answer)
        for end in ends:
            os.close(end)
        control.send(child)


def _fork(folder: str, ends: Sequence[int], answer: Answer) -> bytes:
    """Fork twice, so that the child's parent ends and the server takes its place; the child's
    number in digits.
    """
    reading, writing = os.pipe()
    between = os.fork()
    if between == 0:
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            with contextlib.suppress(ProcessLookupError):  # it has ended already
                select.select([os.pidfd_open(parent)], [], [])
            close_all_but(*ends)
            answer(folder, ends)
        os.write(writing, str(pid).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(between, 0)
    child = os.read(reading, _DIGITS)
    os.close(reading)
    return child


def close_all_but(*kept: int) -> None:
    first = 3
    for descriptor in sorted(kept):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
