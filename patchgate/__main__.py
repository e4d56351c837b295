"""`python -m patchgate` is the same as the command `patchgate`."""

from patchgate.cli.main import main

main()
