"""Evaluate version checks for one torch release, without parsing them into specifiers.

An expression with `torch.__version__` has one value for each spelling that users meet: final, with
a local part, nightly, and release candidate. This module does not handle syntax trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from patchgate.lint.interpret.references import Traps
from patchgate.lint.interpret.values import (
    SPELLINGS,
    Container,
    External,
    Known,
    Value,
    constant,
    unknown,
)
from patchgate.model.facts import ORDER

# Names of torch's version, calls that return the version, and calls that return torch's
# distribution. DISTRIBUTION stands for this distribution.
DISTRIBUTION = "torch.dist-info"
VERSION_TEXTS = frozenset({"torch.version.__version__", f"{DISTRIBUTION}.version"})
VERSION_SOURCES = frozenset(
    {"torch.__version__", "torch.torch_version.__version__", *VERSION_TEXTS}
)
METADATA = frozenset({"importlib.metadata.version", "importlib_metadata.version"})
DISTRIBUTIONS = frozenset(
    {
        "importlib.metadata.distribution",
        "importlib_metadata.distribution",
        "pkg_resources.get_distribution",
    }
)
Operator = Callable[[Any, Any], Any]


def _by_version(compare: Operator) -> Operator:
    """Return a comparison of two texts: by PEP 440 if both are versions, else as strings."""

    def compared(text: str, other: object) -> bool:
        right = ".".join(map(str, other)) if isinstance(other, (tuple, list)) else str(other)
        try:
            return bool(compare(Version(str(text)), Version(right)))
        except ValueError:
            return bool(compare(str(text), right))

    return compared


class TorchVersion(str):
    """Torch's own version type: a str that orders by PEP 440 against versions, strings and tuples
    of ints.
    """

    __lt__, __le__, __gt__, __ge__, __eq__, __ne__ = map(_by_version, ORDER.values())
    __hash__ = str.__hash__


def spellings(release: str) -> tuple[str, str, str, str]:
    """The versions that builds of one release report: final, local, and, for x.y.0, nightly and
    candidate.

    A reported version has three numbers, even if `release` has only two.
    """
    version = Version(release)
    if len(version.release) == 2 and not version.is_prerelease:
        release = f"{release}.0"
    before = version.micro == 0 and not version.is_prerelease
    nightly, candidate = (
        (f"{release}.dev20260101+cu130", f"{release}rc1") if before else (release, release)
    )
    return release, f"{release}+cu130", nightly, candidate


FINAL, LOCAL, NIGHTLY, CANDIDATE = range(SPELLINGS)


class NotKnown(Exception):
    """The value of an expression depends on more than the release."""


def _exactly(target: str) -> Callable[[str], bool]:
    """vLLM's helper: true for x.y.z, with or without a local part, and prereleases of x.y.z.1."""
    return lambda torch: Version(target) <= Version(torch) < Version(f"{target}.1")


def _ordered(symbol: str, target: str) -> Callable[[str], bool]:
    return lambda torch: bool(ORDER[symbol](Version(torch), Version(target)))


def _compared(package: str, symbol: str, target: str) -> Callable[[str], bool]:
    """Lightning's helper `compare_version("torch", operator.ge, "2.1")`."""
    if package != "torch":
        raise NotKnown
    return _ordered(symbol, target)


# Helpers that many projects write. They are recognised by name if their source is not in the
# project.
HELPERS: dict[str, Callable[..., Callable[[str], bool]]] = {
    "is_torch_equal": _exactly,
    **dict.fromkeys(
        (
            "is_torch_equal_or_newer", "is_torch_greater_or_equal", "torch_version_at_least",
            "is_torch_min_version", "is_torch_version_at_least",
            "is_torch_version_greater_or_equal", "torch_version_ge",
        ),
        partial(_ordered, ">="),
    ),
    "is_torch_version": _ordered,
    "compare_version": _compared,
    "compare_versions": _compared,
}  # fmt: skip

# Operators whose outcome may differ between 2.12.0 and 2.12.1: first if torch's version is on the
# left, then if it is on the right.
_SPLITS_AFTER = frozenset({"<=", ">", "==", "!="})
_SPLITS_BEFORE = frozenset({">=", "<", "==", "!="})
_SYMBOLS = {function: symbol for symbol, function in ORDER.items()}

# Functions that a version check may call, by their dotted names.
_VERSION_MAKERS = (
    "packaging.version.Version", "packaging.version.parse", "pkg_resources.parse_version",
    "pkg_resources.packaging.version.parse", "distutils.version.LooseVersion",
    "looseversion.LooseVersion",
)  # fmt: skip
PURE: dict[str, Callable[..., Any]] = {
    "str": str,
    "int": int,
    "tuple": tuple,
    "list": list,
    "bool": bool,
    "len": len,
    "float": float,
    "any": any,
    "all": all,
    "isinstance": isinstance,
    "map": lambda function, items: [function(item) for item in items],
    "packaging.specifiers.SpecifierSet": SpecifierSet,
    "packaging.specifiers.Specifier": SpecifierSet,
    "torch.torch_version.TorchVersion": lambda value: TorchVersion(str(value)),
    **dict.fromkeys(_VERSION_MAKERS, lambda value: Version(str(value))),
    **{f"operator.{function.__name__}": function for function in _SYMBOLS},
}


class ParameterName(str):
    """A parameter of a function of torch; only its name is known."""

    __slots__ = ()


class ParameterNames(tuple[ParameterName, ...]):
    """The parameter names of a function of torch, in place of its `inspect` signature."""

    __slots__ = ()

    def keys(self) -> tuple[ParameterName, ...]:
        return self

    values = keys


_METHODS: dict[type, frozenset[str]] = {
    ParameterNames: frozenset({"keys", "values"}),
    str: frozenset(
        {
            "split",
            "startswith",
            "endswith",
            "strip",
            "partition",
            "rpartition",
            "rsplit",
            "replace",
            "join",
        }
    ),
    SpecifierSet: frozenset({"contains"}),
}
_FIELDS = frozenset({
    "public", "base_version", "release", "major", "minor", "micro", "local", "pre", "dev", "post",
    "is_prerelease", "is_devrelease", "is_postrelease",
})  # fmt: skip
_MAX_TEXT = 200
# The time for one comparison grows with the square of the number of bounds.
_MAX_BOUNDS = 50


def field_of(value: object, name: str) -> Any:
    """`value.name` of a version. Raises NotKnown for anything else."""
    if isinstance(value, Version) and name in _FIELDS:
        return getattr(value, name)
    if isinstance(value, Version) and name in ("version", "vstring"):  # of a LooseVersion
        return str(value) if name == "vstring" else list(value.release)
    if isinstance(value, ParameterNames) and name in ("parameters", "args"):
        return value
    if isinstance(value, ParameterName) and name == "name":
        return str(value)
    raise NotKnown


def call_method(
    value: object, name: str, arguments: Iterable[Any], keywords: dict[str, Any]
) -> Any:
    """`value.name(...)` for the harmless methods of strings and specifiers.

    Raises NotKnown otherwise.
    """
    for kind, names in _METHODS.items():
        if isinstance(value, kind) and name in names:
            plain = str(value) if isinstance(value, TorchVersion) else value
            return attempt(getattr(plain, name), *arguments, **keywords)
    raise NotKnown


def fold(function: Callable[..., Any], *operands: Known) -> Known | None:
    """Apply `function` to the operands in each spelling of the release; None if Python would
    raise.
    """
    rows = zip(*(operand.values for operand in operands), strict=True)
    try:
        values = tuple(attempt(function, *row) for row in rows) or (None,) * SPELLINGS
    except NotKnown:
        return None
    return Known(
        values=values, because=frozenset().union(*(operand.because for operand in operands))
    )


def unpacked(value: Value, at: int, starred: Sequence[bool]) -> Value:
    """The value that target number `at` gets in `major, minor, *rest = value`; `starred` marks the
    target that takes the rest.
    """
    if not isinstance(value, Known):
        return value.element if isinstance(value, Container) else unknown(value)
    star = starred.index(True) if any(starred) else len(starred)
    index = at if at < star else at - len(starred)
    return (at != star and fold(lambda items: list(items)[index], value)) or unknown(value)


def attempt(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """The value of a call. Raises NotKnown if Python would raise, or if the value gets large."""
    try:
        value = function(*arguments, **keywords)
    except Exception:
        raise NotKnown from None
    if isinstance(value, (str, tuple, list)) and len(value) > _MAX_TEXT:
        raise NotKnown
    if isinstance(value, SpecifierSet) and len(value) > _MAX_BOUNDS:
        raise NotKnown
    return value


def as_known(argument: Value) -> Value:
    """The argument, or a known value if it is a function that a version check may call."""
    function = PURE.get(argument.dotted) if isinstance(argument, External) else None
    return constant(function) if function else argument


def argument_of_helper(argument: Value) -> str | None:
    """The text of a version helper's argument: a version, or the symbol of an operator."""
    known = as_known(argument)
    if not isinstance(known, Known):
        return None
    value = known.values[FINAL]
    return _SYMBOLS.get(value) if callable(value) else str(value)


def traps_of_helper(results: tuple[Any, ...]) -> Traps:
    """The traps that a helper falls into, given its answers for each spelling."""
    final = results[FINAL]
    if not isinstance(final, bool):
        return Traps()
    return Traps(
        local=final != bool(results[LOCAL]),
        nightly_below=not final and bool(results[NIGHTLY]),
        nightly_above=final and not results[CANDIDATE],
    )


def traps_in(
    symbol: str, left: Known, right: Known, results: tuple[Any, ...], release: str
) -> Traps:
    """The traps that `left symbol right` falls into, given the values in each spelling of
    `release`.
    """
    first, second = left.values[FINAL], right.values[FINAL]
    if right.because:
        splits = symbol in _SPLITS_BEFORE and not left.because and _is_minor(first, second)
    else:
        splits = symbol in _SPLITS_AFTER and _is_minor(second, first)
    splits = splits and {type(first), type(second)} != {str}
    kinds = {type(first), type(second)} if symbol in ("<", "<=", ">", ">=") else set()
    one, other = _as_text(first), _as_text(second)
    textual, misorders = bool(kinds) and None not in (one, other), False
    if textual:
        misorders = _misorders(symbol, str(one), str(other), results[FINAL])
    elif float in kinds and kinds <= {float, int}:
        misorders = _misorders(
            symbol, _as_version(first, release), _as_version(second, release), results[FINAL]
        )
    return Traps(
        textual=textual,
        numeric=misorders and not textual,
        misorders=misorders,
        local=bool(results[FINAL]) != bool(results[LOCAL]),
        splits=splits,
        nightly_below=symbol == "<" and not results[FINAL] and bool(results[NIGHTLY]),
        nightly_above=symbol == ">=" and bool(results[FINAL]) and not results[CANDIDATE],
    )


def _as_text(value: object) -> str | None:
    """A string, or a list of strings joined by dots: 2.9 for ["2", "9"]; None for the rest."""
    if isinstance(value, (tuple, list)) and value and {*map(type, value)} == {str}:
        return ".".join(value)
    return str(value) if type(value) is str else None


def _is_minor(bound: object, torch: object) -> bool:
    """True if `bound` is only the first two numbers of `torch`: 2.12 for 2.12.1."""
    text = ".".join(map(str, bound)) if isinstance(bound, (tuple, list)) else str(bound)
    minor = ".".join(str(torch).split(".")[:2])
    return text == minor and str(torch) != minor


def traps_of_specifiers(specifiers: Known, torch: Known) -> Traps:
    """The traps of a test that asks if the specifiers contain torch's version."""
    each_of = specifiers.values[FINAL]
    if not torch.because or not isinstance(each_of, SpecifierSet):
        return Traps()
    found = [
        each.operator in _SPLITS_AFTER and _is_minor(each.version, torch.values[FINAL])
        for each in each_of
    ]
    return Traps(splits=any(found))


def _as_version(number: float, release: str) -> str:
    """The version that a number means. 2.1 may also mean 2.10 or 2.11, as in float("2.10") and
    float("2.11"[:3]).
    """
    return release if isinstance(number, float) and release.startswith(str(number)) else str(number)


def _misorders(symbol: str, first: str, second: str, result: object) -> bool:
    try:
        return bool(ORDER[symbol](Version(first), Version(second))) != bool(result)
    except ValueError:
        return False
