"""patchgate: judges a patch of the PyTorch compiler before merge.

Decides nothing itself and imports nothing, so that the probe can be started
inside a bare torch environment at no cost.
"""

__version__ = "0.1.0"
