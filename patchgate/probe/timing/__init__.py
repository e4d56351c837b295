"""Times a workload, with and without a patch."""
