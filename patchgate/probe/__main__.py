"""Starts the fork server inside a torch environment: `python -m patchgate.probe FD HOME`."""

from patchgate.probe.serve.watchdog import main

main()
