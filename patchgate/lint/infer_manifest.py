"""What a patch's text suggests -> the text of its manifest, with a comment at each line that was guessed.

Decides the wording: what suggested the line, and which command or code settles it. Reads and writes no file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from patchgate.inputs.patch import DIFFS
from patchgate.lint.findings import show_releases
from patchgate.lint.infer import Guess, Guesses

_REST = """
# Not guessed, because only you know; the strict default holds for what is left out:
# fixed_in = "2.14"            # the release that is said to make it needless
# numerics = "rounding"        # default: "bit-identical". Settle: PG501 tells how many elements differ
# [symptom]                    # the defect that it cures, so that "still needed?" is measured
# workload = "residual_stack"
# device = "h200"
# fact = "loads.max"
# predicate = "> 4"
"""


def manifest_text(guesses: Guesses, file: str, name: str, again: str, known: Sequence[str]) -> str:
    """The manifest of `file`, of the patch called `name`; `again` judges it, `known` are the releases looked at."""
    lines = [f"# Written by `patchgate init` from {file}, without running it. Each guess says what settles it;"]
    lines += [f"# all at once: {again}"]
    for part in (_title(guesses, file, name), _source(guesses, file), _releases(guesses, file, known)):
        lines += ["", *part]
    for part in (_targets(guesses, file), _scope(guesses, file), _effects(guesses, file)):
        told = list(part)
        lines += ["", *told] if told else []
    return "\n".join(lines) + "\n" + _REST


def _title(guesses: Guesses, file: str, name: str) -> Iterator[str]:
    if guesses.title and guesses.title.value:
        yield f"# guessed: how {file} begins"
        yield f"title = {_string(guesses.title.value)}"
    else:
        yield f"# guessed: its name, because {file} begins with no sentence. Settle: say what the patch does"
        yield f"title = {_string(name)}"


def _source(guesses: Guesses, file: str) -> Iterator[str]:
    if guesses.source:
        yield f"# guessed: the first address, {_at(file, guesses.source)}. Settle: the pull request or issue it is from"
        yield f"source = {_string(guesses.source.value)}"
    else:
        yield f"# {file} names no address: the pull request or issue that it is from"
        yield '# source = "https://..."'


def _releases(guesses: Guesses, file: str, known: Sequence[str]) -> Iterator[str]:
    on = show_releases(guesses.holds_on, known)
    if guesses.applies_to:
        yield f"# guessed: the version check, {_at(file, guesses.applies_to)}, lets it through: {on}."
        yield "# Settle: PG201 and PG202 say where this is not so"
        yield f"applies_to = {_string(guesses.applies_to.value)}"
        return
    if file.endswith(DIFFS):
        yield f"# A diff has no version check of its own: without the line, {file} is applied everywhere."
        yield "# Settle: `patchgate lint --fetch` says on which releases its hunks apply"
    elif guesses.holds_on and len(guesses.holds_on) < len(known):
        yield f"# The version checks let it through on {on}, which no two bounds can say."
    else:
        yield "# No version check was found. Settle: PG211 lists the versions on which it applies"
    yield '# applies_to = ">=2.11,<2.14"'


def _targets(guesses: Guesses, file: str) -> Iterator[str]:
    settle = "Settle: PG207 names what it replaces besides, PG209 what it does not"
    if guesses.unnamed:
        lines = ", ".join(f"{file}:{line}" for line in guesses.unnamed)
        yield f"# {lines} writes into a table of torch; PG207 gives the name of the entry, if that is meant"
    if file.endswith(DIFFS):
        yield "# The functions that its hunks change. Settle: PG207 names them"
        yield '# targets = ["torch._inductor..."]'
    elif guesses.targets:
        yield f"# guessed: assigned at {_lines(file, guesses.targets)}. {settle}"
        yield from _list("targets", guesses.targets)
    else:
        yield f"# No name of torch is assigned in {file}. {settle}"
        yield '# targets = ["torch._inductor..."]'


def _scope(guesses: Guesses, file: str) -> Iterator[str]:
    if guesses.scope:
        yield f"# guessed: the one context manager, {_at(file, guesses.scope)}. Settle: PG219 says what leaks"
        yield f"scope = {_string(guesses.scope.value)}"


def _effects(guesses: Guesses, file: str) -> Iterator[str]:
    if guesses.effects:
        yield f"# guessed: set at {_lines(file, guesses.effects)}. Settle: keep those that every user of the patch"
        yield "# shall get; without its line, an effect is a verdict (PG208)"
        yield from _list("effects", guesses.effects)


def _at(file: str, guess: Guess) -> str:
    return f"{file}:{guess.line}"


def _lines(file: str, guesses: Sequence[Guess]) -> str:
    return ", ".join(dict.fromkeys(f"{file}:{guess.line}" for guess in guesses))


def _list(key: str, guesses: Sequence[Guess]) -> Iterator[str]:
    yield f"{key} = ["
    yield from (f"    {_string(guess.value)}," for guess in guesses)
    yield "]"


def _string(text: str) -> str:
    """TOML's basic string; JSON escapes all that TOML wants escaped, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
