"""Bodies of requests and replies: JSON, lines of settings, a few small binary forms.

One module per subject, named as in `headers`. `body.py` has how a body is declared, read and
written, `catalog.py` which code carries it. Message bodies are not here.
"""
