"""Starts the fork server inside a torch environment: `python -m patchgate.probe SOCKET`."""

from patchgate.probe.server import main

main()
