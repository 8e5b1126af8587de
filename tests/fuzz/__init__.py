"""Coverage-guided attacks on everything that reads bytes of peers and files; see `targets.py`."""
