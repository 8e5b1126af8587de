"""Messages that consumers see only when their producer commits them: halves, ends, check-backs."""
