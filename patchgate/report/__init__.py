"""Reports for a person or a pipeline: one module for each form.

None of them judges; `view` decides what all show.
"""
