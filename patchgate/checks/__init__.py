"""What a patch is judged by, one file a check."""
