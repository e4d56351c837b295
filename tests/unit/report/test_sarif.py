"""An alert of code scanning stays the same one while its line moves."""

import json
from functools import partial

from patchgate import __version__
from patchgate.report.sarif import Place, codes_of, render_sarif, sarif_result

PLACE = Place(path="a.py", line=3)
made = partial(
    sarif_result, code="PG301", is_red=True, message="6", place=PLACE, subject="mine loads"
)


def prints(*results):
    (run,) = json.loads(render_sarif([], results))["runs"]
    assert run["tool"]["driver"]["version"] == __version__
    return [result["partialFingerprints"]["patchgate/v1"] for result in run["results"]]


def test_a_rule_links_to_its_page_where_it_is_known_where_that_is(monkeypatch):
    def driver():
        return json.loads(render_sarif(codes_of([made()]), [made()]))["runs"][0]["tool"]["driver"]

    assert "helpUri" not in driver()["rules"][0]
    monkeypatch.setenv("PATCHGATE_DOCS", "https://example.org/docs/")
    assert driver()["informationUri"] == "https://example.org/docs"
    assert driver()["rules"][0]["helpUri"] == "https://example.org/docs/verdicts.md#pg301"


def test_a_fingerprint_depends_on_the_subject_and_not_on_the_line_or_the_figures():
    moved = made(place=Place(path="a.py", line=30), message="7")
    first, second, third = prints(made(), moved, made(subject="mine bytes"))
    assert first == second != third


def test_a_name_of_any_bytes_is_a_uri():
    for name, uri in (("b\udcff\udcfe.py", "b%FF%FE.py"), ("é.py", "%C3%A9.py")):
        (run,) = json.loads(render_sarif([], [made(place=Place(path=name, line=1))]))["runs"]
        (location,) = run["results"][0]["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"] == uri
