"""Damaged inputs: `python -m benchmarks.mutations`."""
