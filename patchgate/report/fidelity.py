"""How like the real device the simulated one is, as a table: a line for each case, then what was left out and why.

Decides wording and what is cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from patchgate.model.results import Fidelity


def show_fidelity(console: Console, told: Sequence[Fidelity]) -> None:
    """Print the table, the exclusions with their reasons, and one line that sums up."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("torch", "workload", "patch"):
        table.add_column(name, no_wrap=True)
    for name in ("compared", "equal"):
        table.add_column(name, justify="right")
    table.add_column("first difference (real, simulated)")
    for one in told:
        equal = one.compared - len(one.unlike)
        style = "bold red" if one.unlike else "yellow" if one.failed else ""
        table.add_row(
            one.torch, one.workload, one.patch or "-", str(one.compared), str(equal), Text(_first(one), style=style)
        )
    console.print(table)
    for reason, where in _exclusions(told).items():
        console.print(Text(f"not compared: {', '.join(where)}: {reason}"))
    console.print(Text(_summary(told), style="bold"))


def _first(one: Fidelity) -> str:
    if one.failed:
        return f"not compared: {one.failed}"
    if not one.unlike:
        return ""
    first = one.unlike[0]
    return f"{first.fact}: {first.real}, {first.simulated}"


def _exclusions(told: Sequence[Fidelity]) -> dict[str, list[str]]:
    """Reason -> fact, told once for all cases when every one of them leaves it out."""
    cases: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in told:
        for fact, reason in one.excluded.items():
            cases[reason, fact].append(one.workload)
    found: dict[str, list[str]] = defaultdict(list)
    for (reason, fact), workloads in cases.items():
        names = sorted(set(workloads))
        found[reason].append(fact if len(names) > 1 and "." in fact else f"{fact} of {', '.join(names)}")
    return found


def _summary(told: Sequence[Fidelity]) -> str:
    compared = sum(one.compared for one in told)
    unlike = sum(len(one.unlike) for one in told)
    failed = sum(bool(one.failed) for one in told)
    rest = f"; {failed} cases could not be compared" if failed else ""
    return f"{compared - unlike} of {compared} facts equal in {len(told) - failed} cases{rest}"
