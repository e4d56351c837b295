"""pytest's side of a run: one item for each instance of a check, spread over pytest-xdist's workers.

`patchgate gate` starts pytest with `--patchgate-run`; `pytest --patchgate PATCH` judges by itself, on its own torch.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import Check, Instance, NothingToJudge, all_checks
from patchgate.checks.framework.instances import cell_name, instances_of, stopped_verdicts, verdicts_of
from patchgate.checks.machine import judge_broken, judge_environment, judge_stopped
from patchgate.inputs.manifest import Patch
from patchgate.inputs.patch import load_patch
from patchgate.inputs.project import project_around
from patchgate.inputs.workloads import workloads_with
from patchgate.model.paths import SUITE, display_path
from patchgate.model.records import Colour, Verdict
from patchgate.model.results import CellEvent
from patchgate.model.serialization import from_dict, to_dict
from patchgate.runner.client import Runner
from patchgate.runner.costs import COSTS
from patchgate.runner.resume_journal import Journal, save_results
from patchgate.runner.run_settings import FOLDER, Run, load_run, own_environment, save_run
from patchgate.runner.start_server import connect_through, shared_servers
from patchgate.runs.content_key import content_key

_VERDICT = "patchgate.verdict"
Judge = Callable[[Iterable[Verdict]], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("patchgate", "judge a patch of the PyTorch compiler")
    group.addoption("--patchgate", metavar="PATCH", help="judge this patch on the torch of this interpreter")
    pipes = "where to read how to ask the servers, and where to write what happens, as JSON"
    group.addoption("--patchgate-pipes", type=int, nargs=2, metavar=("FD", "FD"), default=[None, None], help=pipes)
    group.addoption("--patchgate-run", metavar="FILE", help="the run to carry out, as `patchgate gate` wrote it")


def pytest_configure(config: pytest.Config) -> None:
    run = _run_of(config)
    if run:
        config.pluginmanager.register(GatePlugin(run, config), "patchgate-gate")


def _run_of(config: pytest.Config) -> Run | None:
    """The run that the options name; None where pytest is about something else."""
    path, patch = config.getoption("--patchgate-run"), config.getoption("--patchgate")
    if path:
        return load_run(Path(path))
    if not patch:
        return None
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args[:] = [str(SUITE)]
    at, rows = Path(patch).resolve(), own_environment()
    return Run(
        folder=str(Path(FOLDER).resolve()),
        patch=str(at),
        project=project_around(at),
        rows=rows,
    )


class GatePlugin:
    """The plugin of one run; in a worker of pytest-xdist it uses the servers of the controller."""

    def __init__(self, run: Run, config: pytest.Config) -> None:
        self.run = run
        self.patch = load_patch(Path(run.patch))
        self.servers = contextlib.ExitStack()  # those that this process has started
        self.journal = Journal(run)
        self.judged: dict[str, CellEvent] = {}  # by the name of the cell
        self.broken: list[Verdict] = []  # of what is no cell
        self.given: set[Verdict] = set()  # red, by the instances that this process has judged
        self.planned: set[str] = set()
        self._is_controller = not hasattr(config, "workerinput")
        pipes: list[int | None] = config.getoption("--patchgate-pipes") if self._is_controller else [None, None]
        self._events = pipes[1]
        self.shared: dict[str, dict[str, str]]  # what every worker needs to ask the probes
        self.shared, before = getattr(config, "workerinput", {}).get("patchgate") or self._begin(pipes[0])
        self.before = set(before)  # cells that an interrupted run of the same content has judged
        runner = Runner(
            run=run,
            connect=connect_through(self.shared["broker"]),
            logs=self.shared["logs"],
            identities=self.shared["identities"],
            costs=Path(run.folder) / COSTS,
        )
        self.context = CheckContext(run, self.patch, workloads_with(Path(run.patch), run.project), runner)
        self.context.answers, self.context.costs = Path(run.folder) / "answers", runner.costs

    def _begin(self, pipe: int | None) -> tuple[dict[str, dict[str, str]], list[str]]:
        """What every worker needs: how it asks the probes, by torch release, and the cells that are judged already."""
        if pipe is None:
            shared = self.servers.enter_context(shared_servers(self.run.rows))
        else:
            with open(pipe, encoding="utf-8") as text:
                shared = json.load(text)
        save_run(self.run)
        key = os.urandom(8).hex()
        if self.run.shared_cache:
            key = content_key(self.run, self.patch, shared["identities"])
        self.judged = {cell.ended: cell for cell in self.journal.begin(key)}
        return shared, list(self.judged)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["patchgate"] = self.shared, list(self.before)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if {"check", "instance"} <= set(metafunc.fixturenames):
            pairs = [(check, at) for check in all_checks().values() for at in instances_of(check, self.context)]
            workers = getattr(metafunc.config, "workerinput", {}).get("workercount", 0)
            pairs = _in_turn(pairs, workers, self.run.sooner)
            metafunc.parametrize(("check", "instance"), pairs, ids=[cell_name(*pair) for pair in pairs])

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if _cell(item.nodeid) not in self.before]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:
            self._plan([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Each worker collects the same."""
        self._plan(ids)

    def _plan(self, ids: Iterable[str]) -> None:
        cells = tuple(map(_cell, ids))
        self.planned.update(cells)
        self._write_event(CellEvent(planned=cells))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write_event(CellEvent(started=_cell(nodeid)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            verdicts, cell = _verdicts_in(report), _cell(report.nodeid)
            if report.failed and not any(verdict.colour is Colour.RED for verdict in verdicts):
                verdicts.append(self._unjudged(report))
            self._end(CellEvent(ended=cell, seconds=round(report.duration, 3), verdicts=tuple(verdicts)))

    def _end(self, event: CellEvent) -> None:
        self._write_event(event)
        if not event.ended:
            self.broken += event.verdicts
        elif self._is_controller:
            self.judged[event.ended] = event
            with contextlib.suppress(OSError):  # a full disk, and nothing is left of what was reserved
                self.journal.append(event)

    def _unjudged(self, report: pytest.TestReport) -> Verdict:
        """Why an instance ended without a judgement: its worker was killed, or a defect of ours."""
        if str(report.when) == "???":  # as pytest-xdist reports what a worker was at that is gone
            stopped = stopped_verdicts(self.context, {_cell(report.nodeid)}, "the process that judged it was killed")
            return next(iter(stopped), _broken(report))
        return _broken(report)

    def pytest_report_teststatus(self, report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
        """A red instance is counted as red."""
        red = report.failed and any(verdict.colour is Colour.RED for verdict in _verdicts_in(report))
        return ("red", "R", "RED") if red else None

    def _write_event(self, event: CellEvent) -> None:
        """Tell whoever started this run; its workers have nobody to tell."""
        if self._events is not None:
            os.write(self._events, (json.dumps(to_dict(event)) + "\n").encode())

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self._is_controller:
            return
        self.servers.close()
        left = self.planned.difference(self.judged)
        stopped = stopped_verdicts(self.context, left, "pytest ended before it") if left else []
        missing = [judge_environment(torch, problem) for torch, problem in self.run.problems.items()]
        save_results(self.run, self.judged.values(), [*self.broken, *stopped, *missing])


def _in_turn(
    pairs: list[tuple[Check, Instance]], workers: int, sooner: Collection[str] = ()
) -> list[tuple[Check, Instance]]:
    """The cells `sooner`, then the longest first, so that short ones fill the gaps at the end.

    What is timed comes last: it waits for the device.

    A worker of pytest-xdist begins only when it has the next one too, which no other worker takes from it any more:
    what follows the first of each is short.
    """

    def turn(pair: tuple[Check, Instance]) -> tuple[bool, bool, int]:
        return pair[0].name == "latency", bool(sooner) and cell_name(*pair) not in sooner, -pair[0].seconds

    pairs = sorted(pairs, key=turn)
    timed = [pair for pair in pairs if pair[0].name == "latency"]
    first, rest = pairs[:workers], pairs[workers : len(pairs) - len(timed)]
    middle = max(len(rest) - workers, 0)
    return [*first, *rest[middle:], *rest[:middle], *timed] if rest else pairs


def _cell(nodeid: str) -> str:
    """The id of an instance: what stands in the brackets."""
    return nodeid.partition("[")[2].rpartition("]")[0]


def _verdicts_in(report: pytest.TestReport | pytest.CollectReport) -> list[Verdict]:
    # As JSON: a worker of pytest-xdist sends each text of a table by itself, in Python.
    properties = [json.loads(value) for key, value in getattr(report, "user_properties", []) if key == _VERDICT]
    return [from_dict(Verdict, value, where=report.nodeid) for value in properties]


def _broken(report: pytest.TestReport) -> Verdict:
    """An instance that ended without saying why: our own defect, reported as such."""
    last = str(report.longreprtext).strip().splitlines()[-1] if report.longreprtext else "no message"
    return judge_broken(report.nodeid.rpartition("::")[2], "a verdict", last)


@pytest.fixture
def judge(request: pytest.FixtureRequest) -> Callable[[Check, Instance], None]:
    """Judges one instance of a check; the item fails when one of its verdicts is red."""
    plugin = request.config.pluginmanager.get_plugin("patchgate-gate")
    assert isinstance(plugin, GatePlugin)

    def judge_instance(check: Check, instance: Instance) -> None:
        try:
            verdicts = [_located(one, plugin.patch) for one in verdicts_of(check, instance, plugin.context)]
        except NothingToJudge as reason:
            pytest.skip(str(reason))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            verdicts = [judge_stopped(check.family, instance, check.name, f"the machine failed: {error}")]
        if not verdicts:
            pytest.fail("a check that says nothing has judged nothing", pytrace=False)
        for verdict in verdicts:
            request.node.user_properties.append((_VERDICT, json.dumps(to_dict(verdict))))
        red = {v: f"{v.code} {v.subject}: {v.actual}" for v in verdicts if v.colour is Colour.RED}
        if red and plugin.given.issuperset(red):
            pytest.skip("as another instance says: what must hold first does not")
        plugin.given.update(red)
        if red:
            pytest.fail("\n".join(red.values()), pytrace=False)

    return judge_instance


def _located(verdict: Verdict, patch: Patch) -> Verdict:
    """Whoever wrote a diff has never seen the Python file that stands for it."""
    if patch.diff and (verdict.where or "").startswith(display_path(patch.path)):
        return replace(verdict, where=display_path(patch.diff))
    return verdict
