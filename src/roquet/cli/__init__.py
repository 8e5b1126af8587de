"""The command `roquet`: one module per group of commands.

Duty: read options and files of settings, build what they describe, print results.
Doors: may import every other room. `main` loads the module of a command when it is called, so that
no command waits for what others need.
"""
