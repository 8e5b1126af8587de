"""Loopback ports for servers that cannot be told to take port 0."""

import random
import socket

# Below the range the kernel takes ports for outgoing connections from: a port that is free
# now is not taken by somebody's client before its server listens.
_LOWEST = 10_000
_HIGHEST = 32_000
_TRIES = 200


def free_port(*neighbours: int) -> int:
    """A port that is free right now, together with the ports at the given distances from it."""
    for _ in range(_TRIES):
        port = random.randrange(_LOWEST, _HIGHEST)
        if all(_is_free(port + distance) for distance in (0, *neighbours)):
            return port
    raise RuntimeError(f"no free port with neighbours {neighbours} in {_TRIES} tries")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # What a server does too: a connection of a dead server that lingers is no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
