"""A listening socket and the connections it accepted."""

import errno
from collections.abc import Callable
from functools import partial
from typing import Any, final

from roquet.clock import Clock
from roquet.net.connection import Connection
from roquet.net.crowd import Crowd
from roquet.net.door import Door
from roquet.net.errors import AddressTaken
from roquet.net.lane import Lane
from roquet.net.limits import DEFAULT_LIMITS, ConnectionLimits
from roquet.net.listening import Listener, may_keep
from roquet.net.ports import at_free_port
from roquet.net.router import Router
from roquet.net.tls.contexts import ServerTls
from roquet.net.watch import Watch


@final
class Server:
    """Answers the requests of all who connect with one router.

    `on_closed` hears of every connection that was served, when it is gone. `lane` is asked before
    the router. Without `tls` nothing is encrypted. Servers with several ports share a `crowd`.
    """

    def __init__(
        self,
        router: Router[Any],
        clock: Clock,
        *,
        limits: ConnectionLimits = DEFAULT_LIMITS,
        on_closed: Callable[[Connection], None] | None = None,
        lane: Lane | None = None,
        tls: ServerTls | None = None,
        crowd: Crowd | None = None,
    ) -> None:
        self._router = router
        self._limits = limits
        self._on_closed = on_closed
        self._lane = lane
        self._tls = tls
        self._crowd = crowd or Crowd(clock)
        self._watch = Watch(clock, self._crowd.recount)
        self._listener: Listener | None = None

    @property
    def connection_count(self) -> int:
        return len(self._watch)

    async def start(self, host: str, port: int) -> int:
        """Listens, and returns the port: port 0 takes any.

        Raises OSError, such as AddressTaken, or NoFreePort.
        """
        if port == 0:
            return await at_free_port(host, partial(self.start, host))
        try:
            self._listener = await Listener.open(host, port, self._new_door, self._pause)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise AddressTaken(host, port) from None
            raise
        return port

    async def stop(self) -> None:
        """Accepts no more connections, and closes each one once its replies are sent."""
        if self._listener is not None:
            await self._listener.close()
        await self._watch.close_all("the server stops")

    def sweep(self) -> None:
        """Closes what is past a deadline now; happens by itself once a second."""
        self._watch.sweep()

    def knocked(self, door: Door) -> None:
        reason = self._crowd.refusal(door.ip, is_local=door.is_local)
        if reason is not None:
            self._refuse(door, reason)
        elif not may_keep(door.descriptor, is_local=door.is_local):
            self._refuse(
                door,
                f"{self.connection_count} connections are open, and files need the descriptors"
                " that are left (ulimit -n)",
            )
        else:
            self._crowd.entered(door.ip)
            self._watch.add(door)

    def left(self, door: Door) -> None:
        if door in self._watch:
            self._crowd.left(door.ip)
            self._watch.discard(door)

    def opened(self, connection: Connection) -> None:
        self._crowd.entered(connection.peer_address.ip)
        self._watch.add(connection)

    def _refuse(self, door: Door, reason: str) -> None:
        self._watch.complain("refusing", f"{reason}, refusing {door.peer}")
        door.abort("too many connections")

    def _pause(self, error: OSError) -> None:
        self._watch.refresh()
        self._watch.complain(
            "accepting", f"nobody can connect for a second: {error.strerror} (ulimit -n)"
        )

    def closed(self, connection: Connection) -> None:
        self._crowd.left(connection.peer_address.ip)
        self._watch.discard(connection)
        if self._on_closed is not None:
            self._on_closed(connection)

    def _new_door(self) -> Door:
        return Door(self, self._new_connection, self._watch, self._limits, self._tls)

    def _new_connection(self) -> Connection:
        return Connection(
            self,
            self._router.answer,
            self._watch,
            self._limits,
            lane=self._lane,
            crowd=self._crowd,
        )
