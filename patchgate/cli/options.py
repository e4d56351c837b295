"""Options that several commands have: the releases of torch, the number of processes, and the
folder of the results.

A given interpreter must report the torch version in its label before anything runs on it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Annotated, Any

import click

from patchgate.cli.parameters import argument, option
from patchgate.model.versions import full_release
from patchgate.runner.run_settings import FOLDER

# A container states its limits here.
_CONTAINER = Path("/sys/fs/cgroup")
AT_LEAST_1 = click.IntRange(1)
# Eleven days: a longer wait overflows.
_MOST_SECONDS = 1e6


class Duration(click.FloatRange):
    """A number of seconds or minutes. It refuses `nan`, which click accepts in any range."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        seconds = float(super().convert(value, param, ctx))
        if not seconds <= _MOST_SECONDS:
            self.fail(f"{value!r} is not a number of at most {_MOST_SECONDS:,.0f}.", param, ctx)
        return seconds


Patches = Annotated[tuple[Path, ...], argument()]
Torches = Annotated[
    tuple[str, ...],
    option(
        "--torch",
        metavar="RELEASE",
        # The full names, as torch itself, golden and environments use them.
        callback=lambda context, parameter, given: tuple(map(full_release, given)),
        help="Judge on this release; it is installed if needed. May be repeated.",
    ),
]
Rows = Annotated[
    tuple[str, ...],
    option(
        "--row",
        metavar="TORCH=PYTHON",
        help="A torch release, and a Python that has it. May be repeated.",
    ),
]
Problems = Annotated[
    tuple[str, ...],
    option(
        "--problem",
        metavar="TORCH=REASON",
        help="A release that is reported as not judged, and why.",
    ),
]
Devices = Annotated[
    tuple[str, ...],
    option(
        "--device",
        metavar="NAME",
        help="Device profile, or cuda; default: h200 (simulated) and cpu.",
    ),
]
Workloads = Annotated[
    tuple[str, ...],
    option(
        "--workload",
        "--model",
        metavar="NAME",
        help="Only these workloads, or public models (fixtures/models, or a .toml file).",
    ),
]
Nightly = Annotated[
    bool, option(help="All workloads, not only those for pre-merge; also compile the kernels.")
]
Folder = Annotated[
    str,
    option(
        default=FOLDER,
        type=click.Path(file_okay=False),
        help="Write the results of the run here.",
    ),
]

ResultsFolder = Annotated[
    str,
    option(
        "--folder",
        default=FOLDER,
        type=click.Path(file_okay=False),
        help="The folder with the results of the run.",
    ),
]


def time_limit(seconds: float) -> Any:
    return option(
        default=seconds,
        type=Duration(0, min_open=True),
        metavar="SECONDS",
        help="Seconds that one case may take.",
    )


def memory_limit(mib: int) -> Any:
    return option(default=mib, type=AT_LEAST_1, metavar="MIB", help="MiB a case may add to torch.")


def own_folder(default: str, what: str) -> Any:
    """The option for the folder of a command whose results are no run of the gate."""
    return option("--folder", default=default, file_okay=False, help=f"The folder of {what}.")


def cases_at_once(memory: int = 2) -> int:
    """The number of cases to run at once: one for each core and each `memory` GiB that the machine
    or its container has; at least 2, at most 16.
    """
    cores: float = len(os.sched_getaffinity(0))
    room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):  # no such file, or it says "max"
        quota, period = (_CONTAINER / "cpu.max").read_text(encoding="ascii").split()
        cores = min(cores, int(quota) / int(period))
    with contextlib.suppress(OSError, ValueError):
        room = min(room, int((_CONTAINER / "memory.max").read_text(encoding="ascii")))
    # This number of cases was tried, also on one GPU, whose memory the cases share.
    return max(2, min(16, int(min(cores, room / (memory << 30)))))


def cases(memory: int = 2) -> Any:
    """The option for the number of cases that run in parallel, each with `memory` GiB."""
    return option(
        "-n",
        default=lambda: cases_at_once(memory),
        show_default="one a core, as far as memory goes; 2 to 16",
        type=AT_LEAST_1,
        metavar="COUNT",
        help="Number of cases that run in parallel.",
    )


Workers = Annotated[int, cases()]
