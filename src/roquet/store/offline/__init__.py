"""A store directory without its owner: read, verify, repair."""
