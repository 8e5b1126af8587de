"""Clients: what programs use to talk to a cluster of Roquet or Apache RocketMQ.

Duty: find brokers, choose queues, send and retry, and report reliably what became of a message.
Interface: producers, consumers, a reader and an admin, all exported by `roquet` itself. Everything
is written once, for the event loop; the twins in `blocking` only wait for it. Depends on `net` and
`protocol`; talks to brokers and name servers over the network only.
"""
