"""Encryption between a connection and its socket.

To the connection it is a transport, to the socket a protocol. The event loops have their own, but
it has to read the first bytes itself, and holds a quarter of a megabyte for each peer.
"""

import asyncio
import contextlib
import ssl
from typing import Any, Final, cast, final

# TLS records are at most this long.
_RECORD_SIZE_MAX: Final = 16 * 1024


@final
class TlsSession:
    """One encrypted stream without a socket: bytes in, bytes out.

    With `server_host` it is the client side, otherwise the server side.
    """

    __slots__ = ("_incoming", "_outgoing", "_tls")

    def __init__(self, context: "ssl.SSLContext", server_host: str | None = None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_host is None,
            server_hostname=server_host,
        )

    def handshake(self, data: bytes | memoryview) -> bool:
        """Whether the handshake is complete now. Raises SSLError."""
        self._incoming.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def decrypted(self, data: bytes) -> tuple[bytes, bool]:
        """What the peer sent, and whether it has closed the stream. Raises SSLError."""
        self._incoming.write(data)
        pieces = []
        try:
            while piece := self._tls.read(_RECORD_SIZE_MAX):
                pieces.append(piece)
        except ssl.SSLWantReadError:
            return b"".join(pieces), False
        return b"".join(pieces), True

    def take(self, data: memoryview) -> None:
        """Takes bytes of the peer for `decrypt_into`."""
        self._incoming.write(data)

    def decrypt_into(self, buffer: memoryview) -> int | None:
        """How many bytes were decrypted; 0 at the end, None if more are needed. Raises SSLError."""
        size = 0
        try:
            while size < len(buffer):
                # The type stubs have only the other form, which returns bytes.
                read = cast("int", self._tls.read(len(buffer) - size, buffer[size:]))
                if not read:
                    return size
                size += read
        except ssl.SSLWantReadError:
            return size or None
        return size

    def encrypt(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]

    def close_notify(self) -> None:
        # The peer has not answered yet, and need not.
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()

    def to_send(self) -> bytes:
        """The bytes to send to the peer, once."""
        return self._outgoing.read()


@final
class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """Passes what `session` decrypts from `socket` to `connection`, and encrypts its writes."""

    __slots__ = ("_connection", "_error", "_session", "_socket")

    def __init__(
        self, socket: asyncio.Transport, session: TlsSession, connection: asyncio.Protocol
    ) -> None:
        self._socket = socket
        self._session = session
        self._connection = connection
        self._error: ssl.SSLError | None = None

    # Called by the connection.

    def write(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        if not self._socket.is_closing():
            self._session.encrypt(bytes(data))
            self._send()

    def close(self) -> None:
        if not self._socket.is_closing():
            self._session.close_notify()
            self._send()
            self._socket.close()

    def abort(self) -> None:
        self._socket.abort()

    def is_closing(self) -> bool:
        return self._socket.is_closing()

    def pause_reading(self) -> None:
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._socket.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._socket.get_extra_info(name, default)

    # Called by the socket.

    def data_received(self, data: bytes) -> None:
        try:
            text, is_last = self._session.decrypted(data)
        except ssl.SSLError as error:
            # The stream was tampered with: bytes decrypted just before it are dropped, too.
            self._error = error
            self._send()
            self._socket.close()
            return
        self._send()
        if text:
            # All of it at once, as from a plain socket: replies leave in one write, too.
            self._connection.data_received(text)
        if is_last:
            self.close()

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.connection_lost(error or self._error)

    def _send(self) -> None:
        data = self._session.to_send()
        if data:
            self._socket.write(data)
