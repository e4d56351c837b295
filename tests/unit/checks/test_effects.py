"""Judge what else an imported patch changes than its targets: PG206 to PG209 and PG213 to PG219."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from patchgate.checks.effects import judge_effects
from patchgate.inputs.manifest import Claims, Patch, Target
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Case, Verdict

CASE = Case(torch="2.11.0", patch="mine")


def patch(**claims: Any) -> Patch:
    about = Claims(title="Mine", **claims)
    return Patch(id="mine", path="/p/patch.py", source="", claims=about, manifest="patch.toml")


def effect(
    kind: str, name: str = "X", line: int = 7, older: tuple[str, ...] = ()
) -> dict[str, Any]:
    what = f"{name} changed"
    return {"kind": kind, "name": name, "older": [*older], "what": what, "line": line}


TOLD: dict[str, Any] = {
    "changed": ["torch.a"],
    "claimed": {},
    "defined": [],
    "recursive": [],
    "again": "",
    "nested": [],
    "runs_again": "",
    "added": [],
    "effects": [],
}


def judged(claims: dict[str, Any] | None = None, **answer: Any) -> list[Verdict]:
    mine = patch(**({"targets": ("torch.a",)} | (claims or {})))
    return list(judge_effects(CASE, mine, TOLD | answer, "patch.toml:3"))


def test_a_patch_that_replaces_its_targets_once_is_green():
    (verdict,) = judged()
    assert (verdict.code, verdict.kind, verdict.actual) == ("PG211", Kind.PASS, "torch.a")
    assert verdict.applies


def test_what_the_package_changes_is_said_apart() -> None:
    of_package = {"package": "mine", "by_package": ["torch.b"]}
    said, ran = judged({"targets": ("torch.a", "torch.b")}, **of_package)
    assert (said.kind, said.actual) == (Kind.NOTE, "importing the package `mine` changes torch.b")
    assert (ran.kind, ran.actual) == (Kind.PASS, "torch.a")
    _, ran = judged(changed=[], **of_package)
    assert (ran.actual, ran.applies) == ("nothing in addition to its package", True)


def test_what_a_patch_does_besides_as_it_claims_is_reported_too():
    (verdict,) = judged({"effects": ("config X",)}, effects=[effect("config")])
    assert verdict.actual == "torch.a, config X"
    (verdict,) = judged({"targets": ("X",)}, changed=[], effects=[effect("config")])
    assert verdict.actual == "X"


def test_a_patch_that_is_gated_out_is_green_and_says_so():
    (verdict,) = judged({"applies_to": "==2.12.0"}, changed=[])
    assert (verdict.code, verdict.actual) == ("PG211", "nothing: the patch does not apply")
    assert not verdict.applies


@pytest.mark.parametrize(
    ("answer", "code", "actual"),
    [
        (
            {"nested": ["torch.a"], "runs_again": "install()"},
            "PG206",
            "wraps itself: torch.a (again: install())",
        ),
        ({"changed": ["torch.a", "torch.b"]}, "PG207", "torch.b"),
    ],
)
def test_what_the_patch_replaces_beyond_its_claims_is_named(answer, code, actual):
    (verdict,) = judged(**answer)
    assert (verdict.code, verdict.kind, verdict.actual) == (code, Kind.REGRESSED, actual)
    assert verdict.where == "patch.toml:3"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("device", "PG208"),
        ("environment", "PG208"),
        ("config", "PG208"),
        ("process", "PG208"),
        ("threads", "PG216"),
        ("processes", "PG216"),
        ("network", "PG216"),
        ("compile", "PG217"),
        ("files", "PG218"),
    ],
)
def test_each_kind_of_effect_has_its_code_and_points_at_the_line(kind, code):
    (verdict,) = judged(effects=[effect(kind)])
    assert (verdict.code, verdict.actual, verdict.where) == (code, "X changed", "/p/patch.py:7")
    for declared in (kind, f"{kind} X"):
        assert [each.code for each in judged({"effects": (declared,)}, effects=[effect(kind)])] == [
            "PG211"
        ]
    assert [each.code for each in judged({"effects": (f"{kind} Y",)}, effects=[effect(kind)])] == [
        code
    ]


@pytest.mark.parametrize(
    ("kind", "name", "colour"),
    [
        ("config", "X", Colour.GREY),
        ("environment", "X", Colour.GREY),
        ("state", "X", Colour.GREY),
        ("state", "random_seed", Colour.RED),
        ("process", "umask", Colour.RED),
    ],
)
def test_without_a_manifest_a_setting_that_it_could_name_is_a_note(kind, name, colour):
    mine = replace(patch(targets=None), manifest=None)
    told = TOLD | {"effects": [effect(kind, name)]}
    (verdict,) = judge_effects(CASE, mine, told, "patch.toml:3")
    assert (verdict.code, verdict.colour) == ("PG208", colour)


@pytest.mark.parametrize(
    ("kind", "text", "is_red"),
    [
        ("config", "config.X = 256", False),
        ("config", "    config.X = True  # slow", False),
        ("config", "config.X = limit", True),
        ("config", "exec(each)\nALL = ['config.X = True', 'config.Y = 2']", False),
        ("config", "exec(each)\nALL = ['config.X = limit', 'config.Y = 2']", True),
        ("config", "exec(each)\nALL = [f'config.X = {limit}', 'config.Y.X.Z = 2']", True),
        ("config", "exec(each)\nALL = ['config.OLDER = 2', 'config.X = limit']", False),
        ("environment", "os.environ['X'] = '1'", True),
    ],
)
def test_without_a_manifest_a_constant_option_may_be_what_the_patch_is_for(kind, text, is_red):
    mine = replace(patch(targets=None), manifest=None, source=text)
    told = TOLD | {"overwritten": [effect(kind, line=1, older=("config.OLDER",))]}
    (verdict,) = judge_effects(CASE, mine, told, "patch.toml:3")
    assert (verdict.code, verdict.colour is Colour.RED) == ("PG213", is_red)


@pytest.mark.parametrize(("about", "code"), [("overwritten", "PG213"), ("unseen", "PG214")])
def test_a_declared_setting_must_still_keep_the_users_and_take_effect(about, code):
    declared = {"effects": ("environment",)}
    told = effect("environment")
    assert [each.code for each in judged(declared, effects=[told], **{about: [told]})] == [code]


def test_a_setting_that_the_user_shall_not_choose_is_claimed_by_its_name():
    declared = ("overwrite X",)
    told = effect("environment")
    (verdict,) = judged({"effects": declared}, effects=[told], overwritten=[told])
    assert (verdict.code, verdict.kind) == ("PG213", Kind.NOTE)
    renamed = effect("config", "Z", older=("X",))
    (verdict,) = judged({"effects": declared}, overwritten=[renamed])
    assert (verdict.code, verdict.kind) == ("PG213", Kind.NOTE)
    (verdict,) = judged({"effects": declared}, overwritten=[effect("environment", "Y")])
    assert (verdict.code, verdict.colour) == ("PG213", Colour.RED)
    assert '`effects = ["overwrite Y"]`' in verdict.advice


def test_a_change_outside_the_scope_is_named():
    (verdict,) = judged({"scope": "patched"}, leaks=["torch.a"])
    assert (verdict.code, verdict.subject) == ("PG219", "torch.a")


def test_another_end_of_the_scope_that_leaves_a_change_is_named():
    (verdict,) = judged({"scope": "patched"}, leaks_by={"an exception in its block": ["torch.a"]})
    assert (verdict.code, verdict.colour) == ("PG219", Colour.RED)
    assert (verdict.fact, verdict.actual) == ("after an exception in its block", "changed: torch.a")


def test_a_block_inside_another_that_ends_the_outer_one_is_named():
    (verdict,) = judged({"scope": "patched"}, ended=["torch.a"])
    assert (verdict.code, verdict.colour) == ("PG219", Colour.RED)
    assert verdict.actual == "as without the patch: torch.a"


def test_a_claimed_target_that_is_left_alone_is_named():
    (verdict,) = judged({"targets": ("torch.a", "torch.b")})
    assert (verdict.code, verdict.actual) == ("PG209", "not replaced: torch.b")


def test_a_target_that_is_left_alone_where_the_patch_claims_nothing_is_no_fault():
    (verdict,) = judged({"targets": ("torch.a", "torch.b"), "applies_to": "==2.12.0"})
    assert verdict.code == "PG211"


def test_without_targets_anything_may_be_replaced():
    assert [
        verdict.code for verdict in judged({"targets": None}, changed=["torch.a", "torch.b"])
    ] == ["PG211"]


@pytest.mark.parametrize(
    ("targets", "codes"),
    [
        (("torch.a",), ["PG208"]),
        (("torch.a", "torch.config.tag"), ["PG211"]),
        (("torch.a", "torch.config.older"), ["PG211"]),
        (None, ["PG208"]),
    ],
)
def test_a_config_option_may_be_a_target_and_is_a_side_effect_otherwise(targets, codes):
    option = effect("config", "torch.config.tag", older=("torch.config.older",))
    told = judged({"targets": targets}, effects=[option])
    assert [verdict.code for verdict in told] == codes


def test_an_option_that_other_threads_do_not_see_is_red_unless_one_thread_is_claimed():
    option = effect("config", "torch.config.tag")
    claims = {"targets": ("torch.a", "torch.config.tag")}
    (verdict,) = judged(claims, effects=[option], unseen=[option])
    assert (verdict.code, verdict.kind) == ("PG214", Kind.REGRESSED)
    claims["effects"] = ("thread-local torch.config.tag",)
    (verdict,) = judged(claims, effects=[option], unseen=[option])
    assert (verdict.code, verdict.kind) == ("PG214", Kind.NOTE)


def test_without_a_manifest_an_option_that_other_threads_do_not_see_is_a_note():
    mine = replace(patch(targets=None), manifest=None)
    told = TOLD | {"unseen": [effect("config", "torch.config.tag")]}
    (verdict,) = judge_effects(CASE, mine, told, "patch.toml:3")
    assert (verdict.code, verdict.kind) == ("PG214", Kind.WARNING)
    assert '`effects = ["thread-local torch.config.tag"]`' in verdict.advice


def test_a_target_is_what_the_probe_says_that_it_means():
    claimed = {"torch.table": ["torch.table[a]", "torch.table[b]"], "torch.other.f": ["torch.f"]}
    names = [name for names in claimed.values() for name in names]
    (verdict,) = judged({"targets": tuple(claimed)}, changed=names, claimed=claimed)
    assert (verdict.code, verdict.kind) == ("PG211", Kind.PASS)
    codes = [
        verdict.code
        for verdict in judged(
            {"targets": (*claimed, "torch.g")},
            changed=[*names, "torch.h"],
            claimed=claimed | {"torch.g": []},
        )
    ]
    assert codes == ["PG207", "PG209"]


def test_an_original_that_was_saved_too_late_is_red_at_its_assignment():
    (verdict,) = judged(recursive=["torch.a"])
    assert (verdict.code, verdict.kind, verdict.fact, verdict.where) == (
        "PG224",
        Kind.REGRESSED,
        "of torch.a",
        "/p/patch.py:1",
    )


def test_a_wrapper_that_nothing_in_the_project_applies_twice_is_a_note():
    (verdict,) = judged(nested=["torch.a"])
    assert (verdict.code, verdict.kind) == ("PG206", Kind.NOTE)
    assert verdict.actual == "wraps itself: torch.a (nothing runs it twice)"


def test_a_target_of_other_releases_need_not_be_replaced():
    other = Target("torch.b")
    other.applies_to = ">=2.12"
    (verdict,) = judged({"targets": (Target("torch.a"), other)})
    assert verdict.code == "PG211"


@pytest.mark.parametrize(
    ("again", "kind"), [("install()", Kind.NOTE), ("acme/start.py:7", Kind.REGRESSED)]
)
def test_without_a_manifest_a_line_that_calls_the_installer_again_is_the_evidence(again, kind):
    mine = replace(patch(targets=("torch.a",), apply=("install()",)), manifest=None)
    told = TOLD | {"nested": ["torch.a"], "runs_again": again}
    (verdict,) = judge_effects(CASE, mine, told, "patch.toml:3")
    assert (verdict.code, verdict.kind) == ("PG206", kind)


def test_a_name_that_only_the_patch_knows_is_a_note_beside_what_it_replaces():
    replaced, added = judged(changed=["torch.a", "torch.b", "torch.c"], added=["torch.c"])
    assert (replaced.code, replaced.kind, replaced.actual) == ("PG207", Kind.REGRESSED, "torch.b")
    assert (added.code, added.kind, added.actual) == ("PG207", Kind.NOTE, "torch.c")


def test_a_second_run_that_raises_is_a_note_and_red_where_the_project_installs_it_by_a_call():
    for manifest, kind in (
        ("patch.toml", Kind.REGRESSED),
        (None, Kind.NOTE),
    ):  # without one, nobody says so
        mine = replace(patch(targets=("torch.a",), apply=("install()",)), manifest=manifest)
        told = TOLD | {"again": "RuntimeError: defined already"}
        (verdict,) = judge_effects(CASE, mine, told, "patch.toml:3")
        assert (verdict.code, verdict.kind) == ("PG206", kind)
    (verdict,) = judged(again="RuntimeError: defined already")
    assert (verdict.code, verdict.kind, verdict.actual) == (
        "PG206",
        Kind.NOTE,
        "raises RuntimeError: defined already",
    )


def test_an_entry_that_a_patch_adds_to_a_table_is_a_note():
    names = ["torch.a", "torch.registry[mine]"]
    (verdict,) = judged(changed=names, added=["torch.registry[mine]"])
    assert (verdict.code, verdict.kind, verdict.actual) == (
        "PG207",
        Kind.WARNING,
        "torch.registry[mine]",
    )
    (verdict,) = judged(changed=names)
    assert (verdict.code, verdict.kind) == ("PG207", Kind.REGRESSED)


@pytest.mark.parametrize(
    ("targets", "codes"), [((), ["PG211"]), (("torch.b",), ["PG207", "PG209"])]
)
def test_empty_targets_next_to_a_scope_claim_nothing_about_the_inside(targets, codes):
    assert [
        verdict.code
        for verdict in judged({"targets": targets, "scope": "patched"}, changed=["torch.a"])
    ] == codes
