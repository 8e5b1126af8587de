"""The command `roquet`: one module per group of commands.

Duty: read options and files of settings, build what they describe, print results.
Doors: may import every other room, but only inside a command, so that starting stays fast.
"""
