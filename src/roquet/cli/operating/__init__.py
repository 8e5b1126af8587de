"""What all commands for operators have in common.

`access` is how a cluster is reached, `commands` how a command is defined and run, `failures` what
is said and how it ends when it cannot be done, `confirming` what happens before a change. A command
asks with `AsyncAdmin` and reports with `Reporter`; nothing here knows the protocol.
"""
