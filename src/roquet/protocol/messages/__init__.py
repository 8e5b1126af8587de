"""Messages as values, as records, and many of them in one body."""
