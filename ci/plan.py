"""Prints which machine judges what, as JSON for a pipeline: rows of ci/matrix.toml, shared by
measured cost.

`python ci/plan.py --tag nightly --machines 8 --history .patchgate/sweep/history.sqlite PATCH...`;
without patches, those of the table [tool.patchgate] here. Costs are those of the history; without
one, all jobs count the same. `python ci/plan.py --gpu-runner` prints the label of the table
instead.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from patchgate.inputs.matrix import load_matrix
from patchgate.inputs.patch import patch_id
from patchgate.inputs.project import find_project
from patchgate.inputs.torch_range import default_releases
from patchgate.model.errors import UsageError
from patchgate.model.text import escape_control
from patchgate.runs.history.store import History
from patchgate.runs.shards import Shard, shards_by_cost


def plan(arguments: list[str] | None = None) -> list[Shard]:
    """The shards that the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patches", nargs="*")
    parser.add_argument(
        "--tag", required=True, choices=sorted({tag for row in load_matrix() for tag in row.tags})
    )
    parser.add_argument("--machines", type=int, default=0)
    parser.add_argument("--history", type=Path)
    given = parser.parse_args(arguments)
    project = find_project(Path.cwd())
    torches = default_releases(project, given.tag)
    patches = given.patches or [
        path.relative_to(project.root).as_posix() for path in project.patch_paths()
    ]
    return shards_by_cost(torches, patches, given.machines, _costs(given.history, patches))


def gpu_runner() -> str:
    """The label of the machines with a GPU, as the table here has it; empty without one."""
    return find_project(Path.cwd()).gpu_runner


def _costs(history: Path | None, patches: list[str]) -> dict[tuple[str, str], float]:
    """By the path that the pipeline knows; a history knows a patch by its name."""
    if history is None or not history.is_file():
        return {}
    file = History(history)
    costs = file.costs()
    file.close()
    names = {patch_id(Path(path)): path for path in patches}
    return {
        (names[patch], torch): seconds
        for (patch, torch), seconds in costs.items()
        if patch in names
    }


if __name__ == "__main__":
    try:
        if sys.argv[1:] == ["--gpu-runner"]:
            print(gpu_runner())
            sys.exit()
        shards = [asdict(shard) | {"patches": "\n".join(shard.patches)} for shard in plan()]
    except UsageError as error:
        print(escape_control(str(error)), file=sys.stderr)
        sys.exit(2)
    print(json.dumps(shards))
