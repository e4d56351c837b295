"""Carries out cases with pytest-xdist, one item a case: for work that is no check of one patch (fidelity, the corpus).

A module with `work_on(settings)` returns what a worker calls with a case's id; results travel back as JSON.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

Work = Callable[[str], Any]
_RESULT = "patchgate.result"
_INI = "[pytest]\naddopts = -s -p no:terminal -p no:cacheprovider -p no:benchmark\n"


def carry_out(
    module: str,
    settings: Any,
    cases: Sequence[str],
    *,
    workers: int,
    done: Callable[[str, Any], None] | None = None,
    lost: Callable[[str, str], None] | None = None,
) -> dict[str, Any]:
    """The result of each case, by id; `done` gets each as soon as it is there.

    `settings` is JSON for `work_on` of the module. A case that ended without a result goes to `lost` with the reason;
    without `lost` it raises RuntimeError.
    """
    controller = _Controller({"module": module, "settings": settings, "cases": list(cases)}, done)
    with tempfile.TemporaryDirectory(prefix="patchgate-") as folder:
        ini = Path(folder, "pytest.ini")  # not the settings of the project that the caller stands in
        ini.write_text(_INI, encoding="utf-8")
        options = ["-c", str(ini), "--rootdir", folder, "-n", str(workers), "--maxschedchunk", "1", "-p", __name__]
        code = pytest.main([*options, folder], plugins=[controller])
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    for case in cases:
        if case not in controller.results:
            reason = controller.failures.get(case) or next(
                iter(controller.failures.values()), f"pytest ended with {code}"
            )
            if lost is None:
                raise RuntimeError(f"{case} ended without a result (pytest: {code}): {reason}")
            lost(case, reason)
    return controller.results


class _Controller:
    """Tells every worker what to do, and collects the results."""

    def __init__(self, plan: dict[str, Any], done: Callable[[str, Any], None] | None) -> None:
        self.plan, self.done = plan, done
        self.results: dict[str, Any] = {}
        self.failures: dict[str, str] = {}  #: case, or pytest's name of something else that failed -> why

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["patchgate_pool"] = self.plan

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failures.setdefault(report.nodeid.removeprefix("::"), str(report.longreprtext).strip())
        properties: list[tuple[str, Any]] = report.user_properties if report.when == "call" else []
        for case, result in (value for name, value in properties if name == _RESULT):
            self.results[case] = result
            if self.done:
                self.done(case, result)


class _Worker:
    """Makes the cases pytest's items."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.cases: list[str] = plan["cases"]
        self.work: Work = importlib.import_module(plan["module"]).work_on(plan["settings"])

    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        items[:] = [_Item.from_parent(session, name=case, work=self.work) for case in self.cases]


class _Item(pytest.Item):
    """One case."""

    def __init__(self, *, work: Work, **rest: Any) -> None:
        super().__init__(**rest)
        self.work = work

    def runtest(self) -> None:
        self.user_properties.append((_RESULT, [self.name, self.work(self.name)]))


def pytest_configure(config: pytest.Config) -> None:
    """In a worker of `carry_out`."""
    plan = getattr(config, "workerinput", {}).get("patchgate_pool")
    if plan:
        config.pluginmanager.register(_Worker(plan), "patchgate-pool")
