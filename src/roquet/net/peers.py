"""One connection per address, shared by all callers.

The first call opens it, and the next call after a loss opens it again; nothing reconnects by
itself.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, Protocol, final

from roquet.clock import Clock
from roquet.net.addresses import split_address
from roquet.net.connection import Connection
from roquet.net.deadlines import DeadlineSweep
from roquet.net.errors import ConnectFailed, ConnectionLost
from roquet.net.limits import DEFAULT_LIMITS, ConnectionLimits
from roquet.net.tls.contexts import TlsSide, tls_failure
from roquet.protocol.command import Command
from roquet.protocol.frame import Frame

CONNECT_TIMEOUT_S: Final = 3.0
_CLOSED_BY_US: Final = "closed by us"


class Answering(Protocol):
    """Answers requests of peers: a `Router`, or an object that chooses one."""

    def answer(self, connection: Connection, frame: Frame) -> bytes | None: ...


@final
class Peers:
    """Calls peers by address; their requests on the same connection go to `router`.

    `tls` returns the context of a new connection, or None for a plain one.
    """

    def __init__(
        self,
        router: Answering,
        clock: Clock,
        *,
        limits: ConnectionLimits = DEFAULT_LIMITS,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        tls: Callable[[], "ssl.SSLContext | None"] = lambda: None,
    ) -> None:
        self._router = router
        self.tls = tls
        self._limits = limits
        self._connect_timeout_s = connect_timeout_s
        self._deadlines = DeadlineSweep(clock)
        self._connections: dict[str, Connection] = {}
        self._dials: dict[str, asyncio.Task[Connection]] = {}
        self._is_closed = False

    async def call(self, address: str, command: Command, timeout_s: float) -> Command:
        """The response of the peer, whatever its code; connecting counts against the time.

        Raises ConnectFailed, CallTimedOut, ConnectionLost, TooManyInFlight or BadAddress.
        """
        connection = self.open_connection(address)
        if connection is not None:
            return await connection.call(command, timeout_s)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        connection = await self.connected(address, timeout_s)
        return await connection.call(command, deadline_s - loop.time())

    def open_connection(self, address: str) -> Connection | None:
        """The connection to `address`, if there is one that can be used at once."""
        connection = self._connections.get(address)
        return connection if connection is not None and connection.is_open else None

    async def connected(self, address: str, timeout_s: float) -> Connection:
        """The same, made if there is none. Raises ConnectFailed, ConnectionLost or BadAddress."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self.connect(address)
        except TimeoutError:
            raise ConnectFailed(address, f"not connected after {timeout_s:g} s") from None

    async def call_oneway(self, address: str, command: Command, timeout_s: float) -> None:
        """Returns when the request is sent, or raises as `call` does."""
        connection = await self.connected(address, timeout_s)
        await connection.until_writable(command.code, timeout_s)
        connection.send_oneway(command)

    async def connect(self, address: str) -> Connection:
        """The open connection to `address`. Raises ConnectFailed, ConnectionLost or BadAddress."""
        connection = self.open_connection(address)
        if connection is not None:
            return connection
        if self._is_closed:
            raise ConnectionLost(address, _CLOSED_BY_US)
        dial = self._dials.get(address)
        if dial is None:
            dial = self._dials[address] = asyncio.create_task(
                self._dial(address), name=f"dial {address}"
            )
            dial.add_done_callback(lambda dial: self._dialed(address, dial))
        # Many callers may wait for one dial, so one that gives up must not cancel it.
        await asyncio.wait([dial])
        if dial.cancelled():
            raise ConnectionLost(address, _CLOSED_BY_US)
        return dial.result()

    def disconnect(self, address: str, reason: str) -> None:
        """Closes the connection to a peer that is not needed or not trusted any more."""
        connection = self._connections.get(address)
        if connection is not None:
            connection.close(reason)

    async def close(self) -> None:
        """Sends what is queued and closes all; calls that still wait end in ConnectionLost."""
        self._is_closed = True
        dials = list(self._dials.values())
        for dial in dials:
            dial.cancel()
        await asyncio.gather(*dials, return_exceptions=True)
        await self._deadlines.close_all(_CLOSED_BY_US)

    def sweep(self) -> None:
        """Closes what is past a deadline now; happens by itself once a second."""
        self._deadlines.sweep()

    def opened(self, connection: Connection) -> None:
        """Not registered yet: a dial that is cancelled now is never reported as closed."""

    def closed(self, connection: Connection) -> None:
        self._deadlines.discard(connection)
        if self._connections.get(connection.peer) is connection:
            del self._connections[connection.peer]

    async def _dial(self, address: str) -> Connection:
        host, port = split_address(address)
        loop = asyncio.get_running_loop()
        tls = self.tls()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, connection = await loop.create_connection(
                    lambda: self._new_connection(address), host, port, ssl=tls
                )
        except TimeoutError:
            raise ConnectFailed(
                address, f"no connection after {self._connect_timeout_s:g} s"
            ) from None
        except (OSError, UnicodeError) as error:
            raise ConnectFailed(address, _reason(error, tls)) from None
        if connection.is_open:
            self._deadlines.add(connection)
            self._connections[address] = connection
        return connection

    def _dialed(self, address: str, dial: asyncio.Task[Connection]) -> None:
        del self._dials[address]
        if not dial.cancelled():
            dial.exception()  # Retrieved, even when all callers have given up.

    def _new_connection(self, address: str) -> Connection:
        return Connection(self, self._router.answer, self._deadlines, self._limits, dialed=address)


def _reason(error: Exception, tls: "ssl.SSLContext | None") -> str:
    if tls is not None and isinstance(error, ssl.SSLError):
        return tls_failure(error, TlsSide.CLIENT)
    # A peer that closes the connection during a handshake gives no reason.
    return str(error) or type(error).__name__
