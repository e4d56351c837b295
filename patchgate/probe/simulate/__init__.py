"""A device that is described instead of one that is there."""
