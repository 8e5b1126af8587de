"""Ports for servers that take any.

The kernel gives outgoing connections ports from a range of its own. A server that has one of those
may find it taken when it comes back; and a client that keeps calling while it is away may be given
that very port, and then talks to itself. So servers get one below that range.
"""

import errno
import random
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import cycle, islice
from typing import Final, TypeVar

from roquet.net.errors import NoFreePort

# Linux begins its own range at 32768, other systems at 49152. A broker has the port two below its
# own and the one above, but a slave listens there only when it becomes master: so nobody else is
# given a port that near.
PORTS: Final = range(20_000, 32_000, 4)
_TRIES_MAX: Final = 50

T = TypeVar("T")


def in_turn(ports: Sequence[int]) -> Iterator[int]:
    """From anywhere on, so that processes seldom meet.

    Nobody in a process is given what another one got there, who may listen later, or be away.
    """
    begin = random.randrange(len(ports))  # noqa: S311  Nobody is kept out by a secret port.
    return cycle([*ports[begin:], *ports[:begin]])


turns = in_turn(PORTS)


def free_port(host: str, *distances: int) -> int:
    """A port that is free now, and with it those at these distances. Raises NoFreePort."""
    for port in islice(turns, _TRIES_MAX):
        if all(_is_free(host, port + distance) for distance in (0, *distances)):
            return port
    raise NoFreePort(host)


async def at_free_port(
    host: str, start: Callable[[int], Awaitable[T]], distances: tuple[int, ...] = ()
) -> T:
    """What `start` returns, which is called again when somebody else was quicker to take the port.

    Raises NoFreePort, and what `start` raises.
    """
    for _ in range(_TRIES_MAX):
        try:
            return await start(free_port(host, *distances))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise NoFreePort(host)


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        # As servers do: what lingers of connections that have ended is no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True
