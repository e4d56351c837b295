"""torch's private API without torch: index, usage, version gates, rules (one a file)."""
