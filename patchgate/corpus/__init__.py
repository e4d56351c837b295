"""The corpus: cases whose verdicts are known, and how many of them the gate gets right."""
