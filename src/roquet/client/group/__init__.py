"""What members of a consumer group have in common: which queues, from where, how far."""
