"""Judges the text of a patch against the private API of every torch release, without torch."""
