"""Starts the fork server inside a torch environment: `python -m patchgate.probe FD`."""

from patchgate.probe.process.server import main

main()
