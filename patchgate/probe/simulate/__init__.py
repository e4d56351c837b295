"""Stands in for a GPU that is not there."""
