"""What checks are built of, and no check: registry, context, instances, and the judgements that several share."""
