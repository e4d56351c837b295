"""Compiles a workload and reads facts from the compiler's results."""
