"""The host side of the probe: environments, fork servers, questions to them, and stored answers."""
