"""The records that all of patchgate uses, and pure rules on them."""
