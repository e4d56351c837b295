"""Verdicts as JUnit XML: word for word, and well-formed whatever a patch prints."""

from xml.etree import ElementTree

from expecttest import assert_expected_inline
from hypothesis import example, given
from hypothesis import strategies as st

from patchgate.model.policy import Kind
from patchgate.model.records import Case, Verdict
from patchgate.report.junit import render_junit

any_text = st.text() | st.text(st.characters(codec=None, categories=["Cc", "Cs", "Cn", "Po", "Sm"]))


def test_a_verdict_is_a_test_case(verdicts):
    chosen = [verdicts[0], verdicts[1], verdicts[5]]
    assert_expected_inline(
        render_junit(dict.fromkeys(chosen, 0.5), name="mine").replace("><", ">\n<"),
        """\
<?xml version='1.0' encoding='utf-8'?>
<testsuites>
<testsuite name="patchgate mine" tests="3" errors="0" failures="1" skipped="1" time="1.5">
<testcase name="stack.h200 loads" classname="mine.kernels.torch-2.12.1" time="0.5">
<failure message="[2 6]" type="PG301">where: code/stack.py
expected: [2 4]
actual: [2 6]
why: worse kernels are merged
next: mend the patch</failure>
</testcase>
<testcase name="stack.h200 bytes" classname="mine.kernels.torch-2.12.1" time="0.5" />
<testcase name="stack.cpu" classname="mine.parity.torch-2.9.0" time="0.5">
<skipped message="no g++" type="PG508" />
</testcase>
</testsuite>
</testsuites>
""",
    )


def test_no_verdicts_are_an_empty_suite():
    (suite,) = ElementTree.fromstring(render_junit({}).encode("utf-8"))
    assert (suite.get("name"), suite.get("tests"), len(suite)) == ("patchgate", "0", 0)


@example("\ufffe\uffff\x00\ud800]]>", Kind.REGRESSED)
@given(any_text, st.sampled_from(Kind))
def test_the_text_of_a_patch_never_breaks_the_file(text, kind):
    verdict = Verdict(
        code="PG301", kind=kind, check="kernels", case=Case(torch="2.11.0"), item=text, expected=text, actual=text,
        where=text,
    )  # fmt: skip
    root = ElementTree.fromstring(render_junit({verdict: 0.0}).encode("utf-8"))
    assert root.find("testsuite").get("tests") == "1"


def test_the_file_says_that_it_is_utf8():
    assert render_junit({}).startswith("<?xml version='1.0' encoding='utf-8'?>\n")


def test_the_suite_is_named_after_the_patch():
    (suite,) = ElementTree.fromstring(render_junit({}, name="mine").encode("utf-8"))
    assert suite.get("name") == "patchgate mine"
