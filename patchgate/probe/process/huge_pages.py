"""Moves the memory of the server to huge pages: a fork copies the entry of every page, and each
child takes three.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator

# linux/mman.h: since Linux 6.1, and whatever the machine's default is.
_COLLAPSE = 25
# Bytes of a huge page, where the kernel has any.
_SIZE = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p \S+ 00:00 0 *(?:\[heap\])?\n")


def collapse_memory() -> None:
    """Let this process's own memory lie in huge pages, as far as it fills them; without them
    nothing happens.
    """
    try:
        with open(_SIZE, encoding="ascii") as file:
            size = int(file.read())
        with open("/proc/self/smaps", encoding="utf-8", errors="replace") as file:
            ranges = list(_filled(file, size))
    except (OSError, ValueError):
        return
    madvise = ctypes.CDLL(None).madvise
    for start, end in ranges:
        for page in range(
            start, end, size
        ):  # one by one: memory may be too scattered for some of them
            madvise(ctypes.c_void_p(page), ctypes.c_size_t(size), _COLLAPSE)


def _filled(lines: Iterator[str], size: int) -> Iterator[tuple[int, int]]:
    """Start and end of the whole huge pages in the mappings without a file of which at least half
    is in use.
    """
    start = end = 0
    for line in lines:
        if "-" in line.partition(" ")[0]:
            mapping = _MAPPING.fullmatch(line)
            start, end = (int(mapping[1], 16), int(mapping[2], 16)) if mapping else (0, 0)
        elif line.startswith("Anonymous:") and int(line.split()[1]) * 2048 >= end - start:
            inner = -(-start // size) * size, end // size * size
            if inner[0] < inner[1]:
                yield inner
