"""Reports for a person or a pipeline: one module a form.

None of them judges; `view` decides what all show.
"""
