"""The scoreboard: patches that went wrong in public, sound ones, seeded faults and hostile ones."""
