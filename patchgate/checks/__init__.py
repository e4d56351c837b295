"""What a patch is judged by. A module in this folder is a check by being there; what checks share is in `framework`."""
