"""What admin commands share.

`access` is how a cluster is reached, `commands` how a command is defined, confirmed and run,
`failures` the error line and exit code when it fails, `message_view` how messages are printed. A
command calls `AsyncAdmin` and reports with `Reporter`; nothing here knows the protocol.
"""
