"""Runs the code that was generated for a simulated GPU, on the CPU, by Triton's interpreter."""
