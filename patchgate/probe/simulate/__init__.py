"""A device that is described instead of present."""
