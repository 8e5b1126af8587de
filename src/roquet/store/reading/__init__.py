"""From the entries of a queue to its messages: by offset, by time, past damage."""
