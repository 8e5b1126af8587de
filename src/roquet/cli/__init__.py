"""The command `roquet`: one file or folder per command, of its name.

Duty: read options and files of settings, build what they describe, print results.
Dependencies: may import every other package. `main` loads the module of a command when it is
called, so that no command waits for what others need. What commands share is in `serving` for those
that start servers, in `admin_commands` for those that call servers.
"""
