"""The processes of the probe: the fork server, its children, their sandbox and their replies."""
