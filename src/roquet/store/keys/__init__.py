"""Finding messages by key: what keys are, and the files of the key index."""
