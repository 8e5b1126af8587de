"""The broker: takes messages, keeps them, hands them out.

Duty: topics, groups, offsets, connected clients, sending and pulling. Bytes on disk are the
duty of `store`, bytes on sockets of `net`.
Doors: imports `store`, `net`, `protocol`; meets name servers and clients on the wire only.
"""
