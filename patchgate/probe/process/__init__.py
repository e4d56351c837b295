"""What every process of the probe needs: its sandbox, its clock and its reply. Imports no torch."""
