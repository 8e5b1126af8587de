"""Push consumers: from the queues of a member to its listener, and back."""
