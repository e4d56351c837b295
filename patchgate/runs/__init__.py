"""The work of the commands: gate, sweep, fidelity, history and bisect."""
