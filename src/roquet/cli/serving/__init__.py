"""What `roquet up`, `namesrv` and `broker` are made of: options that servers share, and processes.

`*_options` read what was given, `*_process` build and run what it describes. Nothing here is loaded
by commands that only talk to a server.
"""
