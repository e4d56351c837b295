"""The page as a file: nothing foreign becomes markup, nothing is loaded, and only its own script
may run.
"""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import samples
from hypothesis import example, given
from hypothesis import strategies as st

from patchgate.inputs.manifest import Claims, Patch
from patchgate.inputs.patch import load_patch
from patchgate.model.paths import ROOT
from patchgate.model.policy import Kind
from patchgate.model.records import Command
from patchgate.model.results import VerdictKey, VerdictSummary
from patchgate.model.statistics import Interval
from patchgate.report.html.page_data import Page
from patchgate.report.html.page_file import (
    _FILES,
    _SCRIPTS,
    address,
    embedded,
    render_html,
)
from patchgate.runner.run_results import RunResults, TimeRatio
from patchgate.runs.history.regressions import regressions_in

SCRIPT = "<script>alert(1)</script>"
HOSTILE = f"""{SCRIPT}</script><!--<script>]]>"'`&amp;{{{{ 7 * 7 }}}}{{% raw %}}\u2028\ud800<img src=x onerror=alert(2)>"""


class Elements(HTMLParser):
    """Every element with its attributes, and the text of the scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.found, self.raw, self.ids = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, text):
        if self.found and self.found[-1][0] in ("script", "style") and text.strip():
            self.raw.append(text)


def verdict(text, kind=Kind.REGRESSED):
    commands = (Command(name=text, arguments=(text,), when=text),)
    told = dict.fromkeys(("expected", "actual", "where", "why", "advice"), text)
    return samples.verdict(kind, "PG301", torch="2.11.0", subject=text, **told, commands=commands)


def made(text, title="mine", source=""):
    patch = Patch(id=title, path="p.py", source="", claims=Claims(title=title, source=source))
    page = Page()
    page.add(
        RunResults(
            patch=patch,
            torches=("2.11.0",),
            verdicts=(verdict(text), verdict("stack.h200 x", Kind.PASS)),
        )
    )
    return render_html(title, page, at="now", code=1)


def tags(text):
    return [tag for tag, _ in Elements(text).found]


@example(HOSTILE)
@given(st.text() | st.text(st.sampled_from("<>/!-'\"&scriptSCRIPT{}%#")))
def test_the_text_of_a_patch_adds_no_element(text):
    assert tags(made(f"stack {text}", f"mine {text}")) == tags(made("stack x", "mine"))


def test_a_patch_that_is_named_like_a_script_stays_a_name():
    told = made("stack.h200 x", SCRIPT)
    assert SCRIPT not in told
    assert told.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 2
    assert tags(told).count("script") == 2, "its data and its script"


@pytest.mark.parametrize(
    "source", ["javascript:alert(1)", "data:text/html,x", "java\tscript:alert(1)", " https://x"]
)
def test_only_an_address_of_the_web_becomes_a_link(source):
    links = [
        attributes["href"]
        for tag, attributes in Elements(made("x", source=source)).found
        if tag == "a"
    ]
    assert all(link.startswith("#") for link in links)


def test_the_source_of_a_patch_is_a_link_and_what_stands_behind_it_is_not():
    told = Elements(made("x", source="https://example.org/1 (reverted)")).found
    assert [a["href"] for tag, a in told if tag == "a" and not a["href"].startswith("#")] == [
        "https://example.org/1"
    ]


@given(
    st.recursive(
        st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10
    )
)
def test_embedded_data_is_the_same_data_and_ends_nothing(data):
    told = embedded(data)
    assert json.loads(told) == data
    assert "<" not in told
    assert told.isascii()


def test_only_the_own_script_and_style_may_run_and_nothing_is_loaded():
    found = Elements(made("x"))
    (policy,) = [
        a["content"] for tag, a in found.found if a.get("http-equiv") == "Content-Security-Policy"
    ]
    style, _, script = found.raw
    for text, name in ((style, "style-src"), (script, "script-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    loading = {"src", "srcset", "data", "action", "formaction", "poster", "background", "style"}
    assert [
        (tag, a)
        for tag, a in found.found
        if loading & a.keys() or any(name.startswith("on") for name in a)
    ] == []
    assert "link" not in tags(made("x"))
    assert not re.search(
        r"url\(|@import|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(",
        style + script,
    )


def test_every_script_of_the_folder_is_on_the_page():
    assert set(_SCRIPTS) == {path.name for path in _FILES.iterdir() if path.name.endswith(".js")}


def test_an_address_is_escaped_part_by_part():
    assert address(("a", "b/c", "<d>@#", "2.11.0")) == "a/b%2Fc/%3Cd%3E%40%23@2.11.0"


def test_the_verdict_and_the_next_command_can_be_read_without_the_script():
    told = made("stack.h200 loads")
    shown = re.sub(r"<script.*?</script>", "", told, flags=re.DOTALL)
    assert "1 cause, 1 red result, 1 green" in shown
    assert "patchgate explain PG301" in shown
    assert "exit code 1" in shown


def test_several_patches_are_listed_and_one_without_findings_is_not():
    page = Page()
    for name, kind in (("good", Kind.PASS), ("bad", Kind.REGRESSED)):
        patch = Patch(id=name, path="p.py", source="", claims=Claims(title=name))
        told = replace(verdict("stack.h200 x"), kind=kind)
        page.add(RunResults(patch=patch, torches=("2.11.0",), verdicts=(told,)))
    shown = re.sub(
        r"<script.*?</script>", "", render_html("sweep", page, at="now", code=1), flags=re.DOTALL
    )
    assert (
        "<strong>bad</strong>" in shown,
        "<strong>good</strong>" in shown,
        "1 of 2 patches" in shown,
    ) == (
        True,
        False,
        True,
    )


def test_news_of_a_sweep_are_links_into_the_page_and_escaped():
    page = Page()
    patch = Patch(id="mine", path="p.py", source="", claims=Claims(title="mine"))
    page.add(RunResults(patch=patch, torches=("2.11.0",), verdicts=(verdict("stack.h200 x"),)))
    key = VerdictKey("mine", "2.11.0", "kernels", SCRIPT, "x")
    runs = [
        {key: VerdictSummary("green", "PG300", "4")},
        {key: VerdictSummary("red", "PG301", SCRIPT)},
    ]
    told = render_html("sweep", page, at="now", code=1, regressions=(regressions_in(runs)))
    assert told.count('href="#mine/kernels/%3Cscript%3Ealert%281%29%3C%2Fscript%3E@2.11.0"') == 2
    assert SCRIPT not in told
    assert "green -&gt; red (PG301)" in told
    assert "Since the last run" not in made("x"), "a gate has none"


def test_what_was_timed_at_several_sizes_is_drawn_and_brings_no_style_of_its_own():
    page, interval = Page(), Interval(ratio=0.99, low=0.98, high=1.0)
    patch = Patch(id="mine", path="p.py", source="", claims=Claims(title="mine"))
    times = [
        TimeRatio(name=SCRIPT, torch="2.11.0", size=size, interval=interval)
        for size in ("64", "4096", "full")
    ]
    page.add(
        RunResults(patch=patch, torches=("2.11.0",), verdicts=(verdict("x"),), times=tuple(times))
    )
    told = render_html("mine", page, at="now", code=1)
    assert (told.count("<circle"), told.count('class="budget"'), tags(told).count("style")) == (
        2,
        1,
        1,
    )
    assert SCRIPT not in told
    assert 'id="latency"' not in made("x"), "nothing was timed"


def test_a_page_says_what_made_it_and_on_which_releases_the_defect_is():
    patch = load_patch(ROOT / "fixtures" / "patches" / "vllm-42686")
    made = Page()
    made.add(RunResults(patch=patch, torches=("2.11.0",), verdicts=()))
    made.made_by = ("patchgate 1", "commit <x>")
    text = render_html("mine", made, at="now", code=0)
    assert "patchgate 1 · commit &lt;x&gt;" in text
    assert '<li class="red"><strong>2.12.1</strong> defect<br>patch off</li>' in text
    assert '<li class="green"><strong>2.11.0</strong> defect<br>patch on</li>' in text
    assert '<li class="grey"><strong>2.14.0</strong> not recorded<br>patch off</li>' in text


def test_control_characters_of_a_title_are_shown_as_escapes():
    text = made("stack", "a\x1b[31m\u202eb")
    assert r"a\x1b[31m\u202eb" in text
    assert "\x1b" not in text
