"""The verdicts and facts of many runs, and what changed between them."""
