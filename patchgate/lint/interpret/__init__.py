"""Reads a patch, without running it, as one torch release would run it."""
