"""Bytes to values and back: everything RocketMQ peers send each other.

Duty: frames, command headers, request headers and bodies, messages. Every
limit on what a peer may send is checked here, before anything is allocated.
Dependencies: imports nothing of ours but `errors`; no I/O, clock, logging, asyncio.
"""
