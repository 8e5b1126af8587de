"""Opening a store: finds the end of the log and makes the queues agree with it."""
