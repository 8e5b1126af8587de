"""What members of a consumer group share: which queues they read, from which offset, how far."""
