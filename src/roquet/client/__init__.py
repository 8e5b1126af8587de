"""Clients: what programs use to talk to a cluster, ours or Apache's.

Duty: find brokers, choose queues, send and send again, and say honestly what became of a message.
Doors: `AsyncProducer` and its blocking twin `Producer`, both also found in `roquet` itself.
Everything is written once, for the event loop; `blocking.py` only waits for it. Imports `net` and
`protocol`; meets brokers and name servers on the wire.
"""
