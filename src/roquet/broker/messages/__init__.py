"""Messages on their way in and out: appended, acknowledged, pulled, long polling."""
