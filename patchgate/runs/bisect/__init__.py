"""Search for what turned an answer: a release, a commit, a hunk or a replaced name."""
