"""Compiles a workload and reads facts from what the compiler made of it."""
