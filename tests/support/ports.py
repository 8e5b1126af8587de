"""Loopback ports of the tests.

Every process of the tests has a block of ports for itself, so no two servers are given the same
one, however long they take to start, and one that stops finds its port free when it comes back. A
part of the block is for server processes that cannot be asked to take any port, the other part for
servers inside the process that may take any. The blocks are below the ports that our server
processes choose from, and those are below the ports of outgoing connections.
"""

import socket
from collections.abc import Iterator
from functools import cache
from itertools import cycle

_LOWEST = 10_000
_BLOCK_SIZE = 500
_BLOCK_COUNT = 19
_NAMED_COUNT = 200
# A broker takes the port two below its own, too, and the one above.
_BROKER_PORTS = 4
_BELOW = 2


def free_port() -> int:
    """A free port; a broker may have it."""
    for _ in range(_NAMED_COUNT // _BROKER_PORTS):
        lowest = next(_turns())
        if all(map(_is_free, range(lowest, lowest + _BROKER_PORTS))):
            return lowest + _BELOW
    raise RuntimeError("all ports of this process are in use")


@cache
def _turns() -> Iterator[int]:
    """A port that was given away has a long rest before its turn."""
    block = _own_block()
    return cycle(range(block, block + _NAMED_COUNT, _BROKER_PORTS))


def any_ports() -> range:
    """What servers inside this process choose from when they may take any."""
    block = _own_block()
    return range(block + _NAMED_COUNT + _BELOW, block + _BLOCK_SIZE, _BROKER_PORTS)


# Held until this process ends.
_claim = socket.socket(socket.AF_UNIX)


@cache
def _own_block() -> int:
    """A block is claimed by a socket without a file: such names are as wide as ports are."""
    for number in range(_BLOCK_COUNT):
        try:
            _claim.bind(f"\0roquet-test-ports-{number}")
        except OSError:
            continue
        return _LOWEST + number * _BLOCK_SIZE
    raise RuntimeError(f"{_BLOCK_COUNT} processes of tests have all the ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # What a server does too: a connection of a dead server that lingers is no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
