"""Reports for a person or a pipeline: one module for each form.

No report judges; `view` decides what all reports show.
"""
