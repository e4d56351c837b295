"""What a patch is judged by: each file here is one check. What checks are built of is in `framework`."""
