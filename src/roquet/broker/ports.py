"""The ports of a broker.

    port        everything
    port - 2    the same without pulls: the "fast" port of old clients and of Apache slaves
    port + 1    replication

The distances are fixed: peers compute one port from the other.
"""

import socket
from typing import Final

from roquet.errors import RoquetError

FAST_PORT_DISTANCE: Final = -2
HA_PORT_DISTANCE: Final = 1
_TRIES_MAX: Final = 50


class NoFreePorts(RoquetError):
    """Port 0 was asked for, and no port has free ports at the right distances."""


def free_port(host: str) -> int:
    """A port that is free now, and with it the two that belong to it. Raises NoFreePorts."""
    for _ in range(_TRIES_MAX):
        with socket.create_server((host, 0), family=_family(host)) as probe:
            port: int = probe.getsockname()[1]
            if _is_free(host, port + FAST_PORT_DISTANCE) and _is_free(
                host, port + HA_PORT_DISTANCE
            ):
                return port
    raise NoFreePorts(f"no free ports at {host}")


def _is_free(host: str, port: int) -> bool:
    try:
        with socket.create_server((host, port), family=_family(host)):
            return True
    except (OSError, OverflowError):
        return False


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
