"""A stream of bytes between two servers, plain or encrypted: the replication link.

Requests go through `Connection`. This is for the logs of brokers: sends from mapped files,
receives into a buffer of the caller, and hides encryption from both.
"""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol, final

from roquet.net.errors import TlsRefused
from roquet.net.tls.contexts import ServerTls, TlsSide, is_encrypted, tls_failure
from roquet.net.tls.transport import TlsSession

# This much is encrypted at a time, and may be buffered until the socket takes it.
_ENCRYPTED_SIZE_MAX: Final = 256 * 1024
_RECEIVED_SIZE_MAX: Final = 256 * 1024


class ByteStream(Protocol):
    """Belongs to the event loop. Failures are OSError or TlsRefused."""

    async def receive_into(self, buffer: memoryview) -> int:
        """How many bytes were received; 0 at the end of the stream."""

    def send_some(self, buffers: Sequence[bytes | memoryview]) -> int:
        """How many bytes of them were taken; the buffers may be reused afterwards."""

    @property
    def is_full(self) -> bool:
        """Whether `send_some` takes more only after `until_writable`."""

    async def until_writable(self) -> None: ...

    async def send_all(self, data: bytes) -> None: ...

    def close(self) -> None: ...


@final
class PlainStream:
    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.is_full = False

    async def receive_into(self, buffer: memoryview) -> int:
        return await asyncio.get_running_loop().sock_recv_into(self._socket, buffer)

    def send_some(self, buffers: Sequence[bytes | memoryview]) -> int:
        try:
            size = self._socket.sendmsg(buffers)
        except BlockingIOError:
            size = 0
        self.is_full = size < sum(map(len, buffers))
        return size

    async def until_writable(self) -> None:
        await _until_writable(self._socket)
        self.is_full = False

    async def send_all(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    def close(self) -> None:
        self._socket.close()


@final
class TlsStream:
    """`side` is the local one. Both directions may be used at once, each by one task."""

    def __init__(self, sock: socket.socket, session: TlsSession, side: TlsSide) -> None:
        self._socket = sock
        self._session = session
        self._side = side
        self._received = memoryview(bytearray(_RECEIVED_SIZE_MAX))
        # Encrypted already, in the order in which it has to be sent.
        self._unsent = b""

    @property
    def is_full(self) -> bool:
        return bool(self._unsent)

    async def handshake(self, received: bytes = b"") -> None:
        """`received` is what the peer has sent already. Raises TlsRefused and OSError."""
        data = memoryview(received)
        try:
            while not self._session.handshake(data):
                await self._send_encrypted()
                data = await self._receive()
                if not data:
                    raise TlsRefused(
                        "it closed the connection during the TLS handshake, see its log"
                    )
            await self._send_encrypted()
        except ssl.SSLError as error:
            with suppress(OSError):
                self._try_to_send()  # An alert gives the peer the reason, if it is still there.
            raise TlsRefused(tls_failure(error, self._side)) from None

    async def receive_into(self, buffer: memoryview) -> int:
        try:
            while (size := self._session.decrypt_into(buffer)) is None:
                data = await self._receive()
                if not data:
                    return 0
                self._session.take(data)
        except ssl.SSLError as error:
            # With TLS 1.3 a server reports only now that it rejects our certificate.
            raise TlsRefused(tls_failure(error, self._side)) from None
        return size

    def send_some(self, buffers: Sequence[bytes | memoryview]) -> int:
        if self._unsent:
            self._try_to_send()
        if self._unsent:
            return 0
        # One copy, so that small pieces share a TLS record; encrypting would copy them anyway.
        taken = _joined(buffers, _ENCRYPTED_SIZE_MAX)
        self._session.encrypt(taken)
        self._try_to_send()
        return len(taken)

    async def until_writable(self) -> None:
        while self._unsent:
            await _until_writable(self._socket)
            self._try_to_send()

    async def send_all(self, data: bytes) -> None:
        self._session.encrypt(data)
        await self._send_encrypted()

    def close(self) -> None:
        self._socket.close()

    async def _receive(self) -> memoryview:
        size = await asyncio.get_running_loop().sock_recv_into(self._socket, self._received)
        return self._received[:size]

    async def _send_encrypted(self) -> None:
        data, self._unsent = self._unsent + self._session.to_send(), b""
        if data:
            await asyncio.get_running_loop().sock_sendall(self._socket, data)

    def _try_to_send(self) -> None:
        self._unsent += self._session.to_send()
        if self._unsent:
            with suppress(BlockingIOError):
                self._unsent = self._unsent[self._socket.send(self._unsent) :]


class Accepted(NamedTuple):
    stream: ByteStream
    received: bytes  # The first byte of a plain peer.


async def accept_stream(sock: socket.socket, tls: ServerTls | None) -> Accepted:
    """For a peer that connected to us; its first byte decides. Without `tls` all are plain.

    Raises TlsRefused, TlsNotUsable and OSError. The caller closes the socket, and limits the time.
    """
    received = await asyncio.get_running_loop().sock_recv(sock, 1)
    if tls is None or not received or not _is_encrypted(sock, received, tls):
        return Accepted(PlainStream(sock), received)
    # Other connections may wait for the same context.
    context = tls.context
    if context is None:
        context = await asyncio.shield(tls.make_context())
    stream = TlsStream(sock, TlsSession(context), TlsSide.SERVER)
    await stream.handshake(received)
    return Accepted(stream, b"")


def _is_encrypted(sock: socket.socket, received: bytes, tls: ServerTls) -> bool:
    try:
        return is_encrypted(received[0], tls.mode)
    except TlsRefused:
        # A socket closed with unread bytes sends a reset, and the peer sees an error, not an end.
        with suppress(OSError):
            sock.recv(_RECEIVED_SIZE_MAX)
        raise


async def connect_stream(
    sock: socket.socket, host: str, context: "ssl.SSLContext | None"
) -> ByteStream:
    """For a peer that we connected to; encrypted with a context. Raises as `accept_stream`."""
    if context is None:
        return PlainStream(sock)
    stream = TlsStream(sock, TlsSession(context, host), TlsSide.CLIENT)
    await stream.handshake()
    return stream


async def accepted(listening: socket.socket) -> tuple[socket.socket, Any]:
    """A connection and the address of its peer. Raises OSError.

    Asyncio's own asks whether the socket is one of TLS, and loads four megabytes for that.
    """
    loop = asyncio.get_running_loop()
    is_readable = asyncio.Event()
    loop.add_reader(listening, is_readable.set)
    try:
        while True:
            with suppress(BlockingIOError):
                return listening.accept()
            is_readable.clear()
            await is_readable.wait()
    finally:
        loop.remove_reader(listening)


async def _until_writable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    is_writable = asyncio.Event()
    loop.add_writer(sock, is_writable.set)
    try:
        await is_writable.wait()
    finally:
        loop.remove_writer(sock)


def _joined(buffers: Sequence[bytes | memoryview], size_max: int) -> bytes:
    pieces: list[Any] = []
    for buffer in buffers:
        if not size_max:
            break
        pieces.append(buffer[:size_max])
        size_max -= len(pieces[-1])
    return b"".join(pieces)
