"""A small made-up run: two releases, one green check, two findings, one cell that could not be
judged.
"""

import pytest
import samples

from patchgate.model.policy import Kind


def verdict(code, kind, check, torch, subject, expected="4", actual="4", **rest):
    return samples.verdict(
        kind, code, check, torch, subject, expected=expected, actual=actual, **rest
    )


@pytest.fixture
def verdicts():
    told = {"why": "worse kernels are merged", "advice": "mend the patch", "where": "code/stack.py"}
    return [
        verdict(
            "PG301",
            Kind.REGRESSED,
            "kernels",
            "2.12.1",
            "stack.h200 loads",
            "[2 4]",
            "[2 6]",
            **told,
        ),
        verdict("PG300", Kind.PASS, "kernels", "2.12.1", "stack.h200 bytes"),
        verdict(
            "PG301",
            Kind.REGRESSED,
            "kernels",
            "2.9.0",
            "stack.h200 loads",
            "[2 4]",
            "[2 6]",
            **told,
        ),
        verdict(
            "PG301", Kind.REGRESSED, "kernels", "2.9.0", "stack.h200 loads.max", "4", "6", **told
        ),
        verdict("PG400", Kind.PASS, "graph", "2.9.0", "stack.h200 fx.ops"),
        verdict(
            "PG508",
            Kind.UNMEASURED,
            "parity",
            "2.9.0",
            "stack.cpu",
            "runs",
            "no g++",
            why="nobody looked",
            advice="install g++",
        ),
        verdict(
            "PG201",
            Kind.REGRESSED,
            "gate",
            "2.9.0",
            "versions",
            "==2.9.0",
            "a|b <c>",
            why="untested",
            advice="tighten",
        ),
        verdict("PG903", Kind.PASS, "machine", "2.9.0", "sentinel.h200"),
    ]
