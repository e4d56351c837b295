"""Starts the fork server inside a torch environment: `python -m patchgate.probe FD HOME`."""

from patchgate.probe.serve.end_with_host import main

main()
