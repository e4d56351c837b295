"""Runs a workload and compares the numbers."""
