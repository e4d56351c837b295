"""Paired times of a workload -> PG60x: slower than the budget, faster than was recorded, or cannot tell.

Decides by the whole interval, never by a single figure. Refuses to know how times were taken.
"""

from __future__ import annotations

# Rounds of one look; each is a placement in memory.
ROUNDS = 8
CONFIDENCE = 0.99
