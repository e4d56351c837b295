"""How like the real device the simulated one is: a table with a line for each case, then what was
not compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from patchgate.model.results import Fidelity


def show_fidelity(console: Console, cases: Sequence[Fidelity]) -> None:
    """Print the table, the exclusions with their reasons, and one line that sums up."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("torch", "workload", "patch"):
        table.add_column(name, no_wrap=True)
    for name in ("compared", "equal"):
        table.add_column(name, justify="right")
    table.add_column("first difference (real, simulated)")
    for case in cases:
        counts = str(case.compared), str(case.compared - len(case.unlike))
        style = "bold red" if case.unlike else "yellow" if case.failed else ""
        table.add_row(
            case.torch,
            case.workload,
            case.patch or "-",
            *counts,
            Text(_difference(case), style=style),
        )
    console.print(table)
    for reason, facts in _exclusions(cases).items():
        console.print(Text(f"not compared: {', '.join(facts)}: {reason}"))
    console.print(Text(_summary(cases), style="bold"))


def _difference(case: Fidelity) -> str:
    if case.failed:
        return f"not compared: {case.failed}"
    return "".join(f"{first.fact}: {first.real}, {first.simulated}" for first in case.unlike[:1])


def _exclusions(cases: Sequence[Fidelity]) -> Mapping[str, list[str]]:
    """Reason -> facts; each with its workload where only one leaves it out."""
    workloads = defaultdict(set)
    for case in cases:
        for fact, reason in case.excluded.items():
            workloads[reason, fact].add(case.workload)
    facts = defaultdict(list)
    for (reason, fact), names in workloads.items():
        facts[reason].append(
            fact if len(names) > 1 and "." in fact else f"{fact} of {', '.join(sorted(names))}"
        )
    return facts


def _summary(cases: Sequence[Fidelity]) -> str:
    compared = sum(case.compared for case in cases)
    unlike = sum(len(case.unlike) for case in cases)
    failed = sum(bool(case.failed) for case in cases)
    rest = f"; {failed} cases could not be compared" if failed else ""
    return f"{compared - unlike} of {compared} facts equal in {len(cases) - failed} cases{rest}"
