"""Applies a patch, and finds its replacements and other effects."""
