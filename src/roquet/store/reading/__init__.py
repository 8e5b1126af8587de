"""Reads messages of a queue: by offset, by time, past damaged entries."""
