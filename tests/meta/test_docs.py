"""Pages that are written by a command are what it writes now; links lead somewhere, and commands
are there.

Each rule is also seen failing on a made-up page.
"""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import click
import pytest

from patchgate.checks.framework.find_checks import all_checks, catalogue, every_code
from patchgate.cli.main import cli
from patchgate.model.paths import PACKAGE, ROOT
from patchgate.report.explain import render_catalogue


def test_the_page_of_verdict_codes_is_up_to_date():
    page = "\n".join(render_catalogue()) + "\n"
    told = "patchgate explain --markdown >docs/verdicts.md"
    assert (ROOT / "docs" / "verdicts.md").read_text("utf-8") == page, told
    assert all(f"## {code}\n" in page for code in every_code())
    assert all(f" {check.name} | {check.question} |" in page for check in all_checks().values())


def test_a_code_whose_text_changed_would_be_seen(monkeypatch):
    page = list(render_catalogue())
    monkeypatch.setitem(catalogue(), "PG301", replace(catalogue()["PG301"], fix="Nothing."))
    assert list(render_catalogue()) != page


PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
CONTEXT = click.Context(cli)
SESSIONS = set(re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text("utf-8"), re.M))


def display_path(path):
    return str(path.relative_to(ROOT))


def anchors(text):
    """Return the names of headings in links: their words in lower case, joined."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(text, folder):
    """Links of a page in `folder` that lead to no file, or to no heading of it."""
    for link in re.findall(r"(?:\]\(|\bsrc(?:set)?=\")([^)\"\s]+)[)\"]", text):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        path = (folder / name) if name else None
        page = (
            text
            if path is None
            else path.read_text("utf-8")
            if path.suffix == ".md" and path.exists()
            else ""
        )
        if (path is not None and not path.exists()) or (anchor and anchor not in anchors(page)):
            yield link


def commands(text):
    """Yield the commands in a page: its console lines, and code that begins with one of ours."""
    typed = re.findall(r"^\s*(?:- )?(?:run: )?\$ (.+)$", text, re.M)
    typed += re.findall(r"`((?:patchgate|nox -s) [^`]+)`", text)
    for line in typed:
        for part in re.split(r" && ", re.sub(r"\s+#.*$", "", line.replace("\n", " "))):
            yield part.strip()


def fault(command):
    """Return the first thing that a command names and that does not exist, or None."""
    words = shlex.split(command.replace("[", "").replace("]", "").replace("...", "x"))
    if words[:3] == ["git", "bisect", "run"]:
        words = words[3:]
    while words[:2] == ["python3", "-m"]:
        words = words[2:]
    if words[:1] == ["nox"] and "-s" in words:
        own = words[words.index("-s") + 1 : words.index("--") if "--" in words else None]
        unknown = [name for name in own if name.partition("(")[0] not in SESSIONS]
        if unknown:
            return f"no session {unknown[0]}"
        words = ["patchgate", own[-1], *words[words.index("--") + 1 :]] if "--" in words else []
        words = [
            word
            for at, word in enumerate(words)
            if word != "--torch" and words[at - 1] != "--torch"
        ]
        if own[-1] == "corpus":
            words = [word for word in words if word != "--all"]
        if own[-1] not in cli.list_commands(CONTEXT):
            return None
    if words[:1] != ["patchgate"] or len(words) < 2 or words[1].startswith("-"):
        return None
    found = cli
    for word in words[1:]:
        if not isinstance(found, click.Group):
            break
        command = found.get_command(CONTEXT, word)
        if command is None:
            return f"no command {word}"
        found = command
    options = {name for each in found.params for name in (*each.opts, *each.secondary_opts)}
    unknown = [
        word
        for word in words
        if word.startswith("--") and word.partition("=")[0] not in {*options, "--"}
    ]
    return f"no option {unknown[0]} of {found.name}" if unknown else None


def missing_files(text):
    """Files that are neither below patchgate/ nor in the root; a bare name lies beside the file
    before it.
    """
    folder = Path()
    for name in re.findall(r"[\w./-]+(?:\.(?:py|toml)\b|(?<=/)(?=`))", text):
        path = folder / name if "/" not in name else Path(name)
        folder = path if name.endswith("/") else path.parent
        if path.stem != "NAME" and not any((root / path).exists() for root in (PACKAGE, ROOT)):
            yield name


@pytest.mark.parametrize("page", PAGES, ids=display_path)
def test_every_link_leads_somewhere(page):
    assert list(dead_links(page.read_text("utf-8"), page.parent)) == []


@pytest.mark.parametrize("page", PAGES, ids=display_path)
def test_every_command_is_there(page):
    faults = {command: fault(command) for command in commands(page.read_text("utf-8"))}
    assert {command: what for command, what in faults.items() if what} == {}


def test_every_file_of_where_is_what_is_there():
    table = (
        (ROOT / "CONTRIBUTING.md")
        .read_text("utf-8")
        .partition("## Where is what")[2]
        .partition("\n## ")[0]
    )
    rows = [line.split(" | ")[-1] for line in table.splitlines() if line.startswith("|")]
    assert len(rows) > 30
    assert [name for row in rows for name in missing_files(row)] == []


def test_every_check_that_a_key_of_a_manifest_names_is_there():
    comments = re.findall(
        r"#:? .*?((?:checks|probe)/.*)", (PACKAGE / "inputs" / "manifest.py").read_text("utf-8")
    )
    assert len(comments) > 8
    assert [name for comment in comments for name in missing_files(comment)] == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("`checks/cache.py`, `calls.py`; `ci/matrix.toml`; `ci/github/`, `cli/NAME.py`", []),
        ("`checks/cash.py`; `ci/gitlab/`", ["checks/cash.py", "ci/gitlab/"]),
        ("`checks/cache.py`, `gate.py`", ["gate.py"]),
    ],
)
def test_a_file_that_is_not_there_is_seen(text, missing):
    assert list(missing_files(text)) == missing


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    assert [
        page.name
        for page in PAGES[2:]
        if page.name != "README.md" and f"({page.name})" not in index
    ] == []


def test_every_page_is_in_the_list_of_the_site():
    listed = re.findall(r"^ +- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M)
    assert sorted(listed) == sorted(page.name for page in PAGES[2:])


def test_a_dead_link_is_seen(tmp_path):
    (tmp_path / "a.md").write_text("# One, two\n```\n# no heading\n```\n")
    assert list(dead_links('<img alt="a" src="a.md"><source srcset="c.png">', tmp_path)) == [
        "c.png"
    ]
    text = (
        "[a](a.md) [b](a.md#one-two) [c](a.md#no-heading) [d](b.md) [e](https://example.org/x) "
        "[f](#here)\n## Here\n"
    )
    assert list(dead_links(text, tmp_path)) == ["a.md#no-heading", "b.md"]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("patchgate lint x.py --fetch", None),
        ("patchgate lnt x.py", "no command lnt"),
        ("patchgate index dif 1 2", "no command dif"),
        ("patchgate lint x.py --quick", "no option --quick of lint"),
        ("nox -s gate -- x --torch 2.11.0 --nightly", None),
        ("nox -s gate -- x --fast", "no option --fast of gate"),
        ("nox -s gat", "no session gat"),
        ("nox -s 'row(2.14.1)' gate -- x", None),
        ("python3 -m nox -s tests", None),
        ("git bisect run patchgate ask --metrc x", "no option --metrc of ask"),
        ("ls -l", None),
    ],
)
def test_a_command_that_is_not_there_is_seen(command, told):
    assert fault(command) == told


def test_there_are_commands_to_look_at():
    assert sum(len(list(commands(page.read_text("utf-8")))) for page in PAGES) > 40
