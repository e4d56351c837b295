"""`python -m benchmarks.corpus`, which `nox -s corpus` runs: the scoreboard of what the gate
catches.
"""

from benchmarks.corpus.command import corpus
from patchgate.cli.main import end_by_exit_code

end_by_exit_code(corpus, "corpus")
