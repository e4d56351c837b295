"""PG4xx: facts of a compile against golden.

Decides the texts of these codes; `patchgate.compare` decides the kinds.
"""

from __future__ import annotations

from patchgate.codes.facts import codes_of
from patchgate.model import Kind

# A case that fails has one verdict, in the kernels check.
CODES = codes_of(family=4, noun="graph", without=(Kind.KNOWN, Kind.INFRA))
