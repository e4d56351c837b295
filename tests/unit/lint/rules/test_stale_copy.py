"""PG122: copies that lost upstream edits, and overrides that are none."""

from __future__ import annotations

from collections.abc import Sequence

from expecttest import assert_expected_inline
from toyindex import toy_releases
from toytorch import TORCHES, found

from patchgate.lint.index.release import Release
from patchgate.lint.rules.stale_copy import edits_lost, three_way

COPY = """
from torch._inductor.ir import Box
def should_realize(self, users, **kwargs):
    a = 1
    b = {}
    c = 3
    d = 4
    print('mine')
    return a + b + c + d
Box.should_realize = should_realize
"""


def test_a_stale_copy_shows_the_edits_that_it_lost() -> None:
    assert found(COPY.format(2)) == [
        "9: PG122 red override of `Box.should_realize` copies a body of torch [2.11 and before]"
        " and lacks 2 upstream edits [from 2.13]"
    ]
    rewritten = (
        "from torch._inductor.ir import Box\nBox.should_realize = lambda self, *a, **k: True\n"
    )
    assert [line.split()[2] for line in found(rewritten)] == ["note"]
    assert found(COPY.format(2), TORCHES[:2]) == []


# Releases of which only the index is at hand.
BODILESS = tuple(each.index.release(each.version) for each in TORCHES)


def test_without_sources_a_copy_to_the_letter_is_still_known() -> None:
    exact = COPY.format(2).replace("    print('mine')\n", "")
    assert found(exact, BODILESS) == [
        "8: PG122 red override of `Box.should_realize` copies a body of torch [2.11 and before]"
        " that these releases do not have [from 2.13]"
    ]
    assert found(exact, BODILESS[:2]) == []


def test_one_value_is_no_copy_of_a_body_that_returned_it_too() -> None:
    def torches(old: str) -> Sequence[Release]:
        texts = {
            "2.10.0": f"def f(x):\n    return {old}\n",
            "2.11.0": "def f(x):\n    return 3 * x\n",
        }
        return toy_releases({version: {"torch.fx.a": text} for version, text in texts.items()})

    patch = "import torch.fx.a as a\ndef f(x):\n    return {0}\na.f = f\n"
    assert [
        line.split()[2] for line in found(patch.format("True"), torches("True")) if "PG122" in line
    ] == ["note"]
    told = [
        line.split()[2] for line in found(patch.format("g(x)"), torches("g(x)")) if "PG122" in line
    ]
    assert told == ["red"]


def test_without_sources_no_base_is_made_up() -> None:
    assert found(COPY.format(2), BODILESS) == [
        "9: PG122 note the body of `Box.should_realize` changes in torch 2.13.0 [every release]"
    ]


def test_a_copy_of_another_release_is_stale_where_it_is_the_only_one_to_apply() -> None:
    gated = "import torch\n" + COPY.format(2).replace(
        "\nBox.", "\nif torch.__version__ >= (2, 13): Box."
    )
    assert (
        "PG122 red override of `Box.should_realize` copies a body of torch [2.11 and before]"
        in found(gated)[-1]
    )


def test_the_three_ways() -> None:
    shown = three_way(
        "2.11",
        "a\nb\nc\nd\ne\nf",
        "2.13.0",
        "a\nB\nc\nd\ne\nf",
        "a\nb\nc\nd\ne\nmine\nf",
        ("- b", "+ B"),
    )
    assert_expected_inline(
        shown,
        """\
upstream, 2.11 -> 2.13.0 (! = lost by the override)
    a
! - b
! + B
    c
    d
    ...
override, 2.11 -> patch
    ...
    d
    e
  + mine
    f""",
    )


def test_edits_that_the_override_followed_are_not_lost() -> None:
    assert edits_lost("a\nb", "a\nB", "a\nB\nmine") == ()
    assert edits_lost("a\nb", "a\nB", "a\nb\nmine") == ("- b", "+ B")
    assert edits_lost("a\nb", "a", "a\nmine") == ()


def test_a_wrapper_cannot_go_stale() -> None:
    source = (
        "from torch._inductor.ir import Box\n_original = Box.should_realize\n"
        "def f(self, *a, **k): return {}(self, *a, **k)\nBox.should_realize = f\n"
    )
    assert found(source.format("_original")) == []
    assert [line.split()[1] for line in found(source.format("print"))] == ["PG122"]


def test_the_body_of_a_newer_release_is_a_backport() -> None:
    for source, known in (
        (COPY.format(20), TORCHES),
        (COPY.format(20).replace("    print('mine')\n", ""), BODILESS),
    ):
        told = found(source, known)
        assert [each.split(":")[1] for each in told] == [
            " PG122 note override of `Box.should_realize` copies a newer body of torch [from 2.13] "
            "[2.11 and before]"
        ]


def test_a_copy_is_stale_though_the_release_that_it_is_from_is_not_judged() -> None:
    for source, known in (
        (COPY.format(2), TORCHES),
        (COPY.format(2).replace("    print('mine')\n", ""), BODILESS),
    ):
        assert [each.split()[2] for each in found(source, known[2:])] == ["red"]
        assert found(source, known[:2]) == []
