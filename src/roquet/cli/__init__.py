"""The command `roquet`: one file or folder per command, of its name.

Duty: read options and files of settings, build what they describe, print results.
Doors: may import every other room. `main` loads the module of a command when it is called, so that
no command waits for what others need. What commands share is in `serving` for those that start
servers, in `operating` for those that ask servers.
"""
