"""A sweep reports first which verdicts turned since the run before, failures by cause, and flaky
cells.
"""

import re

import pytest

from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.results import VerdictKey, VerdictSummary
from patchgate.report.html.page_data import Page
from patchgate.report.html.page_file import colours_over_runs, render_html
from patchgate.runner.run_results import RunResults
from patchgate.runs.history.regressions import regressions_in

GREEN, RED = VerdictSummary("green", "PG300", "4"), VerdictSummary("red", "PG301", "6")
GREY = VerdictSummary("grey", "PG905", "")
OTHER = VerdictSummary("red", "PG301", "7")


def cell(torch="2.11.0", fact="loads"):
    return VerdictKey("mine", torch, "kernels", "stack.h200", fact)


def lines(runs):
    """Return the text of the page's list items about these runs, by heading."""
    page = Page()
    patch = Patch(id="mine", path="p.py", source="", claims=Claims(title="mine"))
    page.add(RunResults(patch=patch, torches=("2.11.0", "2.12.1"), verdicts=()))
    text = render_html("sweep", page, at="now", code=1, regressions=regressions_in(runs))
    section = text.split('id="news">')[1].split("</section>")[0]
    parts = re.split(r"<h3>", section)
    plain = [
        [re.sub(r"<[^>]+>", "", item) for item in re.findall(r"<li.*?</li>", part)]
        for part in parts
    ]
    return section, dict(zip([part.split("<")[0] for part in parts], plain, strict=True))


def test_a_cell_that_turned_leads_to_its_place_on_the_page():
    section, found = lines(
        [{cell(): GREEN, cell("2.12.1"): RED}, {cell(): RED, cell("2.12.1"): RED}]
    )
    assert found["Since the last run"] == [
        "mine on torch 2.11.0: kernels stack.h200 loads green -&gt; red (PG301)"
    ]
    assert 'href="#mine/kernels/stack.h200@2.11.0"' in section


def test_a_first_run_has_causes_but_nothing_that_turned():
    section, found = lines([{cell(): RED, cell("2.12.1"): OTHER}])
    assert "This is the first run of this history." in section
    assert (
        "PG301 kernel facts changed" in section
        and "2 checks: N" in section
        and "Flaky" not in found
    )
    assert found["Failures by cause"] == [
        "mine on torch 2.11.0: kernels stack.h200 loads",
        "mine on torch 2.12.1: kernels stack.h200 loads",
    ]


@pytest.mark.parametrize(
    ("runs", "told"),
    [([], "This is the first run"), ([{cell(): GREEN}, {cell(): GREEN}], "No check turned.")],
)
def test_where_nothing_turned_it_says_why(runs, told):
    section, found = lines(runs)
    assert told in section
    assert list(found.values()) == [[]]


def test_a_long_list_is_cut_and_counted():
    names = [f"fact{number:02}" for number in range(25)]
    section, found = lines(
        [{cell(fact=name): GREEN for name in names}, {cell(fact=name): RED for name in names}]
    )
    for items in found.values():
        assert (len(items), items[-1]) == (21, "and 5 more")
    assert "25 checks" in section


def test_a_cell_that_turns_again_and_again_is_flaky():
    assert len(lines([{cell(): colour} for colour in (GREEN, RED, GREEN, RED)])[1]["Flaky"]) == 1


def test_the_colours_of_a_cell_are_reported_run_by_run_where_they_are_not_all_one():
    other = cell(fact="stores")
    runs = [{cell("2.12.1"): RED}, {cell(): GREEN, other: RED, cell("2.12.1"): RED}, {cell(): GREY}]
    assert colours_over_runs(runs) == {
        ("mine", "kernels", "stack.h200", "2.11.0"): "-r?",
        ("mine", "kernels", "stack.h200", "2.12.1"): "rr-",
    }
    assert colours_over_runs(runs[:1]) == {}
