"""Detects by the first byte of an accepted connection whether the peer speaks TLS.

    0x16 ...    a TLS handshake
    0x00 ...    a frame, which is never so long that its length starts with another byte
    "PRI "      HTTP/2, at a port of gRPC; there the header of a load balancer may come first

Afterwards the detector is out of the way: a plain connection reads from its socket directly.
"""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast, final

from roquet.net.deadlines import CLOSING_TIMEOUT_S, DeadlineSweep
from roquet.net.errors import BadProxyHeader, TlsNotUsable, TlsRefused
from roquet.net.limits import ConnectionLimits
from roquet.net.listening import is_of_this_machine
from roquet.net.proxy_protocol import ProxyHeader
from roquet.net.tls.contexts import ServerTls, TlsSide, is_encrypted, tls_failure
from roquet.net.tls.settings import TlsMode
from roquet.net.tls.transport import TlsSession, TlsTransport
from roquet.protocol.host import Address


class ForwardedConnection(Protocol):
    """One that may come through a load balancer; `source` is its client then."""

    source: Address | None


class TlsDetectorOwner(Protocol):
    def on_accepted(self, detector: "TlsDetector") -> None: ...

    def on_detected(self, detector: "TlsDetector") -> None:
        """The connection took over, or the peer is gone."""


@final
class TlsDetector(asyncio.Protocol):
    """`new_connection` is called once the first bytes are valid. Without `tls` only plain peers.

    With `proxy_header` its connections are ForwardedConnections.
    """

    __slots__ = (
        "_deadlines",
        "_is_open",
        "_limits",
        "_new_connection",
        "_owner",
        "_proxy_header",
        "_session",
        "_tls",
        "_transport",
        "deadline_s",
        "ip",
        "is_local",
        "peer",
    )

    def __init__(
        self,
        owner: TlsDetectorOwner,
        new_connection: Callable[[], asyncio.Protocol],
        deadlines: DeadlineSweep,
        limits: ConnectionLimits,
        tls: ServerTls | None,
        proxy_header: ProxyHeader | None = None,
    ) -> None:
        self._owner = owner
        self._new_connection = new_connection
        self._deadlines = deadlines
        self._limits = limits
        self._tls = tls
        self._proxy_header = proxy_header
        self._session: TlsSession | None = None
        self._is_open = True
        self.deadline_s = float("inf")
        self.ip = ""
        self.is_local = False
        self.peer = ""

    # Called by deadlines and the owner.

    @property
    def descriptor(self) -> int:
        """Of its socket, while it is open."""
        number: int = self._transport.get_extra_info("socket").fileno()
        return number

    def expire(self) -> None:
        if not self._is_open:
            self._transport.abort()
        elif self._session is None:
            self.close("idle")
        else:
            limit_s = self._limits.handshake_timeout_s
            self._warn(f"it did not complete a TLS handshake within {limit_s:g} s")
            self.abort("slow handshake")

    def close(self, _reason: str) -> None:
        self._is_open = False
        self.deadline_s = self._deadlines.now_s + CLOSING_TIMEOUT_S
        self._transport.close()

    def abort(self, _reason: str) -> None:
        self._is_open = False
        self._transport.abort()

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # A peer that is gone already has no address any more.
        peer = transport.get_extra_info("peername")
        self.peer = str(Address(*peer[:2])) if peer else "a peer"
        self.ip = peer[0] if peer else ""
        self.is_local = is_of_this_machine(transport)
        self.deadline_s = self._deadlines.refresh() + self._limits.idle_timeout_s
        self._owner.on_accepted(self)

    def data_received(self, data: bytes) -> None:
        if not self._is_open:
            return
        if self._session is not None:
            self._continue_handshake(self._session, data)
            return
        if self._proxy_header is not None:
            try:
                data = self._proxy_header.take(data)
            except BadProxyHeader as error:
                self._refuse(str(error))
                return
            if not data:
                return
        try:
            encrypts = is_encrypted(data[0], self._mode)
        except TlsRefused as error:
            self._refuse(str(error))
            return
        if encrypts and self._tls is not None:
            self._start_tls(self._tls, data)
        else:
            self._open(self._transport, data)

    def connection_lost(self, _error: Exception | None) -> None:
        if self._session is not None and self._is_open:
            self._warn("it closed the connection during the TLS handshake")
        self._is_open = False
        self._owner.on_detected(self)

    # Private.

    @property
    def _mode(self) -> TlsMode:
        return TlsMode.DISABLED if self._tls is None else self._tls.mode

    def _start_tls(self, tls: ServerTls, data: bytes) -> None:
        if tls.context is not None:
            self._start_handshake(tls.context, data)
            return
        self._transport.pause_reading()
        tls.make_context().add_done_callback(partial(self._on_context_made, data))

    def _on_context_made(self, data: bytes, making: "asyncio.Future[ssl.SSLContext]") -> None:
        if making.cancelled() or not self._is_open:
            return
        try:
            context = making.result()
        except TlsNotUsable as error:
            self._refuse(str(error))
            return
        self._transport.resume_reading()
        self._start_handshake(context, data)

    def _start_handshake(self, context: "ssl.SSLContext", data: bytes) -> None:
        self._session = TlsSession(context)
        # One deadline for the whole handshake, however its bytes arrive.
        self.deadline_s = self._deadlines.refresh() + self._limits.handshake_timeout_s
        self._continue_handshake(self._session, data)

    def _continue_handshake(self, session: TlsSession, data: bytes) -> None:
        try:
            is_done = session.handshake(data)
        except ssl.SSLError as error:
            self._transport.write(session.to_send())  # An alert gives the peer the reason.
            self._refuse(tls_failure(error, TlsSide.SERVER))
            return
        self._transport.write(session.to_send())
        if is_done:
            self._open(self._transport, b"", session)

    def _open(
        self, socket: asyncio.Transport, data: bytes, session: TlsSession | None = None
    ) -> None:
        connection = self._new_connection()
        if self._proxy_header is not None:
            cast("ForwardedConnection", connection).source = self._proxy_header.source
        self._is_open = False
        self._owner.on_detected(self)
        if session is None:
            socket.set_protocol(connection)
            connection.connection_made(socket)
            connection.data_received(data)
        else:
            transport = TlsTransport(socket, session, connection)
            socket.set_protocol(transport)
            connection.connection_made(transport)
            # A quick peer has sent more already, after the end of its handshake.
            transport.data_received(data)

    def _refuse(self, reason: str) -> None:
        self._warn(reason)
        self.close(reason)

    def _warn(self, reason: str) -> None:
        self._deadlines.warnings.warning("TLS detection", f"closing {self.peer}: {reason}")
