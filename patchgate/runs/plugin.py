"""pytest's door: turns a run into cells, gives each cell its fixtures, and gathers the verdicts.

Decides how cells are named, grouped and spread over pytest-xdist's workers.
Refuses to judge: cells do, with `patchgate.checks.judge`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import Any

import pytest

from patchgate.checks.codes import verdict_of
from patchgate.checks.context import Trial
from patchgate.checks.instances import AXES, Cell, cells_of
from patchgate.checks.judge.machine import judge_row
from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import workloads_with
from patchgate.model.errors import UsageError
from patchgate.model.files import write_atomically
from patchgate.model.paths import shown
from patchgate.model.records import Colour, Kind, Patch, Verdict
from patchgate.model.serialization import from_dict, to_dict
from patchgate.model.text import escape_control
from patchgate.runner.cache import Cache
from patchgate.runner.client import Runner
from patchgate.runner.identity import identity_of
from patchgate.runner.run import TIMES, Run, load_run, save_verdicts
from patchgate.runner.server import Server, start_server

_VERDICT = "patchgate.verdict"
_LINE = 200
Judge = Callable[[Iterable[Verdict]], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("patchgate", "judge a patch of the PyTorch compiler")
    group.addoption("--patchgate-run", metavar="FILE", help="the run to carry out, as `patchgate gate` wrote it")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "xdist_group: cells that share an observation run on one worker")
    path = config.getoption("--patchgate-run")
    if path:
        config.pluginmanager.register(Gate(load_run(Path(path)), config), "patchgate-gate")


class Gate:
    """The plugin of one run; in a worker of pytest-xdist it uses the servers of the controller."""

    def __init__(self, run: Run, config: pytest.Config) -> None:
        self.run = run
        self._config = config
        self.patch = load_patch(Path(run.patch))
        self.workloads = workloads_with(Path(run.patch))
        self.servers: list[Server] = []
        self.verdicts: list[Verdict] = []
        self.times: dict[str, float] = {}
        given: dict[str, dict[str, str]] | None = getattr(config, "workerinput", {}).get("patchgate")
        if given is None:
            self.servers = [start_server(torch, python) for torch, python in run.rows.items()]
            given = {
                "sockets": {server.torch: server.socket for server in self.servers},
                "logs": {server.torch: server.log for server in self.servers},
                "identities": {torch: identity_of(python) for torch, python in run.rows.items() if run.shelf},
            }
        self.given = given
        shelf = Cache(Path(run.shelf)) if run.shelf else None
        runner = Runner(
            store=run.store,
            artifacts=Path(run.folder) / "code",
            limits=run.limits,
            shelf=shelf,
            reuse=run.reuse,
            nightly=run.nightly,
            **given,
        )
        self.trial = Trial(run, self.patch, self.workloads, runner)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["patchgate"] = self.given

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        check = metafunc.module.__name__.rpartition("test_")[2]
        cells = cells_of(check, metafunc.fixturenames, self.run, self.workloads, self.patch.claims.symptom)
        names = [name for name in AXES if name in metafunc.fixturenames]
        if names:
            metafunc.parametrize(names, [_parameter(cell) for cell in cells])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.times[report.nodeid.replace(".py::", ".")] = round(report.duration, 3)
            verdicts = _verdicts_in(report)
            self.verdicts += verdicts
            if any(verdict.colour is Colour.RED for verdict in verdicts):
                self._say_at_once(verdicts)
                return  # it failed because of what it found
        if report.failed:
            self.verdicts.append(_broken(report))

    def pytest_report_teststatus(self, report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
        """A red cell is counted as red, and has its line instead of a letter."""
        red = report.failed and any(verdict.colour is Colour.RED for verdict in _verdicts_in(report))
        return ("red", "", "") if red else None

    def _say_at_once(self, verdicts: list[Verdict]) -> None:
        """Nobody should wait for the last cell to learn that the first one is red. Workers have no terminal."""
        if hasattr(self._config, "workerinput"):
            return
        terminal = self._config.get_terminal_writer()
        if terminal.width_of_current_line:
            terminal.line()
        for verdict in verdicts:
            if verdict.colour is Colour.RED:
                place = f"{verdict.check} {verdict.subject}" + (f" on torch {verdict.torch}" if verdict.torch else "")
                told = shorten(f"{verdict.code} {place}: {verdict.actual}", _LINE, placeholder=" ...")
                terminal.line(escape_control(told), red=True)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            return
        for server in self.servers:
            server.stop()
        self.verdicts += [judge_row(torch, problem) for torch, problem in self.run.problems.items()]
        folder = Path(self.run.folder)
        save_verdicts(folder, list(dict.fromkeys(self.verdicts)))
        write_atomically(folder / TIMES, json.dumps(self.times, indent=1) + "\n")


def _verdicts_in(report: pytest.TestReport | pytest.CollectReport) -> list[Verdict]:
    told = [value for key, value in getattr(report, "user_properties", []) if key == _VERDICT]
    return [from_dict(Verdict, value, where=report.nodeid) for value in told]


def _parameter(cell: Cell) -> Any:
    return pytest.param(*cell.values.values(), id=cell.id, marks=pytest.mark.xdist_group(cell.group))


def _broken(report: pytest.TestReport) -> Verdict:
    """A cell that ended without saying why: our own defect, said as such."""
    told = str(report.longreprtext).strip().splitlines()[-1] if report.longreprtext else "no message"
    return verdict_of("machine", "PG904", Kind.INFRA, "", report.nodeid.rpartition("::")[2], "a verdict", told)


@pytest.fixture(scope="session")
def trial(pytestconfig: pytest.Config) -> Trial:
    found = pytestconfig.pluginmanager.get_plugin("patchgate-gate")
    if not isinstance(found, Gate):
        raise UsageError("no run", where="--patchgate-run", next="patchgate gate PATCH")
    return found.trial


@pytest.fixture(scope="session")
def patch(trial: Trial) -> Patch:
    return trial.patch


@pytest.fixture
def judge(request: pytest.FixtureRequest, patch: Patch) -> Judge:
    """Takes a cell's verdicts; the cell fails when one of them is red."""

    def take(verdicts: Iterable[Verdict]) -> None:
        listed = [_located(verdict, patch) for verdict in verdicts]
        assert listed, "a check that says nothing has judged nothing"
        for verdict in listed:
            request.node.user_properties.append((_VERDICT, to_dict(verdict)))
        red = [f"{v.code} {v.subject}: {v.actual}" for v in listed if v.colour is Colour.RED]
        if red:
            pytest.fail("\n".join(red), pytrace=False)

    return take


def _located(verdict: Verdict, patch: Patch) -> Verdict:
    """Whoever wrote a diff has never seen the Python file that stands for it."""
    if patch.diff and (verdict.where or "").startswith(shown(patch.path)):
        return replace(verdict, where=shown(patch.diff))
    return verdict
