"""The records and the pure rules on them that every room shares."""
