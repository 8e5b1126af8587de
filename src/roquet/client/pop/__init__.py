"""Pop consumers: the broker hands out messages for a time, and each is acknowledged by itself."""
