"""A listening socket and the connections it accepted."""

import asyncio
import errno
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, final

from roquet.clock import Clock
from roquet.net.connection import Connection, FastPath
from roquet.net.deadlines import DeadlineSweep, HasDeadline
from roquet.net.errors import AddressTaken
from roquet.net.limits import DEFAULT_LIMITS, ConnectionBudget, ConnectionLimits
from roquet.net.listening import Listener, at_free_port, may_keep
from roquet.net.proxy_protocol import ProxyHeader
from roquet.net.router import Router
from roquet.net.tls.contexts import ServerTls
from roquet.net.tls.detection import TlsDetector
from roquet.protocol.host import Address


class ServedConnection(HasDeadline, Protocol):
    """A connection of any protocol; calls `opened` and `closed` of its server."""

    peer_address: Address

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...


# Makes the protocol of an accepted connection.
NewConnection = Callable[["Server", DeadlineSweep], asyncio.Protocol]


@final
class Server:
    """Answers the requests of all connections with one router.

    `new_connection` is for peers that speak something else, and that may come through a load
    balancer: it makes ForwardedConnections. `on_closed` is called for every
    connection of remoting that was served, once it is closed. `fast_path` gets frames before the
    router. Without `tls` nothing is encrypted. Servers with several ports share a `budget`.
    """

    def __init__(
        self,
        router: Router[Any] | None,
        clock: Clock,
        *,
        new_connection: NewConnection | None = None,
        limits: ConnectionLimits = DEFAULT_LIMITS,
        on_closed: Callable[[Connection], None] | None = None,
        fast_path: FastPath | None = None,
        tls: ServerTls | None = None,
        budget: ConnectionBudget | None = None,
    ) -> None:
        self._router = router
        self._make_connection = new_connection or self._remoting
        self._limits = limits
        self._on_closed = on_closed
        self._fast_path = fast_path
        self._tls = tls
        self._takes_proxy_headers = new_connection is not None
        self._budget = budget or ConnectionBudget(clock)
        self._deadlines = DeadlineSweep(clock, self._budget.recount)
        self._listener: Listener | None = None

    @property
    def connection_count(self) -> int:
        return len(self._deadlines)

    async def start(self, host: str, port: int) -> int:
        """Listens, and returns the port: port 0 takes any.

        Raises OSError, such as AddressTaken, or NoFreePort.
        """
        if port == 0:
            return await at_free_port(host, partial(self.start, host))
        try:
            self._listener = await Listener.open(host, port, self._new_detector, self._pause)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise AddressTaken(host, port) from None
            raise
        return port

    async def stop(self) -> None:
        """Accepts no more connections, and closes each one once its replies are sent."""
        if self._listener is not None:
            await self._listener.close()
        await self._deadlines.close_all("the server stops")

    def sweep(self) -> None:
        """Closes what is past a deadline now; happens by itself once a second."""
        self._deadlines.sweep()

    def on_accepted(self, detector: TlsDetector) -> None:
        reason = self._budget.refusal(detector.ip, is_local=detector.is_local)
        if reason is not None:
            self._refuse(detector, reason)
        elif not may_keep(detector.descriptor, is_local=detector.is_local):
            self._refuse(
                detector,
                f"{self.connection_count} connections are open, and the remaining descriptors"
                " are reserved for files (ulimit -n)",
            )
        else:
            self._budget.opened(detector.ip)
            self._deadlines.add(detector)

    def on_detected(self, detector: TlsDetector) -> None:
        if detector in self._deadlines:
            self._budget.closed(detector.ip)
            self._deadlines.discard(detector)

    def opened(self, connection: ServedConnection) -> None:
        self._budget.opened(connection.peer_address.ip)
        self._deadlines.add(connection)

    def _refuse(self, detector: TlsDetector, reason: str) -> None:
        self._deadlines.warnings.warning("refusing", f"{reason}, refusing {detector.peer}")
        detector.abort("too many connections")

    def _pause(self, error: OSError) -> None:
        self._deadlines.warnings.warning(
            "accepting", f"no connections are accepted for a second: {error.strerror} (ulimit -n)"
        )

    def closed(self, connection: ServedConnection) -> None:
        self._budget.closed(connection.peer_address.ip)
        self._deadlines.discard(connection)
        if self._on_closed is not None and isinstance(connection, Connection):
            self._on_closed(connection)

    def _new_detector(self) -> TlsDetector:
        header = ProxyHeader() if self._takes_proxy_headers else None
        return TlsDetector(
            self, self._new_connection, self._deadlines, self._limits, self._tls, header
        )

    def _new_connection(self) -> asyncio.Protocol:
        return self._make_connection(self, self._deadlines)

    def _remoting(self, _server: "Server", deadlines: DeadlineSweep) -> Connection:
        assert self._router is not None, "without a router it speaks something else"
        return Connection(
            self,
            self._router.answer,
            deadlines,
            self._limits,
            fast_path=self._fast_path,
            budget=self._budget,
        )
