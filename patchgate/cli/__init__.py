"""The commands, one file each: options, exit codes and nothing else."""
