"""Where a patch hung or crashed, read out of what faulthandler wrote."""

import pytest

from patchgate.probe.process.reply import line_in_patch

TRACE = """Current thread 0x00007f (most recent call first):
  File "/site-packages/torch/_inductor/ir.py", line 9 in realize
  File "/home/me/patch.py", line 4 in inner
  File "/home/me/patch.py", line 7 in <module>
"""


@pytest.mark.parametrize(
    ("trace", "patch", "where"),
    [
        (TRACE, "/home/me/patch.py", "/home/me/patch.py:4"),
        (TRACE, "/home/me/other.py", None),
        (TRACE, "/home/meXpatch.py", None),
        (TRACE, None, None),
        ("", "/home/me/patch.py", None),
    ],
)
def test_the_innermost_frame_of_the_patch(trace, patch, where):
    assert line_in_patch(trace, patch) == where
