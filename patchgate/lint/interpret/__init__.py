"""Interprets a patch as one torch release would run it, without running the patch."""
