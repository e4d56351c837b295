"""What the modelled time is worth: modelled against measured changes, on a real GPU."""
