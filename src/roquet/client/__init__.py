"""Clients: what programs use to talk to a cluster, ours or Apache's.

Duty: find brokers, choose queues, send and send again, and say honestly what became of a message.
Doors: producers, consumers, a reader and an admin, all found in `roquet` itself. Everything is
written once, for the event loop; the twins in `blocking` only wait for it. Imports `net` and
`protocol`; meets brokers and name servers on the wire.
"""
