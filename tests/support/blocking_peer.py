"""A peer with a plain blocking socket: nothing but the codec between the test and the wire."""

import socket
from itertools import count
from types import TracebackType
from typing import Self

from roquet.protocol.codes import RequestCode
from roquet.protocol.command import Command, decode_command, encode_command
from roquet.protocol.fields import Header, fields_of
from roquet.protocol.frame import SERIALIZER_JSON
from roquet.protocol.frame_decoder import FrameDecoder
from tests.support.accounts import signed
from tests.support.signing import operator

_TIMEOUT_S = 20.0
_PIECE_SIZE = 64 * 1024


class PeerGone(Exception):
    """The other side closed the connection before it answered."""


class BlockingPeer:
    """One connection, one request at a time."""

    def __init__(
        self, address: str, serializer: int = SERIALIZER_JSON, *, timeout_s: float = _TIMEOUT_S
    ) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout_s)
        self._serializer = serializer
        self._frames = FrameDecoder()
        self._opaques = count(1)

    def call(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> Command:
        """The reply, whatever its code. What the server asks meanwhile is left unanswered."""
        request = Command(
            code,
            next(self._opaques),
            fields=fields_of(header),
            body=body,
            serializer=self._serializer,
        )
        self._socket.sendall(encode_command(signed(request, operator())))
        while True:
            for frame in self._frames.cut(self._receive()):
                command = decode_command(frame)
                if command.is_response and command.opaque == request.opaque:
                    return command

    @property
    def address(self) -> tuple[str, int]:
        """Our own end, as the other side sees it."""
        host, port = self._socket.getsockname()
        return host, port

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _receive(self) -> bytes:
        data = self._socket.recv(_PIECE_SIZE)
        if not data:
            raise PeerGone("the peer closed the connection")
        return data
