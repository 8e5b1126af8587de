"""A stream between two servers, plain or encrypted, for who moves many bytes of its own.

Frames of requests go through `Connection`. This is for the logs of brokers: what is sent lies in
mapped files, what is received goes where the receiver wants it, and neither knows of encryption.
"""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol, final

from roquet.net.errors import TlsRefused
from roquet.net.tls.contexts import ServerTls, is_encrypted
from roquet.net.tls.reasons import TlsSide, tls_failure
from roquet.net.tls.transport import TlsSession

# So much is encrypted at a time, and may lie here until the network takes it.
_ENCRYPTED_SIZE_MAX: Final = 256 * 1024
_RECEIVED_SIZE_MAX: Final = 256 * 1024


class Wire(Protocol):
    """Belongs to the event loop. What is wrong with it is an OSError or TlsRefused."""

    async def receive_into(self, buffer: memoryview) -> int:
        """How many bytes have come; 0 when there will be no more."""

    def send_some(self, buffers: Sequence[bytes | memoryview]) -> int:
        """How many bytes of them were taken; nothing of them is needed afterwards."""

    @property
    def is_full(self) -> bool:
        """Whether more is taken only after `until_writable`."""

    async def until_writable(self) -> None: ...

    async def send_all(self, data: bytes) -> None: ...

    def close(self) -> None: ...


@final
class PlainWire:
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
class EncryptedWire:
    """`side` is who we are. Both directions may be used at once, each by one task."""

    def __init__(self, sock: socket.socket, session: TlsSession, side: TlsSide) -> None:
        self._socket = sock
        self._session = session
        self._side = side
        self._received = memoryview(bytearray(_RECEIVED_SIZE_MAX))
        # Encrypted already, in the order in which it has to leave.
        self._leaving = b""

    @property
    def is_full(self) -> bool:
        return bool(self._leaving)

    async def shake_hands(self, heard: bytes = b"") -> None:
        """`heard` is what the peer has said already. Raises TlsRefused and OSError."""
        data = memoryview(heard)
        try:
            while not self._session.shake_hands(data):
                await self._send_encrypted()
                data = await self._hear()
                if not data:
                    raise TlsRefused("it hung up during the TLS handshake; its log may say why")
            await self._send_encrypted()
        except ssl.SSLError as error:
            with suppress(OSError):
                self._try_to_send()  # The peer is told why, if it is still there.
            raise TlsRefused(tls_failure(error, self._side)) from None

    async def receive_into(self, buffer: memoryview) -> int:
        try:
            while (size := self._session.decrypt_into(buffer)) is None:
                data = await self._hear()
                if not data:
                    return 0
                self._session.take(data)
        except ssl.SSLError as error:
            # With TLS 1.3 a server says only now that it does not take our certificate.
            raise TlsRefused(tls_failure(error, self._side)) from None
        return size

    def send_some(self, buffers: Sequence[bytes | memoryview]) -> int:
        if self._leaving:
            self._try_to_send()
        if self._leaving:
            return 0
        # One copy, so that small pieces share a record; encrypting would make it anyway.
        taken = _joined(buffers, _ENCRYPTED_SIZE_MAX)
        self._session.encrypt(taken)
        self._try_to_send()
        return len(taken)

    async def until_writable(self) -> None:
        while self._leaving:
            await _until_writable(self._socket)
            self._try_to_send()

    async def send_all(self, data: bytes) -> None:
        self._session.encrypt(data)
        await self._send_encrypted()

    def close(self) -> None:
        self._socket.close()

    async def _hear(self) -> memoryview:
        size = await asyncio.get_running_loop().sock_recv_into(self._socket, self._received)
        return self._received[:size]

    async def _send_encrypted(self) -> None:
        data, self._leaving = self._leaving + self._session.to_send(), b""
        if data:
            await asyncio.get_running_loop().sock_sendall(self._socket, data)

    def _try_to_send(self) -> None:
        self._leaving += self._session.to_send()
        if self._leaving:
            with suppress(BlockingIOError):
                self._leaving = self._leaving[self._socket.send(self._leaving) :]


class Accepted(NamedTuple):
    wire: Wire
    heard: bytes  # The first byte of a peer that is plain.


async def accepted_wire(sock: socket.socket, tls: ServerTls | None) -> Accepted:
    """For a peer that has called us, as its first byte says; without `tls` all are plain.

    Raises TlsRefused, TlsNotUsable and OSError. The caller closes the socket, and limits the time.
    """
    heard = await asyncio.get_running_loop().sock_recv(sock, 1)
    if tls is None or not heard or not _is_encrypted(sock, heard, tls):
        return Accepted(PlainWire(sock), heard)
    # Others may wait for the same one.
    context = tls.context
    if context is None:
        context = await asyncio.shield(tls.make_context())
    wire = EncryptedWire(sock, TlsSession(context), TlsSide.ANSWERING)
    await wire.shake_hands(heard)
    return Accepted(wire, b"")


def _is_encrypted(sock: socket.socket, heard: bytes, tls: ServerTls) -> bool:
    try:
        return is_encrypted(heard[0], tls.mode)
    except TlsRefused:
        # Who is closed with something unread is told of an error on the way instead of an end.
        with suppress(OSError):
            sock.recv(_RECEIVED_SIZE_MAX)
        raise


async def calling_wire(sock: socket.socket, host: str, context: ssl.SSLContext | None) -> Wire:
    """For a peer that we have called; encrypted with a context. Raises as `accepted_wire` does."""
    if context is None:
        return PlainWire(sock)
    wire = EncryptedWire(sock, TlsSession(context, host), TlsSide.CALLING)
    await wire.shake_hands()
    return wire


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
