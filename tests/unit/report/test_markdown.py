"""The view as Markdown, word for word."""

from dataclasses import replace

import pytest
from expecttest import assert_expected_inline

from patchgate.model.policy import Colour
from patchgate.report.markdown import as_code, render_markdown
from patchgate.report.view import view


def test_a_run_is_a_summary_a_matrix_and_blocks(verdicts):
    assert_expected_inline(
        render_markdown("mine: a title", view(verdicts, ["2.9.0", "2.12.1"])),
        """\
### ✗ ` mine: a title ` on torch 2.9.0, 2.12.1

2 causes, 4 red results, 3 green, 1 not judged

|  | problem | evidence | fix |
| --- | --- | --- | --- |
| 1 | **The patch applies on other releases than it claims.** | PG201 ` versions ` on torch 2.9.0: ` a\\|b <c> ` | ` tighten ` |
| 2 | **The patch changes the graph or the generated code, and the change is not accepted.** | PG301 ` stack.h200 loads ` on torch 2.12.1: ` [2 6] `<br>` no change in kernels called, bytes moved, bytes of memory at the peak ` | ` mend the patch ` |

<details><summary>All checks and results</summary>

| check | item | torch 2.9.0 | torch 2.12.1 |
| --- | --- | --- | --- |
| ` machine ` | ` sentinel.h200 ` | ok 1 | - |
| ` gate ` | ` versions ` | **RED** 1 PG201 | - |
| ` kernels ` | ` stack.h200 ` | **RED** 2 PG301 | **RED** 1 PG301 |
| ` graph ` | ` stack.h200 ` | ok 1 | - |
| ` parity ` | ` stack.cpu ` | ? 1 PG508 | - |

### PG201 applies where it is not claimed

| torch | ` gate ` | expected | actual |
| --- | --- | --- | --- |
| 2.9.0 | ` versions ` | ` ==2.9.0 ` | ` a\\|b <c> ` |

Why: ` untested `

Next: ` tighten `

### PG301 kernel facts changed

| torch | ` kernels ` | expected | actual |
| --- | --- | --- | --- |
| 2.9.0, 2.12.1 | ` stack.h200 loads ` | ` [2 4] ` | ` [2 6] ` |
| 2.9.0 | ` stack.h200 loads.max ` | ` 4 ` | ` 6 ` |

Where: ` code/stack.py `

Why: ` worse kernels are merged `

Next: ` mend the patch `

### PG508 parity could not be measured (not judged)

| torch | ` parity ` | expected | actual |
| --- | --- | --- | --- |
| 2.9.0 | ` stack.cpu ` | ` runs ` | ` no g++ ` |

Why: ` nobody looked `

Next: ` install g++ `

</details>
""",
    )


def test_a_run_without_a_problem_is_one_line(verdicts):
    well = [verdict for verdict in verdicts if verdict.colour is Colour.GREEN]
    told = render_markdown("mine", view(well, ["2.9.0"]))
    assert told == "✓ ` mine ` on torch 2.9.0: nothing red, 3 green\n"


def test_a_run_without_verdicts_is_an_empty_matrix():
    assert_expected_inline(
        render_markdown("mine", view([], ["2.9.0"])),
        """\
### ` mine ` on torch 2.9.0

nothing was judged

<details><summary>All checks and results</summary>

| check | item | torch 2.9.0 |
| --- | --- | --- |

</details>
""",
    )


@pytest.mark.parametrize("odd", ["a|b", "a\nb", "a\rb", "a\r\nb", "<b>", "a\u2028b", "a\ud800b"])
def test_text_of_a_patch_never_leaves_its_cell(verdicts, odd):
    told = render_markdown("mine", view([replace(verdicts[0], actual=odd)], ["2.12.1"]))
    (row,) = [line for line in told.splitlines() if "stack.h200 loads ` |" in line]
    assert row.replace("\\|", "").count("|") == 5
    assert row.endswith(" |")
    assert as_code(odd) in row
    assert told.encode()


def test_a_long_block_is_cut_and_says_so(verdicts):
    many = [replace(verdicts[0], fact=f"fact{n:02}") for n in range(60)]
    told = render_markdown("mine", view(many, ["2.12.1"]))
    assert "and 10 more, all in verdicts.json" in told
    assert ("fact49" in told, "fact50" in told) == (True, False)
