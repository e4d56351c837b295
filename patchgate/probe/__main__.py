"""Starts the fork server inside a torch environment: `python -m patchgate.probe FD`."""

from patchgate.probe.server import main

main()
