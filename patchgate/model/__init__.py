"""The records that every room uses, and pure rules on them."""
