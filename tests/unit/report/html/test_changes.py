"""What a sweep reports first: what turned since the run before, failures by cause, and flaky cells."""

from patchgate.model.results import VerdictKey, VerdictSummary
from patchgate.report.html.changes import Line, news
from patchgate.runs.history.regressions import regressions_in

GREEN, RED = VerdictSummary("green", "PG300", "4"), VerdictSummary("red", "PG301", "6")
GREY = VerdictSummary("grey", "PG905", "")
OTHER = VerdictSummary("red", "PG301", "7")


def cell(torch="2.11.0", subject="stack.h200 loads"):
    return VerdictKey("mine", torch, "kernels", *subject.split())


def news_of(runs):
    return news(regressions_in(runs))


def line(torch="2.11.0", how="", subject="stack.h200 loads"):
    return Line(address=("mine", "kernels", "stack.h200", torch), subject=subject, how=how)


def test_a_cell_that_turned_leads_to_its_place_on_the_page():
    told = news_of([{cell(): GREEN, cell("2.12.1"): RED}, {cell(): RED, cell("2.12.1"): RED}])
    assert (told.first, told.turned) == (False, (line(how="green -> red (PG301)"),))


def test_a_first_run_has_causes_but_nothing_that_turned():
    told = news_of([{cell(): RED, cell("2.12.1"): OTHER}])
    assert (told.first, told.turned, told.flaky) == (True, (), ())
    assert [(c.bucket, c.code, c.title, c.count) for c in told.causes] == [("new", "PG301", "kernel facts changed", 2)]
    assert told.causes[0].lines == (line(), line("2.12.1"))


def test_no_run_is_no_news():
    assert news_of([]).causes == ()


def test_a_long_list_is_cut_and_counted():
    names = [f"stack.h200 fact{number:02}" for number in range(25)]
    told = news_of([{cell(subject=name): GREEN for name in names}, {cell(subject=name): RED for name in names}])
    assert (len(told.turned), told.more, told.causes[0].count, len(told.causes[0].lines)) == (20, 5, 25, 20)


def test_a_cell_that_turns_again_and_again_is_flaky():
    assert news_of([{cell(): colour} for colour in (GREEN, RED, GREEN, RED)]).flaky == (line(),)


def test_the_colours_of_a_cell_are_told_run_by_run_where_they_are_not_all_one():
    other = cell(subject="stack.h200 stores")
    runs = [
        {cell("2.12.1"): RED},
        {cell(): GREEN, other: RED, cell("2.12.1"): RED},
        {cell(): GREY},
    ]
    assert news_of(runs).turns == {
        ("mine", "kernels", "stack.h200", "2.11.0"): "-r?",
        ("mine", "kernels", "stack.h200", "2.12.1"): "rr-",
    }
    assert news_of(runs[:1]).turns == {}
