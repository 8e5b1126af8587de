"""What one owner leaves to the next, and how the next brings the queues in step with the log."""
