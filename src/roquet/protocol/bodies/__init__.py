"""Bodies of requests and replies: JSON, lines of settings, a few small binary forms.

One module per subject. `body.py` says how a body is declared, read and written;
what a code carries is said in `catalog.py`. Message bodies are not here.
"""
