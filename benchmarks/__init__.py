"""How well patchgate judges."""
