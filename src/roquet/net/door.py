"""Who stands at the door: the first bytes of a peer decide whether it is let in, and how.

    0x16 ...    a TLS handshake
    0x00 ...    a frame, which is never so long that its length begins otherwise

Once the peer is in, the door is gone: a plain connection hears from its socket directly.
"""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast, final

from roquet.net.connection import Connection
from roquet.net.errors import TlsNotUsable, TlsRefused
from roquet.net.limits import ConnectionLimits
from roquet.net.listening import is_of_this_machine
from roquet.net.tls.contexts import ServerTls, is_encrypted
from roquet.net.tls.reasons import TlsSide, tls_failure
from roquet.net.tls.settings import TlsMode
from roquet.net.tls.transport import TlsSession, TlsTransport
from roquet.net.watch import CLOSING_TIMEOUT_S, Watch
from roquet.protocol.host import Address


class Doorkeeper(Protocol):
    def knocked(self, door: "Door") -> None: ...

    def left(self, door: "Door") -> None:
        """The peer is in, or gone."""


@final
class Door(asyncio.Protocol):
    """`let_in` makes the connection of a peer that may come in. Without `tls` only plain ones."""

    __slots__ = (
        "_is_open",
        "_keeper",
        "_let_in",
        "_limits",
        "_session",
        "_tls",
        "_transport",
        "_watch",
        "deadline_s",
        "ip",
        "is_local",
        "peer",
    )

    def __init__(
        self,
        keeper: Doorkeeper,
        let_in: Callable[[], Connection],
        watch: Watch,
        limits: ConnectionLimits,
        tls: ServerTls | None,
    ) -> None:
        self._keeper = keeper
        self._let_in = let_in
        self._watch = watch
        self._limits = limits
        self._tls = tls
        self._session: TlsSession | None = None
        self._is_open = True
        self.deadline_s = float("inf")
        self.ip = ""
        self.is_local = False
        self.peer = ""

    # What the watch and the keeper do.

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
            self._complain(f"it did not complete a TLS handshake within {limit_s:g} s")
            self.abort("slow handshake")

    def close(self, _reason: str) -> None:
        self._is_open = False
        self.deadline_s = self._watch.now_s + CLOSING_TIMEOUT_S
        self._transport.close()

    def abort(self, _reason: str) -> None:
        self._is_open = False
        self._transport.abort()

    # What the transport reports.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # A peer that is gone already has no address any more.
        peer = transport.get_extra_info("peername")
        self.peer = str(Address(*peer[:2])) if peer else "a peer"
        self.ip = peer[0] if peer else ""
        self.is_local = is_of_this_machine(transport)
        self.deadline_s = self._watch.refresh() + self._limits.idle_timeout_s
        self._keeper.knocked(self)

    def data_received(self, data: bytes) -> None:
        if not self._is_open:
            return
        if self._session is not None:
            self._shake_hands(self._session, data)
            return
        try:
            encrypts = is_encrypted(data[0], self._mode)
        except TlsRefused as error:
            self._refuse(str(error))
            return
        if encrypts and self._tls is not None:
            self._begin(self._tls, data)
        else:
            self._open(self._transport, data)

    def connection_lost(self, _error: Exception | None) -> None:
        if self._session is not None and self._is_open:
            self._complain("it hung up during the TLS handshake")
        self._is_open = False
        self._keeper.left(self)

    # How it is done.

    @property
    def _mode(self) -> TlsMode:
        return TlsMode.DISABLED if self._tls is None else self._tls.mode

    def _begin(self, tls: ServerTls, data: bytes) -> None:
        if tls.context is not None:
            self._greet(tls.context, data)
            return
        self._transport.pause_reading()
        tls.make_context().add_done_callback(partial(self._begin_late, data))

    def _begin_late(self, data: bytes, making: asyncio.Future[ssl.SSLContext]) -> None:
        if making.cancelled() or not self._is_open:
            return
        try:
            context = making.result()
        except TlsNotUsable as error:
            self._refuse(str(error))
            return
        self._transport.resume_reading()
        self._greet(context, data)

    def _greet(self, context: ssl.SSLContext, data: bytes) -> None:
        self._session = TlsSession(context)
        # It has to be enough for all of it, however it comes.
        self.deadline_s = self._watch.refresh() + self._limits.handshake_timeout_s
        self._shake_hands(self._session, data)

    def _shake_hands(self, session: TlsSession, data: bytes) -> None:
        try:
            is_done = session.shake_hands(data)
        except ssl.SSLError as error:
            self._transport.write(session.to_send())  # The peer is told why.
            self._refuse(tls_failure(error, TlsSide.ANSWERING))
            return
        self._transport.write(session.to_send())
        if is_done:
            self._open(self._transport, b"", session)

    def _open(
        self, socket: asyncio.Transport, data: bytes, session: TlsSession | None = None
    ) -> None:
        connection = self._let_in()
        self._is_open = False
        self._keeper.left(self)
        if session is None:
            socket.set_protocol(connection)
            connection.connection_made(socket)
            connection.data_received(data)
        else:
            transport = TlsTransport(socket, session, connection)
            socket.set_protocol(transport)
            connection.connection_made(transport)
            # A quick peer has said more already, behind its last word of the handshake.
            transport.data_received(data)

    def _refuse(self, reason: str) -> None:
        self._complain(reason)
        self.close(reason)

    def _complain(self, reason: str) -> None:
        self._watch.complain("at the door", f"closing {self.peer}: {reason}")
