"""PG43x: the options and modes that torch.compile knows, against golden.

Decides the texts of these codes; `patchgate.checks.compare` decides the kinds.
"""

from __future__ import annotations

from patchgate.checks.codes.facts import codes_of

CODES = codes_of(family=43, noun="option")
