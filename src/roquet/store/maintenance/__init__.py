"""Removes expired files and queues, and checks old records again."""
