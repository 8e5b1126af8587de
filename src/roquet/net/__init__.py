"""Sockets and the event loop: moves frames between peers, knows no topics.

Duty: accept and connect, cut the stream into frames, pass requests to typed handlers
and responses to pending calls, with limits on the time and memory of every peer.
Interface: `Server` and `Router` for servers, `Peers` for callers, `Services` for
background work. Imports `protocol` and `settings`; nothing of the store, broker or client.
"""
