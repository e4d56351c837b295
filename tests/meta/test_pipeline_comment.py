"""The sticky comment: ours is found again, another's is left alone, and a commit of yesterday gets
none.
"""

import json
import os
import subprocess
import sys

import pytest

from patchgate.model.paths import ROOT
from patchgate.report.comment import MARKER

GH = """#!{python}
import json, pathlib, sys
here = pathlib.Path(__file__).parent
call = sys.argv[1:]
body = sys.stdin.read() if "--input" in call else ""
with open(here / "calls", "a") as file:
    file.write(json.dumps([call, body]) + "\\n")
answers = json.loads((here / "answers").read_text())
print(json.dumps(next((answers[path] for path in answers if call[1].endswith(path) and not body), dict())))
"""


@pytest.fixture
def posted(tmp_path):
    """Runs the script against a `gh` that answers as told: what it printed, and what it wrote
    where.
    """

    def run(pulls, comments, text=f"{MARKER}\nred\n"):
        (tmp_path / "gh").write_text(GH.format(python=sys.executable))
        (tmp_path / "gh").chmod(0o755)
        (tmp_path / "answers").write_text(json.dumps({"/pulls": pulls, "/comments": [comments]}))
        (tmp_path / "calls").write_text("")
        (tmp_path / "comment.md").write_text(text)
        environment = {
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            "GITHUB_REPOSITORY": "o/r",
        }
        environment |= {"HEAD_OWNER": "them", "HEAD_BRANCH": "$(x)", "HEAD_SHA": "abc"}
        environment |= {"GITHUB_SERVER_URL": "https://github.example", "RUN_ID": "5"}
        command = [sys.executable, ROOT / "ci" / "github" / "comment.py", tmp_path / "comment.md"]
        told = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout
        calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
        return (
            told.strip(),
            [(call[1], call[3], json.loads(body)["body"]) for call, body in calls if body],
            calls,
        )

    return run


def pull(number, sha="abc"):
    return {"number": number, "head": {"sha": sha}}


WRITTEN = (
    f"{MARKER}\nred\n\n<sub>commit abc · [run](https://github.example/o/r/actions/runs/5), "
    "whose artifacts have report.html</sub>\n"
)


def comment(number, login, body):
    return {"id": number, "user": {"login": login}, "body": body}


def test_the_first_time_a_comment_is_made(posted):
    told, written, calls = posted([pull(7)], [comment(1, "github-actions[bot]", "of another job")])
    assert (told, written) == (
        "commented on #7",
        [("repos/o/r/issues/7/comments", "POST", WRITTEN)],
    )
    assert "head=them:$(x)" in calls[0][0]


def test_then_it_is_kept_up_to_date(posted):
    comments = [
        comment(1, "mallory", f"{MARKER}\nall green"),
        comment(2, "github-actions[bot]", f"{MARKER}\nold"),
    ]
    assert posted([pull(7)], comments)[1] == [("repos/o/r/issues/comments/2", "PATCH", WRITTEN)]


def test_results_of_a_commit_that_was_replaced_are_not_told(posted):
    assert posted([pull(7, "newer")], [])[:2] == (
        "no open pull request has this commit for its head",
        [],
    )


def test_without_results_nothing_is_said(posted):
    assert posted([pull(7)], [], text="") == ("no results to tell of", [], [])
