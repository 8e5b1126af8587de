"""Replication of a broker's log: what a master sends, and what a slave does with it.

Decisions are in `frames`, `replica_progress`, `in_sync` and `decisions`, which know no sockets;
`master` and `slave` are the two ends of a link; `tables` is what a slave fetches besides the log.
"""
