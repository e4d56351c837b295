"""What was measured -> verdicts: one module a check, all of them pure.

None of these runs anything, reads a file or prints.
"""
