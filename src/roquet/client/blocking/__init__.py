"""Blocking twins: the same clients for programs without an event loop."""
