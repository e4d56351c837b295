"""`pytest --patchgate PATCH`: the cells of a gate as items of pytest, on the torch of pytest's
interpreter.

An item fails if its cell has a red verdict. With pytest-xdist, the first worker that needs a
verdict judges all cells, and the other workers read its results. Nothing of patchgate is imported
until the option is given.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from patchgate.inputs.manifest import Patch
    from patchgate.model.results import JudgedCell
    from patchgate.runner.run_settings import Run

_FOLDER = Path(".patchgate", "pytest")
# The file next to the results that names the pytest session in which they were made.
_SESSION = Path(".patchgate", "pytest.session")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("patchgate", "judge a patch of the PyTorch compiler")
    group.addoption(
        "--patchgate", metavar="PATCH", help="judge this patch on the torch of this interpreter"
    )


def pytest_configure(config: pytest.Config) -> None:
    patch = config.getoption("--patchgate")
    if patch:
        config.pluginmanager.register(
            Door(_judgement(Path(patch).resolve(), config)), "patchgate-door"
        )


def _judgement(path: Path, config: pytest.Config) -> Judgement:
    from patchgate.inputs.patch import load_patch
    from patchgate.inputs.project import project_around
    from patchgate.model.errors import UsageError
    from patchgate.runner.run_settings import Run, own_environment

    worker = getattr(config, "workerinput", {})
    try:
        run = Run(
            folder=str(_FOLDER.resolve()),
            patch=str(path),
            project=project_around(path),
            rows=own_environment(),
        )
        return Judgement(
            run,
            load_patch(path),
            worker.get("testrunuid", os.urandom(8).hex()),
            worker.get("workercount"),
        )
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


@dataclass
class Judgement:
    """Everything that this session of pytest knows of the patch."""

    run: Run
    patch: Patch
    session: str  #: the same for all workers of pytest-xdist
    workers: int | None  #: the number of these workers; None without pytest-xdist

    @cached_property
    def cells(self) -> dict[str, JudgedCell]:
        """All cells by name. The first process of the session that asks judges them."""
        from patchgate.runner.journal import Journal
        from patchgate.runs.gate import judge_patch

        _SESSION.parent.mkdir(exist_ok=True)
        with open(_SESSION, "a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            if file.read() != self.session:
                workers = self.workers or len(os.sched_getaffinity(0))
                judge_patch(self.run, self.patch, workers=workers)
                file.truncate(0)
                file.write(self.session)
        return {cell.name: cell for cell in Journal(Path(self.run.folder)).cells()}


class Door:
    """Adds an item for each cell to the items that pytest has collected."""

    def __init__(self, judgement: Judgement) -> None:
        self.judgement = judgement

    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> None:
        from patchgate.runs.gate import planned_cells

        judgement = self.judgement
        for cell in planned_cells(judgement.run, judgement.patch):
            name = f"{judgement.patch.id}[{cell.name}]"
            items.append(
                CellItem.from_parent(session, name=name, cell=cell.name, judgement=judgement)
            )


class CellItem(pytest.Item):
    """A check of one case."""

    def __init__(self, *, cell: str, judgement: Judgement, **rest: Any) -> None:
        super().__init__(**rest)
        self.cell, self.judgement = cell, judgement

    def runtest(self) -> None:
        from patchgate.model.errors import UsageError

        try:
            judged = self.judgement.cells.get(self.cell)
        except UsageError as error:
            pytest.fail(str(error), pytrace=False)
        if judged is None or not judged.verdicts:
            pytest.skip("judged by another check")
        if judged.red:
            lines = (f"{each.code} {each.subject}: {each.actual}" for each in judged.red)
            pytest.fail("\n".join(lines), pytrace=False)
        if not any(verdict.is_judged for verdict in judged.verdicts):
            pytest.skip("; ".join(verdict.actual for verdict in judged.verdicts))

    def reportinfo(self) -> tuple[str, int | None, str]:
        return self.judgement.patch.path, None, self.name
