"""Infer a specifier from a version check: bounds are spelled as the source spells them."""

import ast

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from patchgate.lint.infer_manifest import points_around, specifier, versions_named

RELEASES = ["2.9.0", "2.9.1", "2.10.0", "2.11.0", "2.12.0", "2.12.1"]


def told(source, check):
    return specifier(points_around(RELEASES, versions_named(ast.parse(source))), check, RELEASES)


def version_in(low, high):
    return lambda text: Version(low) <= Version(text) < Version(high)


@pytest.mark.parametrize(
    ("source", "check", "expected"),
    [
        ("'2.11.0'", lambda text: text == "2.11.0", "==2.11.0"),
        ("'2.11.0'", version_in("2.11.0", "2.12.0.dev0"), ">=2.11.0,<2.12"),
        (
            "'2.10.0.dev0', '2.12.0.dev0'",
            version_in("2.10.0.dev0", "2.12.0.dev0"),
            ">=2.10.0.dev0,<2.12",
        ),
        ("(2, 11)", lambda text: Version(text) >= Version("2.11"), ">=2.11"),
        ("'2.9.2'", lambda text: Version(text) < Version("2.9.2"), "<2.9.2"),
        ("", lambda text: True, ""),
        ("", lambda text: False, None),
        ("", lambda text: text in ("2.9.0", "2.12.0"), None),
        ("", lambda text: text not in ("2.10.0", "2.12.0"), None),
    ],
)
def test_a_check_becomes_the_specifier_that_says_the_same(source, check, expected):
    assert told(source, check) == expected


@pytest.mark.parametrize("low", RELEASES)
@pytest.mark.parametrize("high", RELEASES)
def test_the_specifier_holds_where_the_check_does(low, high):
    check = version_in(low, high)
    found = told(f"'{low}', '{high}'", check)
    if Version(low) < Version(high):
        assert [SpecifierSet(found).contains(each) for each in RELEASES] == [
            check(each) for each in RELEASES
        ]
    else:
        assert found is None


def test_only_what_is_a_version_is_one():
    assert versions_named(ast.parse("'2.11', 'a.b', '3', (2, 'x'), (2,), (2, 13), 2.5")) == {
        "2.11",
        "2.13",
    }
