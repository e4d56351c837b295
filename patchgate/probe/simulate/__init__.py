"""Simulates a device from its description."""
