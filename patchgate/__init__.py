"""patchgate: judges a patch of the PyTorch compiler before merge.

It imports nothing: the probe starts below it, inside a torch environment that has none of our
dependencies.
"""

__version__ = "0.1.0"
