"""A store directory as everybody but its owner sees it: read, verify, repair."""
