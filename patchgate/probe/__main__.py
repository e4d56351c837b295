"""Starts the fork server inside a torch environment: `python -m patchgate.probe FD FD HOME`."""

from patchgate.probe.serve.end_with_host import main

main()
