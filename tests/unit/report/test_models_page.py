"""The page of the impact on models: a plot that holds every model, and nothing foreign that becomes
markup.
"""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from patchgate.model.public_model_figures import Change, Impact, ModelImpact
from patchgate.report.models import WIDTH, draw_impact, impact_html

NAME = "{http://www.w3.org/2000/svg}"
BAD = "<script>alert(1)</script>"


def model(after, name="llama"):
    return ModelImpact(model=name, changes={"bytes": Change(before=100, after=after)})


def impact(*rows):
    return Impact(before="unpatched", after=BAD, rows=rows)


@given(st.lists(st.floats(1, 1000), min_size=1, max_size=30))
def test_every_model_has_two_dots_on_the_page_and_more_bytes_are_further_right(moved):
    rows = [model(each) for each in moved]
    root = ElementTree.fromstring(draw_impact(impact(*rows), rows))
    height = float(root.get("viewBox").split()[3])
    dots = list(root.iter(f"{NAME}circle"))
    assert all(
        0 < float(dot.get("cx")) < WIDTH and 0 < float(dot.get("cy")) < height for dot in dots
    )
    after = [float(dot.get("cx")) for dot in dots if dot.get("class") == "after"]
    assert len(after) == len(moved)
    by_bytes = [x for _, x in sorted(zip(moved, after, strict=True))]
    assert by_bytes == sorted(by_bytes)


def test_colour_is_said_in_words_and_text_stays_text():
    text = impact_html(BAD, impact(model(120, "moe"), model(50, BAD), model(100, "same")), at="now")
    assert BAD not in text
    assert text.count(">more bytes<") == text.count(">fewer bytes<") == 1
    assert "script-src" in text


def test_what_was_not_compared_has_its_reason_and_no_dot():
    text = impact_html(
        "t", impact(ModelImpact(model="gpt", failed="needs a real device")), at="now"
    )
    assert "needs a real device" in text
    assert "<svg" not in text
