"""WATCHING A SERVER. Pages over HTTP for Prometheus and for probes; nothing of it runs unasked.

What is measured is the server's own affair: it hands in an `Observed`. Loaded only where a port for
it is set up, so that others start as quickly as ever.
"""
