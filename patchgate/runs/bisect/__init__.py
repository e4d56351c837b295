"""Search for the cause of a changed answer: a release, a commit, a hunk or a replaced name."""
