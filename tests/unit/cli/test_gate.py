"""`patchgate gate` and `report` as they are typed: exit codes, reports, and bad usage."""

import json
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from expecttest import assert_expected_inline

from patchgate.inputs.project import Project
from patchgate.lint.index.release import releases
from patchgate.model.errors import UsageError
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Verdict
from patchgate.runner.journal import Journal
from patchgate.runner.results_folder import put_aside
from patchgate.runner.run_settings import NAME, Run, save_run, save_verdicts
from patchgate.runner.torch_environments import NotInstallable
from patchgate.runs import gate, plan


@pytest.mark.parametrize(
    ("kinds", "code"),
    [
        ([Kind.PASS], 0),
        ([Kind.PASS, Kind.REGRESSED, Kind.INFRA], 1),
        ([], 3),
        ([Kind.PASS, Kind.INFRA], 4),
    ],
)
def test_the_exit_code_is_that_of_the_verdicts(command, results, kinds, code):
    results(*kinds)
    status, printed, wrong = command("report", "--folder", "out")
    assert (status, wrong) == (code, "")
    *_, results_line, answer = printed.splitlines()
    assert results_line == "results: out/verdicts.json, junit.xml, summary.md; out/report.html"
    assert answer.endswith(f"; exit code {code}")


def test_a_run_that_judged_nothing_says_so(command, results):
    results()
    assert (
        "nothing was judged: no workload, device or release was selected; exit code 3"
        in command("report", "--folder", "out")[1]
    )


def test_every_report_is_written(command, results, folder):
    results(Kind.PASS)
    command("report", "--folder", "out")
    written = {path.name for path in (folder / "out").iterdir()}
    assert written == {NAME, "verdicts.json", "junit.xml", "summary.md", "report.html"}


def test_the_page_goes_where_it_is_reported_to(command, results, folder):
    results(Kind.PASS)
    assert (
        "; there/mine.html\n"
        in command("report", "--folder", "out", "--html", "there/mine.html")[1]
    )
    assert (
        "mine" in (folder / "there" / "mine.html").read_text(),
        (folder / "out" / "report.html").exists(),
    ) == (
        True,
        False,
    )


@pytest.mark.parametrize("page", ["mine.py/page.html", "/proc/patchgate/page.html"])
def test_a_page_that_cannot_be_written_is_refused(command, results, page):
    results(Kind.PASS)
    status, printed, wrong = command("report", "--folder", "out", "--html", page)
    assert (status, printed, wrong.splitlines()[0]) == (
        2,
        "",
        "error: --html: no folder that can be written to",
    )


def test_the_summary_of_a_pipeline_is_added_to(command, results, folder, monkeypatch):
    (folder / "steps.md").write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "steps.md"))
    results(Kind.PASS)
    command("report", "--folder", "out")
    assert (folder / "steps.md").read_text() == "before\n" + (
        folder / "out" / "summary.md"
    ).read_text()


def test_in_a_workflow_what_is_red_is_said_beside_the_line(command, results, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    results(Kind.REGRESSED)
    assert (
        "::error file=mine.py,line=1,title=PG301 kernel facts changed::stack.h200"
        in command("report", "--folder", "out")[1]
    )


def test_a_report_without_a_run_is_refused(command):
    status, printed, wrong = command("report", "--folder", "none")
    assert (status, printed, wrong.splitlines()[0]) == (
        2,
        "",
        "error: none/run.json: no run to read",
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["none"], "error: none: no such patch"),
        (["mine.py", "--row", "2.11.0"], "error: --row: not TORCH=VALUE"),
        (["mine.py", "--row", "=python"], "error: --row: not TORCH=VALUE"),
        (["mine.py", "--problem", "2.11.0="], "error: --problem: not TORCH=VALUE"),
        (
            ["mine.py", "--row", "2.11.0=python", "--device", "h20"],
            "error: --device: no device `h20`",
        ),
        (
            ["mine.py", "--row", "2.11.0=python", "--workload", "x"],
            "error: --workload: no workload `x`",
        ),
        (
            ["mine.py", "--problem", "2.11.0=no", "--check", "kernels,x"],
            "error: --check: no check `x`",
        ),
        (["mine.py", "--torch"], "error: option '--torch' requires an argument"),
        (["mine.py", "--colour"], "error: no such option '--colour'"),
        (["mine.py", "-n", "many"], "error: invalid value for '-n': 'many'"),
        (
            ["mine.py", "--problem", "2.11.0=no", "--folder", "mine.py/out"],
            "error: --folder: no folder that can be written to",
        ),
        (["mine.py", "-n", "0"], "error: invalid value for '-n': 0 is not"),
        (["mine.py", "--time-limit", "0"], "error: invalid value for '--time-limit'"),
        (["mine.py", "--memory-limit", "-1"], "error: invalid value for '--memory-limit'"),
        (
            ["mine.py", "--row", "2.11.0=/nowhere/python"],
            "error: --row: no interpreter that can be started",
        ),
        (
            ["mine.py", "--row", "2.11.0=python", "--requires", "x"],
            "error: --requires: nothing is installed for an interpreter that is given",
        ),
        (["mine.py", "--requires", "x y"], "error: --requires: not a requirement as pip takes it"),
        (["mine.py", "--requires", "torch"], "error: --requires: torch itself"),
        ([], "error: .: no patch to judge"),
        (["mine.py", "other/mine.py"], "error: other/mine.py: no such patch"),
    ],
)
def test_bad_usage_ends_with_2_before_anything_is_run(command, folder, arguments, told):
    status, printed, wrong = command("gate", *arguments)
    assert (status, printed, wrong.startswith(told)) == (2, "", True), wrong
    assert [path.name for path in folder.iterdir()] == ["mine.py"]


@pytest.mark.parametrize("where", [".patchgate/gate", "results", "/tmp/patchgate-no-such/results"])
def test_what_later_runs_find_again_lies_below_build_wherever_the_results_go(
    command, folder, monkeypatch, where
):
    launched = []
    monkeypatch.setattr("patchgate.cli.gate.results_folder", lambda path, option: nullcontext())
    monkeypatch.setattr(gate, "put_aside", lambda path: None)
    monkeypatch.setattr(gate, "_empty", lambda path, runs: None)
    monkeypatch.setattr(
        gate, "judge_patch", lambda run, patch, **options: launched.append(run) or []
    )
    monkeypatch.setattr("patchgate.cli.gate.show", lambda judged, folder, form: sys.exit(0))
    assert command("gate", "mine.py", "--problem", "2.11.0=no", "--folder", where)[0] == 0
    (run,) = launched
    assert (run.folder, run.shared_cache, run.binaries) == (
        str(folder / where), str(folder / ".patchgate" / "unpatched"), str(folder / ".patchgate" / "cpp")
    )  # fmt: skip
    assert (folder / ".patchgate" / ".gitignore").read_text() == "*\n"


def test_a_folder_of_somebody_is_not_emptied_for_results(command, folder, monkeypatch):
    monkeypatch.setattr(gate, "judge_patch", lambda run, patch, **options: sys.exit(7))
    status, _, wrong = command("gate", "mine.py", "--problem", "2.11.0=no", "--folder", ".")
    assert (status, wrong.splitlines()[0]) == (
        2,
        "error: --folder: not results of a run, and would be deleted",
    )
    for earlier in (False, True):
        if earlier:
            save_run(Run(folder=str(folder / "out"), patch="mine.py", rows={}))
        assert command("gate", "mine.py", "--problem", "2.11.0=no", "--folder", "out")[0] == 7


def test_a_misspelt_device_is_answered_with_its_neighbour(command):
    _, _, wrong = command("gate", "mine.py", "--row", "2.11.0=python", "--device", "h20")
    assert_expected_inline(
        wrong,
        """\
error: --device: no device `h20`
  got:  h20
  next: did you mean `h200`?
""",
    )


def test_a_check_that_was_misspelt_is_named_with_what_was_meant(command, folder):
    (folder / "mine.py").write_text("ready = True\n")
    status, _, said = command(
        "gate", "mine.py", "--problem", "2.11.0=no", "--check", "parity,latncy"
    )
    assert (status, said.splitlines()[-1]) == (2, "  next: did you mean `latency`?")


def test_without_rows_the_releases_of_pre_merge_are_made_and_one_that_cannot_be_is_shown(
    command, monkeypatch, tmp_path
):
    def make(torch, requires, package):
        if torch == "2.12.1":
            raise NotInstallable("no wheel for this machine")
        return f"{torch}/bin/python"

    def judge(run, patch, **_):
        runs.append(run)
        save_verdicts(Path(run.folder), [])
        return []

    runs = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("patchgate.runs.plan.cached_environment", make)
    monkeypatch.setattr("patchgate.runs.gate.judge_patch", judge)
    _, _, told = command("gate", "mine.py")
    (run,) = runs
    assert (run.rows, run.problems) == (
        {"2.11.0": "2.11.0/bin/python"},
        {"2.12.1": "no wheel for this machine"},
    )
    assert run.by_release
    assert "installing torch 2.11.0 in " in told


@pytest.mark.parametrize(
    ("given", "uv", "said"),
    [
        (
            ("--torch", "2.11.9"),
            "Because there is no version of torch==2.11.9 and you require torch==2.11.9, ...",
            "error: --torch: no such release of torch\n  got:  2.11.9\n  next: did you mean 2.11.0?\n",
        ),
        (
            ("--torch", "2.11.0", "--requires", "transfomers"),
            "Because transfomers was not found in the package registry and you require it, ...",
            "error: --requires, or `requires` of the table: the package index has no such package "
            "or release\n  got:  transfomers\n  next: another name or range\n",
        ),
        (
            ("--torch", "2.11.0", "--requires", "NumPy>=99"),
            "Because only numpy<=2.5.5 is available and you require numpy>=99, ...",
            "error: --requires, or `requires` of the table: the package index has no such package "
            "or release\n  got:  NumPy>=99\n  next: another name or range\n",
        ),
    ],
)
def test_what_no_index_has_is_a_typo_and_not_the_last_run(
    command, folder, monkeypatch, results, given, uv, said
):
    def make(torch, requires, package):
        raise NotInstallable(uv)

    results(Kind.PASS)
    monkeypatch.setattr("patchgate.runs.plan.cached_environment", make)
    before = (folder / "out" / "run.json").read_text()
    status, printed, wrong = command("gate", "mine.py", *given, "--folder", "out")
    assert (status, printed, wrong.partition("\n")[2]) == (2, "", said)
    assert (folder / "out" / "run.json").read_text() == before


@pytest.mark.parametrize(
    "uv",
    [
        "Failed to fetch: `torch`",
        "Because there is no version of torch==2.11.0 and you require torch==2.11.0, ...",
        "Because only triton<3 is available and torch==2.11.0 depends on triton==3.6.0, ...",
    ],
)
def test_a_known_release_that_this_machine_cannot_install_is_not_judged(command, monkeypatch, uv):
    def make(torch, requires, package):
        raise NotInstallable(uv)

    monkeypatch.setattr("patchgate.runs.plan.cached_environment", make)
    status, _, _ = command("gate", "mine.py", "--torch", "2.11.0")
    assert status == 4


def test_a_release_that_is_none_is_refused_before_anything_is_made(command):
    status, _, wrong = command("gate", "mine.py", "--torch", "new")
    assert (status, wrong.splitlines()[0]) == (2, "error: --torch: not a release of torch")


@pytest.fixture
def project(folder, monkeypatch):
    """A repository with two patches and a table; the runs that are judged there."""
    runs = []

    def judge(run, patch, **_):
        runs.append(run)
        put_aside(Path(run.folder))  # as a run does
        Journal(Path(run.folder)).begin("key")
        save_run(run)
        case = Case(torch="2.11.0", device="h200", workload="stack", patch=Path(run.patch).stem)
        kind = Kind.REGRESSED if run.patch.endswith("two.py") else Kind.PASS
        code = "PG301" if kind is Kind.REGRESSED else "PG300"
        where = f"{run.patch}:1" if kind is Kind.REGRESSED else None
        verdicts = [
            Verdict(
                code=code,
                kind=kind,
                check="kernels",
                case=case,
                item="x",
                fact="loads",
                where=where,
            )
        ]
        save_verdicts(Path(run.folder), verdicts)
        return verdicts

    for name in ("one", "two"):
        (folder / "engine").mkdir(exist_ok=True)
        (folder / "engine" / f"{name}.py").write_text("x = 1\n")
    table = "releases = ['2.10.1']\npatches = ['engine/*.py']\ndevices = ['npu.toml', 'cpu']\nbudgets.latency = '1 %'\n"
    (folder / "patchgate.toml").write_text(table)
    (folder / "npu.toml").write_text("kind = 'simulated'\n")
    monkeypatch.setattr("patchgate.runs.gate.judge_patch", judge)
    return runs


def test_at_the_root_of_a_repository_with_several_tables_they_are_named(command, folder):
    for name in ("one", "two"):
        (folder / "packages" / name).mkdir(parents=True)
        (folder / "packages" / name / "patchgate.toml").write_text("patches = []\n")
    (folder / "packages" / "pyproject.toml").write_text("[project]\n")
    assert "tables in subfolders" not in command("gate")[2]
    subprocess.run("git init -q . && git add -A", cwd=folder, shell=True, check=True)
    wrong = command("gate")[2]
    assert (
        "there are tables in subfolders: cd packages/one && patchgate gate; also packages/two\n"
        in wrong
    )


def test_without_arguments_every_patch_of_the_table_is_judged_as_the_table_says(
    command, folder, project
):
    status, printed, _ = command("gate")
    assert (status, [Path(run.folder).name for run in project]) == (1, ["one", "two"])
    assert {(tuple(run.problems), run.devices) for run in project} == {
        (("2.10.1",), ("npu", "cpu"))
    }
    assert "patch 1 of 2, one: nothing red, 1 green" in printed.splitlines()
    assert "patch 2 of 2, two" not in printed
    assert printed.splitlines()[-1] == "2 patches, results below .patchgate/gate; exit code 1"
    page = command("report", "--html", "page.html")[1].splitlines()[-1]
    assert page == "2 patches, results below .patchgate/gate, page.html; exit code 1"
    assert command("report")[0] == 1
    assert str(project[0].again) == "patchgate gate engine/one.py"
    status, printed, _ = command("gate", "engine/one.py")
    assert (status, "patch 1 of" in printed) == (0, False)
    assert not (folder / ".patchgate/gate/two").exists()


def test_several_patches_share_their_servers_until_one_has_ended(command, project, monkeypatch):
    servers, alive = [], [True, False]
    judge = vars(gate)["judge_patch"]

    def remember(run, patch, **more):
        servers.append(more["servers"])
        return judge(run, patch)

    started = SimpleNamespace(are_serving=lambda: alive.pop(0))
    monkeypatch.setattr("patchgate.runs.gate.running_servers", lambda rows: nullcontext(started))
    monkeypatch.setattr("patchgate.runs.gate.judge_patch", remember)
    assert command("gate", "--problem", "2.10.1=no")[0] == 1
    assert servers == [started, None]
    assert command("gate", "engine/one.py", "--problem", "2.10.1=no")[0] == 0
    assert servers[2:] == [None]


@pytest.fixture
def edits(folder, monkeypatch):
    """In place of a user: file by file the text that it has next, then Ctrl-C."""
    texts = []

    def wait(project, patches, files):
        assert str(folder / "engine" / "one.py") in files
        assert str(folder / "patchgate.toml") in files
        if not texts:
            raise KeyboardInterrupt("SIGINT")
        name, text = texts.pop(0)
        (folder / name).write_text(text)
        return files

    monkeypatch.setattr("patchgate.runs.watch.wait_for_edit", wait)
    return texts


def test_an_edited_patch_is_judged_again_until_the_user_ends_it(
    command, folder, project, edits, monkeypatch
):
    servers, sessions = [], []
    judge = vars(gate)["judge_patch"]

    def remember(run, patch, **more):
        servers.append(more["servers"])
        sessions.append(Path(run.patched_cache))
        (Path(run.binaries) / "2.9.0" / f"{sessions[-1].name}-patched").mkdir(
            parents=True, exist_ok=True
        )
        (Path(run.binaries) / "2.9.0" / "unpatched").mkdir(exist_ok=True)
        assert sessions[-1].is_dir()
        run = (
            replace(run, patch=f"{folder}/two.py") if "red" in Path(run.patch).read_text() else run
        )
        return judge(run, patch)

    monkeypatch.setattr("patchgate.runs.gate.judge_patch", remember)
    edits += [("engine/one.py", "red = 1\n"), ("engine/one.py", "x = 2\n")]
    status, _, told = command("gate", "engine/one.py", "--problem", "2.10.1=no", "--watch")
    assert (status, len(project)) == (0, 3)
    assert len({id(each) for each in servers}) == len({*sessions}) == 1
    assert not sessions[0].exists()
    assert [path.name for path in (folder / ".patchgate" / "cpp" / "2.9.0").iterdir()] == [
        "unpatched"
    ]
    assert [line for line in told.splitlines() if line.startswith("since")] == [
        "since the last judgement: newly red: PG301",
        "since the last judgement: no longer red: PG301",
    ]


def test_an_edit_that_is_no_input_is_a_message_and_the_next_one_is_judged(
    command, folder, project, edits
):
    table = (folder / "patchgate.toml").read_text()
    edits += [("patchgate.toml", table.replace("'cpu'", "'cup'")), ("patchgate.toml", table)]
    status, _, told = command("gate", "engine/one.py", "--problem", "2.10.1=no", "--watch")
    assert (status, len(project)) == (0, 2)
    assert "error: patchgate.toml:3: no device `cup`" in told.splitlines()


def test_a_judgement_that_is_interrupted_ends_the_watch(
    command, folder, project, edits, monkeypatch
):
    def judge(run, patch, **_):
        case = Case(torch="2.10.1", patch="one")
        save_verdicts(
            Path(run.folder),
            [Verdict(code="PG907", kind=Kind.STOPPED, check="kernels", case=case, item="x")],
        )
        raise KeyboardInterrupt("SIGINT")

    monkeypatch.setattr("patchgate.runs.gate.judge_patch", judge)
    edits += [("engine/one.py", "x = 2\n")]
    assert command("gate", "engine/one.py", "--problem", "2.10.1=no", "--watch")[0] == 4
    assert edits


def test_a_disk_that_is_full_at_once_is_the_machine_s_trouble(command, project, monkeypatch):
    def judge(run, patch, **_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("patchgate.runs.gate.judge_patch", judge)
    status, _, told = command("gate", "engine/one.py")
    assert (status, "No space left on device" in told.splitlines()[-2]) == (4, True)


def test_code_scanning_reads_a_gate_as_it_reads_lint(command, project):
    status, printed, told = command("gate", "--format", "sarif")
    (run,) = json.loads(printed)["runs"]
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]) == (
        "engine/two.py",
        {"startLine": 1},
    )
    assert (
        result["ruleId"],
        result["level"],
        [rule["id"] for rule in run["tool"]["driver"]["rules"]],
    ) == (
        "PG301",
        "error",
        ["PG301"],
    )
    assert (status, told.splitlines()[-1].endswith("exit code 1")) == (1, True)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("npu.toml", "none.toml", "patchgate.toml:3: no such device profile"),
        ("'cpu'", "'cup'", "patchgate.toml:3: no device `cup`"),
        ("engine/*.py", "engine/none.py", "patchgate.toml:2: no such patch"),
        (
            "budgets",
            "workloads = ['no/such.py']\nbudgets",
            "patchgate.toml:4: no such file or folder",
        ),
        (
            "budgets",
            "workloads = ['residual_stak']\nbudgets",
            "patchgate.toml:4: no workload `residual_stak`",
        ),
        (
            "budgets",
            "install = 'engine'\nbudgets",
            "patchgate.toml:4: not a package that pip installs",
        ),
        ("'engine/*.py'", "", "patchgate.toml:2: no patch to judge"),
    ],
)
def test_what_the_table_names_and_is_not_there_is_refused_at_its_line(
    command, folder, project, old, new, told
):
    table = folder / "patchgate.toml"
    table.write_text(table.read_text().replace(old, new))
    status, _, wrong = command("gate")
    assert (
        status,
        project,
        [line.partition(":")[0].strip() for line in wrong.splitlines()[1:]],
    ) == (
        2,
        [],
        ["got", "next"],
    )
    assert wrong.startswith(f"error: {told}"), wrong


def test_two_patches_of_one_name_are_refused(command, folder, project):
    (folder / "engine" / "deep").mkdir()
    (folder / "engine" / "deep" / "one.py").write_text("")
    status, _, wrong = command("gate", "engine/one.py", "engine/deep/one.py")
    assert (status, project) == (2, [])
    assert wrong.startswith(
        "error: engine/deep/one.py: two patches `one`: golden tells them apart by name\n  got:  eng"
    )


def test_patches_of_two_projects_are_judged_one_by_one(command, folder, project):
    (folder / "other" / ".git").mkdir(parents=True)
    for name in ("three.py", "patchgate.toml"):
        (folder / "other" / name).write_text("")
    status, _, wrong = command("gate", "engine/one.py", "other/three.py")
    assert (status, wrong.splitlines()[0]) == (
        2,
        "error: other/three.py: a patch of another project",
    )
    assert "patchgate gate other/three.py" in wrong


def test_a_release_that_there_is_not_ends_before_anything_is_installed(command):
    status, printed, wrong = command("gate", "mine.py", "--torch", "2.99.0")
    assert (status, printed, wrong.splitlines()[0]) == (
        2,
        "",
        "error: --torch: no such release of torch",
    )
    assert f"--torch {releases()[-1]}, the newest known" in wrong


@pytest.mark.parametrize("given", [(), ("--row", f"2.11.0={sys.executable}")])
def test_a_typo_ends_before_any_torch_is_installed_or_started(command, folder, monkeypatch, given):
    def refuse(*_, **__):
        raise AssertionError("started")

    for name in ("plan.chosen_environments", "gate.judge_patch", "gate.running_servers"):
        monkeypatch.setattr(f"patchgate.runs.{name}", refuse)
    (folder / "mine.py").write_text("x = 1\ny = {\n")
    status, printed, wrong = command("gate", "mine.py", *given)
    assert (status, wrong) == (1, "")
    assert "PG210" in printed
    assert "mine.py:2" in printed
    assert (folder / ".patchgate" / "gate" / "report.html").is_file()


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("", "an empty file"),
        ("\n\n", "an empty file"),
        ("# to do\n", "only comments, texts and imports"),
        (
            '"""Patch."""\n\nimport os\nfrom torch._inductor import ir\n',
            "only comments, texts and imports",
        ),
        ("pass\n", "only comments, texts and imports"),
    ],
)
@pytest.mark.parametrize("called", ["gate", "init"])
def test_a_file_without_a_patch_ends_at_once(command, folder, called, text, got):
    (folder / "mine.py").write_text(text)
    status, printed, wrong = command(called, "mine.py")
    told = "error: mine.py: no patch: nothing in this file changes torch"
    step = "write the patch there, then: patchgate gate mine.py"
    assert (status, printed, wrong) == (2, "", f"{told}\n  got:  {got}\n  next: {step}\n")
    assert [path.name for path in folder.iterdir()] == ["mine.py"]


@pytest.mark.parametrize("text", ["import engine.patches\n", "from . import patches\n", "x = 1\n"])
def test_an_import_of_another_module_may_be_a_patch(command, folder, text):
    (folder / "mine.py").write_text(text)
    assert "no patch" not in command("gate", "mine.py", "--row", "2.11.0")[2]


def test_what_another_python_can_read_is_no_typo(command, folder, monkeypatch):
    judged = []

    def judge(run, *_, **__):
        judged.append(run.torches)
        save_run(run)
        return save_verdicts(Path(run.folder), [])

    monkeypatch.setattr(
        "patchgate.runs.plan.chosen_environments", lambda *_: ({"2.11.0": "/bin/true"}, {})
    )
    monkeypatch.setattr(gate, "judge_patch", judge)
    (folder / "mine.py").write_text("y = {\n")
    command("gate", "mine.py", "--row", "2.11.0=/bin/true")
    assert judged == [("2.11.0",)]


@pytest.mark.parametrize(("driver", "code"), [("", 2), ("driver", 0)])
def test_a_real_device_needs_the_driver_of_a_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, driver: str, code: int
) -> None:
    (tmp_path / "driver").touch()
    monkeypatch.setattr(plan, "_DRIVERS", (str(tmp_path / (driver or "none")),))
    project = Project()
    assert plan.devices_here(project, [], ("h200", "cpu"), ()) == ("h200", "cpu")
    with nullcontext() if code == 0 else pytest.raises(UsageError, match="no GPU"):
        assert plan.devices_here(project, [], ("h200", "cuda"), ()) == ("h200", "cuda")
