"""Times a workload, and what compiling it costs."""
