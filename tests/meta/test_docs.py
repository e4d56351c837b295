"""Pages that are written by a command are what it writes now."""

from patchgate.codes import CODES
from patchgate.project import ROOT
from patchgate.report.catalogue import render_catalogue


def test_the_page_of_verdict_codes_is_up_to_date():
    page = "\n".join(render_catalogue(CODES.values())) + "\n"
    told = "patchgate explain --markdown >docs/verdicts.md"
    assert (ROOT / "docs" / "verdicts.md").read_text("utf-8") == page, told
    assert all(f"## {code} " in page for code in CODES)


def test_a_code_whose_text_changed_would_be_seen():
    codes = list(CODES.values())
    assert list(render_catalogue(codes)) != list(render_catalogue(codes[1:]))
