"""Findings of lint as text, JSON, SARIF and GitHub annotations."""
