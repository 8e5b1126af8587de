"""Message traces: what became of each message, written to a topic for operators."""
