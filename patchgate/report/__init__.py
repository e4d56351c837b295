"""What a person or a pipeline reads of a run: one module a form. None of them judges; `view` decides what all show."""
