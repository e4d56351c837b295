"""What a command carries out: gate, sweep, fidelity, history and bisect."""
