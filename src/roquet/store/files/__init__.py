"""Files of fixed size, mapped into memory: one, a run of them, and what they are called."""
