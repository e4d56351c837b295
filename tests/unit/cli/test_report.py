"""Writing the page: with the history that there is, and without one."""

import json
import os
import re

from patchgate import __version__
from patchgate.cli.report import provenance, write_html
from patchgate.inputs.manifest import Claims, Patch
from patchgate.inputs.patch import load_patch
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Expectation, Observation
from patchgate.model.results import JudgedCell
from patchgate.report.formats import JudgedPatch
from patchgate.runner.journal import Journal
from patchgate.runner.run_results import ComparedCase, RunResults
from patchgate.runner.run_settings import Run
from patchgate.runs.history.store import History

PATCH = Patch(id="mine", path="p.py", source="", claims=Claims(title="t"))
CASE = Case(torch="2.11.0", device="h200", workload="stack", patch="mine")


def observed(value):
    return Observation(case=CASE, facts={"loads.max": value})


def judged():
    case = ComparedCase(
        case=CASE,
        golden=Expectation(),
        golden_unpatched=Expectation(),
        unpatched=None,
        patched=observed(5),
        code=None,
        on="",
    )
    return RunResults(patch=PATCH, torches=("2.11.0",), verdicts=(), compared=(case,))


def written(folder):
    (folder / "verdicts.json").write_text("")
    os.utime(folder / "verdicts.json", (0, 0))
    page, history = folder / "report.html", folder / "history.sqlite"
    write_html(page, "mine", [judged()], since=folder / "verdicts.json", code=0, history=history)
    text = page.read_text()
    return text, json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_values_of_earlier_runs_are_on_the_page(folder):
    history = History(folder / "history.sqlite")
    for number, value in enumerate((4, 4, 5)):
        history.record(f"r{number}", f"2026-01-0{number + 1}", "mine", [], [observed(value)])
    history.close()
    data = written(folder)[1]
    fact, nothing, past = data["pool"].index("loads.max"), [-1], ["4", "4", "5"]
    shape = data["shapes"].index(["fact", "unpatched", "patched"])
    rows = [row for row in data["pool"] if isinstance(row, list) and row[:2] == [shape, fact]]
    assert [[data["pool"][at] for at in row[2:]] for row in rows] == [
        [nothing, [-1, *map(data["pool"].index, past)]]
    ]


def test_without_a_history_there_is_none_and_none_is_made(folder):
    text, data = written(folder)
    assert ["fact", "unpatched", "patched"] not in data["shapes"]
    assert not (folder / "history.sqlite").exists()
    assert "judged 1970-01-01 00:00 UTC" in text


def test_a_history_that_is_none_is_said_on_the_page_and_keeps_nobody_from_reading_it(folder):
    (folder / "history.sqlite").write_text("no database, but longer than the header of one" * 9)
    text, data = written(folder)
    assert "No history is shown." in text
    assert ["fact", "unpatched", "patched"] not in data["shapes"]


def test_a_page_is_of_a_version_a_command_and_a_machine(folder):
    (folder / "mine.py").write_text("")
    run = Run(folder=str(folder), patch=str(folder / "mine.py"), rows={"2.11.0": "python"})
    judged = JudgedPatch(run=run, patch=load_patch(folder / "mine.py"), verdicts=[])
    journal = Journal(folder)
    journal.begin("key")
    for name, seconds in (("a", 60.0), ("b", 61.0)):
        journal.append(JudgedCell(name=name, seconds=seconds))
    said = provenance(judged)
    assert said[0] == f"patchgate {__version__}"
    assert "2 checks, 2 min of work" in said
    assert said[-1].startswith("patchgate gate mine.py --row 2.11.0=python")
    assert not [each for each in said if "commit" in each]  # no repository


def test_a_code_that_no_check_has_is_refused(command, results, folder):
    results(Kind.REGRESSED)
    verdicts = folder / "out" / "verdicts.json"
    verdicts.write_text(verdicts.read_text().replace("PG301", "PG1<b>"))
    for typed in (("report", "--folder", "out"), ("comment", "out")):
        code, printed, wrong = command(*typed)
        assert (code, printed, "no such code" in wrong) == (2, "", True)
