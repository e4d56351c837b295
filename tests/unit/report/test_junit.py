"""Verdicts as JUnit XML: word for word, and well-formed whatever a patch prints."""

from xml.etree import ElementTree

from expecttest import assert_expected_inline
from hypothesis import example, given
from hypothesis import strategies as st

from patchgate.model.records import Kind, Verdict
from patchgate.report.junit import render_junit

any_text = st.text() | st.text(st.characters(codec=None, categories=["Cc", "Cs", "Cn", "Po", "Sm"]))


def test_a_verdict_is_a_test_case(verdicts):
    chosen = [verdicts[0], verdicts[1], verdicts[5]]
    assert_expected_inline(
        render_junit(chosen),
        """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="patchgate" tests="3" failures="1" skipped="1" errors="0">
    <testcase classname="kernels.torch-2.12.1" name="stack.h200 loads">
      <failure type="PG301" message="[2 6]">where: code/stack.py
expected: [2 4]
actual: [2 6]
why: worse kernels are merged
next: mend the patch</failure>
    </testcase>
    <testcase classname="kernels.torch-2.12.1" name="stack.h200 bytes" />
    <testcase classname="parity.torch-2.9.0" name="stack.cpu">
      <skipped type="PG508" message="no g++" />
    </testcase>
  </testsuite>
</testsuites>
""",
    )


def test_no_verdicts_are_an_empty_suite():
    assert_expected_inline(
        render_junit([]),
        """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="patchgate" tests="0" failures="0" skipped="0" errors="0" />
</testsuites>
""",
    )


@example("\ufffe\uffff\x00\ud800]]>", Kind.REGRESSED)
@given(any_text, st.sampled_from(Kind))
def test_the_text_of_a_patch_never_breaks_the_file(text, kind):
    verdict = Verdict(
        code="PG301", kind=kind, check="kernels", torch="2.11.0", subject=text, expected=text, actual=text, where=text
    )
    root = ElementTree.fromstring(render_junit([verdict]).encode("utf-8"))
    assert root.find("testsuite").get("tests") == "1"


def test_the_file_says_that_it_is_utf8():
    assert render_junit([]).startswith('<?xml version="1.0" encoding="UTF-8"?>\n')
