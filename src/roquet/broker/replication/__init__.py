"""Copies of a broker's log on other brokers: what a master sends, and what a slave makes of it.

Decisions are in `frames`, `copies` and `decisions`, which know no sockets; `sending` and
`following` are the two ends of a link; `tables` is what a slave copies besides the log.
"""
