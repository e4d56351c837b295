"""Serves requests: the fork server, its children, and the functions that answer."""
