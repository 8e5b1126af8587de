"""Listening sockets, and free ports for servers that take any.

Event loops can listen, too, but not without descriptors: one logs a traceback each second, another
may close the listening socket for good.

The kernel gives outgoing connections ports from a range of its own. A server that has one of those
may find it taken when it restarts; and a client that keeps connecting meanwhile may be given that
very port, and then talks to itself. So servers get one below that range.
"""

import asyncio
import errno
import random
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import count, islice
from typing import Any, Final, Self, TypeVar, final

from roquet.net.addresses import is_loopback
from roquet.net.errors import NoFreePort
from roquet.process_limits import KEPT_FILES, descriptor_limits, is_short_of_descriptors

BACKLOG: Final = 1024
# At most this many are accepted before other tasks run.
_ACCEPT_COUNT_MAX: Final = 64
# Pause without accepting when descriptors run out; new connections wait in the backlog.
_PAUSE_S: Final = 1.0
# The peer is gone again, or there is none.
_NO_CONNECTION: Final = frozenset((errno.EAGAIN, errno.ECONNABORTED, errno.EINTR, errno.EPROTO))

# Linux starts its own range at 32768, other systems at 49152. A broker has the port two below its
# own and the one above, but a slave listens there only when it becomes master: so no other
# server gets a port that near.
PORTS: Final = range(20_000, 32_000, 4)
_TRIES_MAX: Final = 50

T = TypeVar("T")


@final
class Listener:
    """Made by `open`. Calls `new_protocol` for each connection, `on_shortage` for each pause."""

    def __init__(
        self,
        sockets: list[socket.socket],
        new_protocol: Callable[[], asyncio.Protocol],
        on_shortage: Callable[[OSError], None],
    ) -> None:
        self._sockets = sockets
        self._new_protocol = new_protocol
        self._on_shortage = on_shortage
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        for each in sockets:
            self._resume(each)

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        new_protocol: Callable[[], asyncio.Protocol],
        on_shortage: Callable[[OSError], None],
    ) -> Self:
        """Listens at all addresses of a host. Raises OSError."""
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        sockets: list[socket.socket] = []
        try:
            for family, _, _, _, address in dict.fromkeys(found):
                sockets.append(_listening(family, address))
        except OSError:
            for each in sockets:
                each.close()
            raise
        return cls(sockets, new_protocol, on_shortage)

    async def close(self) -> None:
        """Returns when those that were accepted are known to their protocols."""
        for pause in self._pauses.values():
            pause.cancel()
        while self._sockets:
            listening = self._sockets.pop()
            self._loop.remove_reader(listening)
            listening.close()
        while self._opening:
            await asyncio.wait(self._opening)

    def _resume(self, listening: socket.socket) -> None:
        self._pauses.pop(listening, None)
        self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPT_COUNT_MAX):
            try:
                accepted, _ = listening.accept()
            except OSError as error:
                if error.errno in _NO_CONNECTION:
                    return
                if not is_short_of_descriptors(error):
                    raise
                self._loop.remove_reader(listening)
                self._pauses[listening] = self._loop.call_later(_PAUSE_S, self._resume, listening)
                self._on_shortage(error)
                return
            task = self._loop.create_task(self._open(accepted))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
            if not may_keep(accepted.fileno(), is_local=False):
                # It may be refused. No more are accepted until it is: a burst would take the
                # descriptors that are reserved for files.
                return

    async def _open(self, accepted: socket.socket) -> None:
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(self._new_protocol, accepted)
        except OSError:
            # The peer is gone.
            accepted.close()


def may_keep(descriptor: int, *, is_local: bool) -> bool:
    """Whether a new connection may keep its descriptor, or it is reserved for files.

    Peers on the server's own machine get the last ones.
    """
    return descriptor_limits().may_connect(
        descriptor, file_count=KEPT_FILES.descriptor_count, is_local=is_local
    )


def is_of_this_machine(transport: asyncio.BaseTransport) -> bool:
    """Whether the peer runs on the same machine: at its loopback, or at the address it reached."""
    peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    # A peer that is gone already has no address any more.
    return bool(peer) and (is_loopback(peer[0]) or (bool(own) and peer[0] == own[0]))


def in_turn(ports: Sequence[int]) -> Iterator[int]:
    """Starts anywhere, so that processes seldom try the same port.

    No port is given twice in a process: its first owner may listen later, or restart.
    """
    start = random.randrange(len(ports))  # noqa: S311  A port is no secret.
    return (ports[index % len(ports)] for index in count(start))


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
    """What `start` returns, which is called again when another process took the port first.

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
        # As servers do: closed connections in TIME_WAIT do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def _listening(family: int, address: tuple[Any, ...]) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Closed connections in TIME_WAIT do not matter.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.setblocking(False)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
