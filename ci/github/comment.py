"""Puts a text into the pull request of a commit: into our own comment there, or a new one.

`comment.py FILE`, with GITHUB_REPOSITORY, HEAD_OWNER, HEAD_BRANCH, HEAD_SHA and RUN_ID of the
event, and the `gh` command. A commit that is no longer the head of an open pull request gets
nothing: its results are those of yesterday.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MARKER = "<!-- patchgate -->"
US = "github-actions[bot]"


def api(path: str, *options: str, body: dict[str, Any] | None = None) -> Any:
    """One call of GitHub's API through `gh`, which knows the token."""
    command = ["gh", "api", path, *options, *(["--input", "-"] if body else [])]
    given = json.dumps(body) if body else None
    ended = subprocess.run(command, input=given, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ended.stdout)


def footer(known: Mapping[str, str]) -> str:
    """The commit that was judged, and the run that has the reports."""
    run = (
        f"{known['GITHUB_SERVER_URL']}/{known['GITHUB_REPOSITORY']}/actions/runs/{known['RUN_ID']}"
    )
    sha = known["HEAD_SHA"]
    return f"<sub>commit {sha} · [run]({run}), whose artifacts have report.html</sub>\n"


def main(file: str) -> str:
    """Write or update the comment; return a line for the log."""
    text = Path(file).read_text(encoding="utf-8")
    if not text.startswith(MARKER):
        return "no results to tell of"
    here = f"repos/{os.environ['GITHUB_REPOSITORY']}"
    head = f"{os.environ['HEAD_OWNER']}:{os.environ['HEAD_BRANCH']}"
    listed = api(
        f"{here}/pulls",
        "--method",
        "GET",
        "--raw-field",
        "state=open",
        "--raw-field",
        f"head={head}",
    )
    numbers = [pull["number"] for pull in listed if pull["head"]["sha"] == os.environ["HEAD_SHA"]]
    if not numbers:
        return "no open pull request has this commit for its head"
    body = {"body": f"{text}\n{footer(os.environ)}"}
    for number in numbers:
        pages = api(f"{here}/issues/{number}/comments", "--paginate", "--slurp")
        ours = [
            comment["id"]
            for page in pages
            for comment in page
            if comment["user"]["login"] == US and comment["body"].startswith(MARKER)
        ]
        if ours:
            api(f"{here}/issues/comments/{ours[0]}", "--method", "PATCH", body=body)
        else:
            api(f"{here}/issues/{number}/comments", "--method", "POST", body=body)
    return f"commented on {', '.join(f'#{number}' for number in numbers)}"


if __name__ == "__main__":
    print(main(sys.argv[1]))
