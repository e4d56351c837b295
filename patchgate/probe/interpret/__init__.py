"""Runs code for a simulated GPU on the CPU, by Triton's interpreter."""
