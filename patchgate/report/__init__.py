"""Verdicts -> what a person or a pipeline reads: one module a form, all of them leaves.

None of these judges; what they show together is decided once, in `view`.
"""
