"""The private API of each torch release: read from sources, stored, and queried."""
