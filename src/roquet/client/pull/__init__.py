"""Pull consumers: messages are fetched ahead, and handed out when a program asks."""
