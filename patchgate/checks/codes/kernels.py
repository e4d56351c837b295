"""PG3xx: facts of a compile against golden.

Decides the texts of these codes; `patchgate.checks.compare` decides the kinds.
"""

from __future__ import annotations

from patchgate.checks.codes.facts import codes_of

CODES = codes_of(family=30, noun="kernel")
