"""The name server: which brokers are registered, and which topics they have.

Duty: take registrations, remove brokers without heartbeats, answer route lookups, keep a
small table of settings. Name servers never talk to each other; brokers register with all.
Interface: `serve_names` runs one. Imports `net` and `protocol`; brokers and clients only by
the wire protocol.
"""
