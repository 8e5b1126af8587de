"""The name server: which brokers are alive, and which topics live where.

Duty: take registrations, forget brokers that fall silent, answer route lookups, keep a
small table of settings. Name servers never talk to each other; brokers register with all.
Doors: `serve_names` runs one. Imports `net` and `protocol`; meets brokers and clients on
the wire only.
"""
