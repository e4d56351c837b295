"""What checks are built of, and no check: what finds them, their context, and the judgements that several share."""
