"""The broker: takes messages, keeps them, hands them out.

Duty: topics, groups, offsets, connected clients, sending and pulling. Bytes on disk are the
duty of `store`, bytes on sockets of `net`.
Dependencies: `store`, `net`, `protocol`; name servers and clients it knows by the wire only.
"""
