"""A hook of MkDocs: links to files of the checkout become their names, as the site has none of
them.
"""

from __future__ import annotations

import re
from typing import Any


def on_page_markdown(markdown: str, **_: Any) -> str:
    """`[text](../path)` -> text (`path`)."""
    return re.sub(r"\[([^\]]*)\]\(\.\./([^)#]+)(?:#[^)]*)?\)", r"\1 (`\2`)", markdown)
