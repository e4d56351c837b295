"""The work of the commands: gate, sweep, history and bisect."""
