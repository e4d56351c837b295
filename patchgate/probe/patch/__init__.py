"""Applies a patch, and finds out what it replaced and did besides."""
