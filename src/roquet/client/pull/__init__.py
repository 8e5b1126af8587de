"""Pull consumers: messages are prefetched, and returned when a program polls."""
