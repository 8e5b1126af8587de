"""Sockets and the event loop: moves frames between peers, knows no topics.

Duty: accept and dial, cut the stream into frames, hand requests to typed handlers
and responses to whoever waits, with every limit on a peer's time and memory.
Doors: `Server` and `Router` for servers, `Peers` for callers, `Services` for
background work. Imports `protocol`; nothing of the store, broker or client.
"""
