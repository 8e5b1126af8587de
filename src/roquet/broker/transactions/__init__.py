"""Messages that consumers see only when their producer says so: halves, ends, check-backs."""
