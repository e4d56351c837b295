"""The page in a real browser: reading, filtering, drilling down, keyboard, a phone, both themes,
foreign text.
"""

import os
from importlib.util import find_spec

import pytest
import samples
from selenium.webdriver.common.keys import Keys

from benchmarks.report.browser import installed, started
from benchmarks.report.stored import load_run, write_page
from patchgate.inputs.manifest import Claims, Patch, Symptom
from patchgate.model.policy import Kind
from patchgate.model.public_model_figures import Change, Impact, ModelImpact
from patchgate.model.records import Case, Command, Expectation, Observation
from patchgate.model.results import VerdictKey, VerdictSummary
from patchgate.report.html.page_data import Page
from patchgate.report.html.page_file import render_html
from patchgate.report.models import impact_html
from patchgate.runner.run_results import ComparedCase, RunResults
from patchgate.runs.history.regressions import regressions_in

# One browser, so one worker.
pytestmark = pytest.mark.xdist_group("browser")

NAME = "<script>alert(1)</script>"
TORCHES = ("2.11.0", "2.12.1")
CELL = "%3Cscript%3Ealert(1)%3C%2Fscript%3E/kernels/stack.h200@2.11.0"
BAD = """<!doctype html><title>bad</title><body style="background: #fff">
<p style="color: #ccc; width: 3000px">faint and wide</p>
<img src="http://127.0.0.1:9/x.png"><script>throw new Error("seen")</script>"""


def need(there, reason):
    """Skip without it; where a browser is required fail, so that nobody takes the skip for a
    look.
    """
    if not there:
        (pytest.fail if os.environ.get("PATCHGATE_BROWSER") == "required" else pytest.skip)(reason)


@pytest.fixture
def axe(browser):
    need(find_spec("axe_playwright_python"), "no axe-core: pip install --group test")
    return browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    pair = installed()
    need(pair, "no chromium and chromedriver: apt-get install chromium chromium-driver")
    with started(*pair, tmp_path_factory.mktemp("profile")) as made:
        yield made


def verdict(torch, check, subject, kind=Kind.PASS, code="PG300", text="4"):
    told = {"expected": "4", "actual": text, "why": text, "advice": text}
    commands = (Command(name="gate", arguments=(text,), when="then"),)
    return samples.verdict(kind, code, check, torch, subject, **told, commands=commands)


def compared(torch, after):
    case = Case(torch=torch, device="h200", workload="stack", patch=NAME)
    bare = Case(torch=torch, device="h200", workload="stack")
    before = {"loads": (2, 1, 6), "loads.max": 6, NAME: 1}
    now = {"loads": (2, 1, after), "loads.max": after, NAME: 1}
    mm = "    extern_kernels.mm(buf0, arg1_1, out=buf1)"  # its calls are a table
    sides = f"y = 'before'\n{mm}", f"y = 'after'\n{mm}\n{mm}"
    code = (f"x = 1  # {NAME}\n{side}" for side in sides)
    return ComparedCase(
        case=case,
        golden=Expectation(facts={"loads": (2, 1, 4), "loads.max": 4, NAME: 1}),
        golden_unpatched=Expectation(facts=before),
        unpatched=Observation(case=bare, facts=before),
        patched=Observation(case=case, facts=now, environment={"triton": NAME}),
        code=(next(code), next(code)),
        on="simulated (h200)",
    )


def judged(name=NAME, items=3):
    """Red facts on the first release, a line of greens, one that could not be judged, and foreign
    text everywhere.
    """
    symptom = Symptom(workload="stack", device="h200", fact="loads.max", predicate="> 4")
    patch = Patch(
        id=name, path="p.py", source="", claims=Claims(title=name, source=name, symptom=symptom)
    )
    told = [
        verdict("2.11.0", "kernels", "stack.h200 loads.max", Kind.REGRESSED, "PG301", f"5 {NAME}"),
        verdict("2.12.1", "kernels", "stack.h200 loads.max"),
        verdict("2.11.0", "parity", f"{NAME} bits", Kind.UNMEASURED, "PG508"),
        *(verdict(torch, "graph", f"item{n:05}.h200 x") for n in range(items) for torch in TORCHES),
    ]
    return RunResults(
        patch=patch,
        torches=TORCHES,
        verdicts=tuple(told),
        compared=(compared("2.11.0", 5), compared("2.12.1", 4)) if name == NAME else (),
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return written(tmp_path_factory.mktemp("page"), judged())


def written(folder, *patches, told=None):
    made = Page(past=lambda workload, device: {("2.11.0", NAME, "loads.max"): ["4", "5"]})
    for one in patches:
        made.add(one)
    path = folder / "report.html"
    title = "a report" if len(patches) > 1 else NAME
    path.write_text(render_html(title, made, at="now", code=1, regressions=told), encoding="utf-8")
    return path


def lines(browser):
    return browser.all("#grid .inner [role=rowheader]", "title")


def test_what_is_wrong_is_seen(browser, tmp_path):
    path = tmp_path / "bad.html"
    path.write_text(BAD)
    browser.open(path)
    assert [len(browser.errors()) >= 1, len(browser.faint()), browser.too_wide()] == [True, 1, True]
    assert browser.requests() == ["http://127.0.0.1:9/x.png"]


def test_axe_sees_what_is_wrong(axe, tmp_path):
    path = tmp_path / "bad.html"
    path.write_text(BAD)
    axe.open(path)
    rules = {line.partition(":")[0] for line in axe.violations()}
    assert {"color-contrast", "image-alt", "html-has-lang"} <= rules


def test_the_page_opens_without_error_or_request_and_foreign_text_is_text(browser, page):
    browser.open(page, f"#{CELL}")
    browser.run("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert (browser.errors(), browser.requests()) == ([], [])
    assert browser.one("h1").text == NAME
    assert NAME in browser.one("#cell-body").text
    assert browser.run("return document.scripts.length") == 2, "its data and its script"


def test_text_that_would_become_markup_is_refused_by_the_policy(browser, page):
    browser.open(page)
    tried = (
        "try { document.body.innerHTML = '<b>x</b>'; return 'done' } catch (error) { return "
        "error.name }"
    )
    assert browser.run(tried) == "TypeError"


def test_the_filter_shows_lines_with_that_verdict_only(browser, page):
    browser.open(page)
    assert lines(browser)[:2] == ["kernels", "stack.h200"]
    browser.one("input[value=green]").click()
    assert lines(browser) == [
        "kernels",
        "stack.h200",
        "graph",
        *(f"item0000{n}.h200" for n in range(3)),
    ]
    assert browser.one("#shown").text == "4 of 5 lines"
    browser.one("input[value=grey]").click()
    assert lines(browser) == ["parity", NAME]
    browser.one("input[value=all]").click()
    browser.one("input[type=search]").send_keys("item00001")
    assert lines(browser) == ["graph", "item00001.h200"]
    browser.one("option[value=PG301]").click()
    assert browser.one("#shown").text == "0 of 5 lines: nothing has this result"


def test_a_cell_is_drilled_down_to_three_columns_the_plot_the_diff_and_the_history(browser, page):
    browser.open(page)
    browser.one(".finding.red a.evidence").click()
    assert browser.one("#cell-title").text == "kernels · stack.h200 · torch 2.11.0"
    heads = browser.all(".facts thead th")
    assert heads == ["fact", "golden", "unpatched", "patched", "result", "history"]
    first = browser.all(".facts tbody tr:first-child > *")
    assert first[:5] == ["loads.max", "4", "6", "5\N{MINUS SIGN}17 %", "regressed PG301"]
    assert browser.all(".facts svg", "aria-label") == ["loads.max, 2 runs: 4, then 5"]
    assert browser.all("#cell figure svg", "ariaLabel") == [
        "loads per distinct kernel: unpatched 2 1 6, patched 2 1 5"
    ]
    assert browser.all(".code .gone code, .code .come code") == [
        "y = 'before'",
        "y = 'after'",
        "    extern_kernels.mm(buf0, arg1_1, out=buf1)",
    ]
    assert len(browser.all(".facts tbody tr")) == 2
    browser.one(".toggle input").click()
    assert len(browser.all(".facts tbody tr")) == 3


def test_the_keyboard_goes_everywhere_and_its_place_is_seen(browser, page):
    browser.open(page)
    browser.one("input[type=search]").click()
    browser.type(Keys.TAB, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    assert (
        browser.focused("aria-label") == f"{NAME} kernels stack.h200 on torch 2.11.0: 1 red PG301"
    )
    style = (
        "const style = getComputedStyle(document.activeElement); return style.outlineStyle + "
        "style.outlineWidth"
    )
    assert browser.run(style) == "solid3px"
    browser.type(Keys.ENTER)
    assert browser.run("return document.querySelector('dialog').open")
    browser.type(Keys.ESCAPE)
    assert not browser.run("return document.querySelector('dialog').open")
    assert browser.focused("data-at") == "1 1"
    browser.type(Keys.HOME, Keys.ARROW_LEFT, Keys.ENTER)
    assert lines(browser)[:2] == ["kernels", "graph"], "a line is folded"
    assert browser.run("return document.activeElement.parentElement.ariaExpanded") == "false"


def test_back_closes_a_cell_and_an_address_opens_it(browser, page):
    browser.open(page, f"#{CELL}")
    assert browser.run("return document.querySelector('dialog').open")
    browser.run("location.hash = '#matrix'")
    browser.settle()
    assert not browser.run("return document.querySelector('dialog').open")
    browser.open(page, "#nothing/like/this@2.11.0")
    assert (browser.errors(), browser.run("return document.querySelector('dialog').open")) == (
        [],
        False,
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_stands_out_in_either_theme(browser, page, theme):
    browser.open(page, theme=theme)
    browser.run("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert browser.faint() == []
    browser.open(page, f"#{CELL}", theme=theme)
    assert browser.faint("dialog") == []
    ground = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(255, 255, 255)" if theme == "light" else "rgb(14, 18, 23)")


@pytest.mark.parametrize("width", [320, 360, 390])
def test_on_a_phone_the_page_never_scrolls_sideways(browser, page, width):
    browser.open(page, width=width, height=640)
    browser.run("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert not browser.too_wide()
    browser.open(page, f"#{CELL}", width=width, height=640)
    assert not browser.too_wide("dialog")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Every kind of page: made up with foreign text, a stored run as people read it, a sweep with
    what has turned.
    """
    key = VerdictKey(NAME, "2.11.0", "kernels", "stack.h200", "loads.max")
    runs = [
        {key: VerdictSummary("green", "PG300", "4")},
        {key: VerdictSummary("red", "PG301", "5")},
    ]
    gate, stored, sweep = (tmp_path_factory.mktemp(name) for name in ("gate", "stored", "sweep"))
    return {
        "made up": (written(gate, judged()), f"#{CELL}"),
        "vllm-42686": (
            write_page(stored / "report.html", load_run("vllm-42686")),
            "#vllm-42686/parity/decoder.cpu@2.11.0",
        ),
        "sweep": (written(sweep, judged(), judged("sound"), told=regressions_in(runs)), f"#{CELL}"),
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", ["made up", "vllm-42686", "sweep"])
def test_axe_finds_no_violation(axe, pages, name, width, theme):
    path, cell = pages[name]
    axe.open(path, width=width, theme=theme)
    assert axe.violations() == []
    axe.run("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert axe.violations() == []
    axe.open(path, cell, width=width, theme=theme)
    assert axe.run("return document.querySelector('dialog').open")
    assert (axe.violations(), axe.errors()) == ([], [])


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_of_an_impact_on_models_is_whole_readable_and_asks_for_nothing(
    axe, tmp_path, width, theme
):
    rows = [
        ModelImpact(
            model=name,
            changes={
                "bytes": Change(before=100, after=after),
                "kernels": Change(before=1, after=2),
            },
        )
        for name, after in ((NAME, 150), ("llama-3-8b", 60), ("bert", 100))
    ]
    impact = Impact(
        before="unpatched", after=NAME, rows=(ModelImpact(model="gpt", failed=NAME), *rows)
    )
    path = tmp_path / "impact.html"
    path.write_text(impact_html(NAME, impact, at="now"), encoding="utf-8")
    axe.open(path, width=width, theme=theme)
    assert (axe.violations(), axe.errors(), axe.requests(), axe.too_wide()) == ([], [], [], False)
    assert axe.all("tbody .badge") == ["more bytes", "fewer bytes"]


# The keyboard must reach one of a group of radio buttons, and one cell of the matrix.
CONTROLS = """
const seen = new Set();
return [...document.querySelectorAll("a[href], button, select, input, summary, [tabindex='0']")].filter((e) => {
  if (!e.checkVisibility() && !e.classList.contains("skip")) return false;
  const group = e.type === "radio" ? e.name : null;
  return group === null || (!seen.has(group) && seen.add(group));
}).length"""
# The place of the focus: an outline of its own, or of the label of a radio button.
FOCUS = """
const at = document.activeElement;
const shown = at.type === "radio" ? at.nextElementSibling : at;
const style = getComputedStyle(shown);
const visible = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
return [at === document.body, visible, at.outerHTML.slice(0, 120)]"""


@pytest.mark.parametrize("name", ["made up", "vllm-42686", "sweep"])
def test_tab_reaches_every_control_and_each_shows_its_focus(browser, pages, name):
    browser.open(pages[name][0])
    browser.run("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    controls, reached = browser.run(CONTROLS), []
    assert controls
    for _ in range(controls):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        nowhere, visible, element = browser.run(FOCUS)
        assert not nowhere, (
            f"only {len(reached)} of {controls} controls are reached, the last is {reached[-1]}"
        )
        assert visible, element
        reached.append(element)


def test_no_colour_stands_alone(browser, pages):
    for path, cell in pages.values():
        for part in ("", cell):
            browser.open(path, part)
            coloured = browser.all(".badge, #grid .cell.red, #grid .cell.green, #grid .cell.grey")
            words = (
                "\N{CHECK MARK}",
                "\N{BALLOT X}",
                "?",
                "new",
                "still",
                "closed",
                "newly silent",
            )
            assert coloured
            assert [text for text in coloured if not any(word in text for word in words)] == []


def test_on_paper_everything_is_open_and_nothing_needs_a_click(browser, pages):
    path, _ = pages["vllm-42686"]
    browser.open(path, media="print", theme="dark")
    assert len(browser.all("details:not([open])")) > 0
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.all("details:not([open])") == []
    assert [len(browser.all("#grid .inner .row")) + 1] == [
        int(n) for n in browser.all("#grid", "ariaRowCount")
    ]
    assert (
        browser.run("return getComputedStyle(document.body).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    assert [browser.one(part).is_displayed() for part in ("form", ".copy")] == [False, False]
    assert browser.faint() == []
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert len(browser.all("details:not([open])")) > 0


def test_the_changes_of_a_sweep_lead_to_their_cells(browser, tmp_path):
    key = VerdictKey(NAME, "2.11.0", "kernels", "stack.h200", "loads.max")
    runs = [
        {key: VerdictSummary("green", "PG300", "4")},
        {key: VerdictSummary("red", "PG301", "5")},
    ]
    told = regressions_in(runs)
    browser.open(written(tmp_path, judged(), judged("sound"), told=told))
    browser.one("section ul a").click()
    assert browser.one("#cell-title").text == f"{NAME} · kernels · stack.h200 · torch 2.11.0"
    assert "last 2 runs, oldest first: ✓ green, ✗ red" in browser.one("#cell-body").text
    assert (browser.errors(), browser.faint()) == ([], [])


# Before a merge five thousand, of which most are not on the screen either.
@pytest.mark.parametrize("cells", [1_000, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_fifty_thousand_cells_are_few_elements_and_all_can_be_reached(browser, tmp_path, cells):
    browser.open(written(tmp_path, *(judged(name, cells) for name in "abcde")))
    assert browser.errors() == []
    assert browser.one("#shown").text == f"{5 * cells + 10} of {5 * cells + 10} lines"
    assert lines(browser) == list("abcde")
    browser.one("input[value=green]").click()
    assert len(browser.all("#grid *")) < 1000
    browser.run("document.querySelector('#grid [tabindex=\"0\"]').focus()")
    browser.type(Keys.END)
    assert browser.run("return document.activeElement.title") == f"item{cells - 1:05}.h200"
    browser.type(Keys.ARROW_RIGHT, Keys.ENTER)
    assert browser.one("#cell-title").text == f"e · graph · item{cells - 1:05}.h200 · torch 2.11.0"
